"""Tests of tools/compare_torch.py that need no PyTorch: contestants are small scripts."""

import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import compare_torch  # noqa: E402

# Answers as tools/peers/contestants.py does; `fused` never gets through its first step.
WORKER = """
import json, sys, time
sys.stdin.readline()
if sys.argv[1] == "fused":
    time.sleep(600)
print(json.dumps({"first": 0.5, "checksum": 1.0, "launches": None}), flush=True)
for line in sys.stdin:
    print(json.dumps({"step": 0.1, "host": [0.1], "stream": 0.1, "stream_bytes": 28}), flush=True)
"""


class Comparison(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        worker = pathlib.Path(self.folder.name, "worker.py")
        worker.write_text(WORKER)
        patch = unittest.mock.patch.object(compare_torch, "WORKER", worker)
        patch.start()
        self.addCleanup(patch.stop)

    def compare(self, names):
        return compare_torch.compare("one", [8], 1, 1, names, "cpu", self.folder.name, 3, times_first=True)

    def test_a_slow_first_step_leaves_its_contestant_out(self):
        names = ["stepfuse", "fused", "foreach"]
        result = self.compare(names)
        self.assertEqual(list(result["rows"]), ["stepfuse", "foreach"])
        line = compare_torch.table([result], names).splitlines()[-1]
        self.assertEqual(len(line.split("|")), 2 + len(names) + 5)
        self.assertIn("| - |", line)
        self.assertEqual(compare_torch.charts.compare_torch({"machine": "nothing", "results": [result]}).count("foreach=True"), 1)

    def test_nobody_but_us_may_be_left(self):
        self.assertIn("nan", compare_torch.table([self.compare(["stepfuse", "fused"])], ["stepfuse", "fused"]))


if __name__ == "__main__":
    unittest.main()
