"""tools/gpu_check.sh from end to end on the tests' driver, and the fit of the model's constants on times that known constants
make.

    gpu_check_test.py BUILD_DIR FAKE_DRIVER_DIR [unittest arguments]
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
BUILD, FAKE = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import fit_model  # noqa: E402

ASSUMED = {"gpu": "H100", "multiprocessors": 132, "clock_ghz": 1.83, "copy_tb_s": 3.0, "latency_ns": 700.0, "doubles_per_clock": 64,
           "launch_us": 5.0}


def loop(**changed):
    """One that moves enough at once for memory to be its limit."""
    return {"elements": 4, "instructions": 200, "special": 20, "doubles": 0, "loaded": 64, "stored": 48, "loads": 4, "loads_at_once": 4,
            "exposed_cycles": 500, "blocks": 4, "warps": 32, "splits": False, **changed}


class Fit(unittest.TestCase):
    MEMORY, LATENCY = loop(), loop(loaded=4, stored=0, loads=1, loads_at_once=1, instructions=30, exposed_cycles=100, blocks=3, warps=24)
    SIZES = [1 << 20, 1 << 24, 1 << 27, 1 << 30]
    TRUE = dict(ASSUMED, copy_tb_s=2.71, latency_ns=913.0, launch_us=7.5)

    def times(self, loops, noise=0.0):
        draw = random.Random(5)
        return [(l, n, fit_model.predict(l, self.TRUE, n)[0] * (1 + draw.uniform(-noise, noise))) for l in loops for n in self.SIZES]

    def close(self, fitted, tolerance):
        for name in fit_model.FITTED:
            self.assertLess(abs(fitted[name] / self.TRUE[name] - 1), tolerance, (name, fitted[name]))

    def test_known_constants_come_back(self):
        fitted, limits, rest = fit_model.fit(self.times([self.MEMORY, self.LATENCY]), ASSUMED)
        self.close(fitted, 0.01)
        self.assertLess(rest, 0.005)
        self.assertLessEqual(set(fit_model.FITTED), limits)

    def test_through_noise(self):
        self.close(fit_model.fit(self.times([self.MEMORY, self.LATENCY], 0.03), ASSUMED)[0], 0.05)

    def test_what_limits_nothing_is_kept_and_said_so(self):
        fitted, limits, _ = fit_model.fit(self.times([self.MEMORY]), ASSUMED)
        self.assertNotIn("latency_ns", limits)
        self.assertEqual(fitted["latency_ns"], ASSUMED["latency_ns"])
        self.assertLess(abs(fitted["copy_tb_s"] / 2.71 - 1), 0.01)

    def test_the_model_is_the_tools(self):
        """The times that `explain --sass` prints are those of this file's model without a launch."""
        if not os.environ.get("STEPFUSE_NVDISASM"):
            self.skipTest("no nvdisasm")
        words = [BUILD / "bin/stepfuse", "explain", "adamw", "--loss-scale", "--clip", "--params", "1e9", "--arch", "sm_90", "--sass"]
        text, out = (subprocess.run([*words, *more], check=True, capture_output=True, text=True,
                                    env={**os.environ, "STEPFUSE_CACHE": "off"}).stdout for more in ([], ["--json"]))
        report = json.loads(out)["sass"][0]
        for gpu in report["gpus"]:
            gpu["launch_us"] = 0
            ms = sum(fit_model.predict(l, gpu, 10**9)[0] for l in report["loops"])
            self.assertRegex(text, rf"(?m)^{gpu['gpu']} +{ms:.3f} ")


class Whole(unittest.TestCase):
    def test_it_runs_from_end_to_end(self):
        if not (FAKE / "libcuda.so.1").exists() or not os.environ.get("STEPFUSE_NVRTC_DIR"):
            self.skipTest("no fake driver was built, or no NVRTC is here")
        environment = {**os.environ, "LD_LIBRARY_PATH": str(FAKE), "STEPFUSE_CUDA_CODE": "ptx", "STEPFUSE_CACHE": "off",
                       "STEPFUSE_GPU_TESTS_ON_FAKE_DRIVER": "1"}
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            done = subprocess.run([TOOLS / "gpu_check.sh", "--smoke", "--build", BUILD, "--out", out], env=environment,
                                  capture_output=True, text=True, timeout=600, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual((out / "bits.txt").read_text().count("bit-identical: "), 3)
            self.assertIn("SUCCESS", (out / "tests.txt").read_text())
            bench = json.loads((out / "gpu_check.json").read_text())
            self.assertEqual([c["params"] for c in bench["cases"]], [1024, 4096])
            for case in bench["cases"]:
                series = {s["name"]: s for s in case["series"]}
                self.assertEqual(set(series), {"fused", "fused_moved", "split", "unfused", "observe", "after_observe", "fused_graph"})
                self.assertEqual([series[n]["bytes_per_param"] for n in ("fused", "observe", "after_observe")], [32, 4, 28])
                self.assertGreater(min(min(s["device_ms"]) for s in series.values()), 0)
                self.assertGreater(min(case["copy_gbs"]), 0)
            options = json.loads((out / "gpu_options.json").read_text())["cases"][0]
            self.assertLess({"fused min-blocks=3", "fused min-blocks=4"}, {s["name"] for s in options["series"]})
            self.assertIn("left out", (out / "peers.txt").read_text())
            if os.environ.get("STEPFUSE_NVDISASM"):
                self.assertEqual(json.loads((out / "fitted.json").read_text())["device"], bench["device"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
