"""The verbs that are about this machine: what a step takes on it, and whether it has the right bits there."""

import json
import os
import pathlib
import re
import tempfile
import xml.etree.ElementTree

from case import ENV, SOURCE, Case, call, main


class SelfTest(Case):
    def test_every_device_that_is_here_has_the_interpreters_bits(self):
        text = self.ok("selftest")
        self.assertRegex(text, r"(?m)^interpreter +works ")
        self.assertRegex(text, r"(?m)^CPU, x86-64 +bit-identical +9 kernels in ")
        self.assertRegex(text, r"(?m)^ok: ")

    def test_without_a_compiler_it_says_so_and_fails(self):
        done = call("selftest", environment={"STEPFUSE_LLVM_LIBRARY": "/nonexistent", "STEPFUSE_NVRTC_DIR": "/nonexistent"})
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertRegex(done.stdout.decode(), r"(?m)^CPU +not here +\S")
        self.assertIn("FAILED: no device works here", done.stdout.decode())

    def test_a_device_on_the_fake_driver(self):
        driver = os.environ.get("STEPFUSE_FAKE_DRIVER", "")
        if not pathlib.Path(driver, "libcuda.so.1").exists() or not ENV["nvrtc"]["available"]:
            self.skipTest("no fake driver was built, or no NVRTC is here")
        text = self.ok("selftest", environment={"LD_LIBRARY_PATH": driver, "STEPFUSE_CUDA_CODE": "ptx"})
        self.assertRegex(text, r"(?m)^CUDA 0, .* bit-identical ")


class Bench(Case):
    SMALL = ["--params", "20000", "--rounds", "2"]

    def test_the_table_has_forms_streams_and_the_floor(self):
        text = self.ok("bench", "adamw", "--loss-scale", "--clip", *self.SMALL, "--threads", "1")
        self.assertIn("20,000 parameters in 1 tensor", text)
        for row, bytes_ in (("fused", 32), ("split", 32), ("unfused", 48), ("stream", 28),
                            ("reading", 16)):
            self.assertRegex(text, rf"(?m)^{row}, 1 thread +\S+ +\S+ +{bytes_} ")

    def test_json_has_every_turn(self):
        out = json.loads(self.ok("bench", "sgd", *self.SMALL, "--threads", "1,2,1", "--json"))
        threads = sorted({r["threads"] for r in out["streams"]})
        self.assertEqual(threads, [1] if os.cpu_count() == 1 else [1, 2])
        self.assertEqual(len(out["rows"]), 3 * len(threads))
        for row in out["rows"] + out["streams"]:
            self.assertEqual(len(row["seconds"]), 2)
            self.assertGreater(min(row["seconds"]), 0)
            self.assertGreaterEqual(row["median_s"], min(row["seconds"]))

    def test_the_roof_is_that_of_the_phases(self):
        for options, reading in ((("--loss-scale", "--clip"), 4), (("--clip", "--grad", "bf16"), 2), ((), 0)):
            out = json.loads(self.ok("bench", "adamw", *options, *self.SMALL, "--threads", "1", "--json"))
            stream, alone = (s["median_s"] / s["bytes_per_parameter"] for s in out["streams"])
            fused = out["rows"][0]
            self.assertEqual(fused["bytes_of_reading"], reading)
            roof = (fused["bytes_per_parameter"] - reading) * stream + reading * alone
            self.assertAlmostEqual(fused["of_roof"] * fused["median_s"], roof, delta=1e-9 * roof)
            floor = fused["bytes_per_parameter"] * stream
            self.assertAlmostEqual(fused["of_floor"] * fused["median_s"], floor, delta=1e-9 * floor)

    def test_the_picture_is_well_formed(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bench.svg"
            step = pathlib.Path(folder) / "a<b&c.sf"
            step.write_text((SOURCE / "tests/unit/classic.sf").read_text())
            self.ok("bench", step, *self.SMALL, *self.all_set(), "-o", path)
            root = xml.etree.ElementTree.parse(path).getroot()
            self.assertEqual(len(root.findall("{http://www.w3.org/2000/svg}line")), 3)
            self.assertIn("a<b&c.sf", "".join(root.itertext()))

    def test_a_picture_that_cannot_be_written_is_refused_before_the_measurement(self):
        endless = ("--params", "1M", "--rounds", "1000")
        with tempfile.TemporaryDirectory() as folder:
            self.fails(2, "no_such", "bench", "adamw", *endless, "-o", pathlib.Path(folder) / "no_such" / "b.svg")
            self.fails(2, "it is a folder", "bench", "adamw", *endless, "-o", folder)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])

    def test_a_step_of_ones_own_and_the_shapes_of_a_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            head = {"a": {"dtype": "BF16", "shape": [3, 5], "data_offsets": [0, 30]},
                    "b": {"dtype": "F32", "shape": [], "data_offsets": [30, 34]}}
            text = json.dumps(head).encode()
            path = pathlib.Path(folder) / "model.safetensors"
            path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(34))
            out = json.loads(self.ok("bench", SOURCE / "tests/unit/classic.sf", "--layout", path, "--rounds", "1",
                                     "--json", *self.all_set()))
            self.assertEqual((out["parameters"], out["tensors"], out["layout"]), (16, 2, "model"))
            odd = path.rename(pathlib.Path(folder) / "\x1b[2J.safetensors")
            self.assertNotIn("\x1b", self.ok("bench", "sgd", "--layout", odd, "--rounds", "1"))
            odd.rename(path)
            path.write_bytes(b"x")
            self.fails(2, "model.safetensors", "bench", "adamw", "--layout", path)

    def all_set(self):
        """Every argument of the step that has no default."""
        text = (SOURCE / "tests/unit/classic.sf").read_text()
        names = re.findall(r"(?m)^ *arg %(\w+) : [^=\n]*$", text)
        return [w for n in names for w in ("--set", f"{n}=1")]

    def test_beside_pytorch(self):
        done = call("bench", "adamw", "--loss-scale", "--clip", *self.SMALL, "--against", "torch", "--json")
        if done.returncode == 3:
            self.assertIn("pip install torch", done.err)
            self.skipTest("PyTorch is not installed")
        self.assertEqual(done.returncode, 0, done.err)
        names = [r["name"] for r in json.loads(done.stdout)["rows"]]
        self.assertRegex(" ".join(names[3:]), r"^PyTorch \S+ fused PyTorch \S+ foreach$")

    def test_what_cannot_be_compared(self):
        torch = ["--against", "torch", *self.SMALL]
        self.fails(2, "lion has no peer in torch.optim", "bench", "lion", *torch)
        self.fails(2, "by the l2 norm", "bench", "adamw", "--clip=inf", *torch)
        self.fails(2, "16-bit gradients need --master", "bench", "adamw", "--grad", "bf16", *torch)
        self.fails(3, "'no_such_python' cannot be started", "bench", "adamw", *torch, "--python", "no_such_python")
        self.fails(3, "'true' ended before it answered", "bench", "adamw", *torch, "--python", "true")
        self.fails(2, "no elements", "bench", "adamw", "--params", "0")


if __name__ == "__main__":
    main()
