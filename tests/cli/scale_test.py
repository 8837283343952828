"""`stepfuse explain --ranks`: bytes, messages and memory of many ranks, counted by hand."""

import json
import math

from case import Case, main


class Scale(Case):
    def rows(self, *words):
        rows = json.loads(self.ok("explain", *words, "--json"))["scale"]
        return {(r["way"], r["ranks"]): r for r in rows}

    def test_counts(self):
        n = 1_000_000  # f32 gradients, weights, two moments: 4 bytes each
        rows = self.rows("adamw", "--clip", "--loss-scale", "--params", str(n), "--ranks", "2..16384", "--link", "10:5")
        self.assertEqual(len(rows), 3 * 14)
        for ranks in (2, 64, 16384):
            share, hops = (ranks - 1) / ranks, math.log2(ranks)
            ddp, zero, fsdp = (rows[way, ranks] for way in ("DDP", "ZeRO-1", "FSDP"))
            norm = 2 * 8 * share
            self.assertAlmostEqual(ddp["bytes_sent"], 2 * 4 * n * share)
            self.assertAlmostEqual(zero["bytes_sent"], 2 * 4 * n * share + norm)
            self.assertAlmostEqual(fsdp["bytes_sent"], 3 * 4 * n * share + norm)
            self.assertEqual([r["messages"] for r in (ddp, zero, fsdp)], [2 * hops, 4 * hops, 5 * hops])
            self.assertEqual(ddp["memory_bytes"], 16 * n)
            self.assertAlmostEqual(zero["memory_bytes"], 8 * n + 12 * n / ranks)
            self.assertAlmostEqual(fsdp["memory_bytes"], 16 * n / ranks)
            self.assertAlmostEqual(ddp["exposed_ms"], 2 * (hops * 5e-3 + 4 * n * share / 10e6))
            self.assertEqual([ddp["hidden_ms"], ddp["norm_us"]], [0, 0])  # one bucket; equal gradients
            self.assertAlmostEqual(zero["norm_us"], 2 * hops * 5 + 16 / 10e3)
            self.assertAlmostEqual(zero["pieces_us"], hops * 5 + 62 * 2 * 4 * share / 10e3)

    def test_low_precision_and_buckets(self):
        rows = self.rows("adamw", "--grad", "bf16", "--master", "--params", "1e9", "--ranks", "8")
        self.assertEqual(rows["DDP", 8]["memory_bytes"], 16e9)  # 2 + 2 + 12
        self.assertEqual(rows["ZeRO-1", 8]["memory_bytes"], 2e9 + 2.25e9 + 12e9 / 8)
        self.assertEqual(rows["DDP", 8]["messages"], 2 * 80 * 3)  # 80 buckets of 25 MB
        self.assertEqual(rows["ZeRO-1", 8]["norm_us"], 0)  # neither clips nor scales
        self.assertGreater(rows["DDP", 8]["hidden_ms"], 70 * rows["DDP", 8]["exposed_ms"])

    def test_moments_in_a_format(self):
        words = ("adamw", "--moments=fp8", "--params", "256000", "--ranks", "8")
        self.assertEqual(self.rows(*words)["DDP", 8]["memory_bytes"], 256000 * 10 + 2 * 4 * 1000)
        small = self.file("small.json", json.dumps({"name": "small", "tensors": [
            {"name": "a", "shape": [100, 256]}, {"name": "b", "shape": [4095]}]}))
        words = ("adamw", "--moments=fp8", "--moments-below=4096", "--layout", small)
        self.assertEqual(self.rows(*words, "--ranks", "8")["DDP", 8]["memory_bytes"],
                         25600 * 10 + 2 * 4 * 100 + 4095 * 16)
        text = self.ok("explain", *words, "--no-compile")
        self.assertIn("25,600 parameters with grad=f32 weight=f32 exp_avg.fp8.code=f8e4m3", text)
        self.assertIn("4,095 parameters with grad=f32 weight=f32 exp_avg=f32 exp_avg_sq=f32", text)

    def test_text_and_mistakes(self):
        text = self.ok("explain", "adamw", "--clip", "--ranks", "8,64", "--link", "nvlink4")
        for words in ("64 ranks", "Assumptions", "Rabenseifner", "450 GB/s"):
            self.assertIn(words, text)
        for words, said in ((("--ranks", "1..8"), "whole numbers from 2 on"), (("--ranks", "8", "--link", "pigeon"), "GB/s:microseconds"),
                            (("--ranks", "x"), "expected N, N,M or N..M"), (("--ranks", "8-16"), "as in 8..16384; got '8-16'"),
                            (("--ranks", "8", "--link", "50:"), "GB/s:microseconds"), (("--ranks", "64..8"), "is empty")):
            self.fails(2, said, "explain", "adamw", *words)


if __name__ == "__main__":
    main()
