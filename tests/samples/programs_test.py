#!/usr/bin/env python3
"""Runs the samples as a user does, and compares the README's snippet with the program it is from.

    programs_test.py SOURCE_DIR BIN_DIR
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
import xml.etree.ElementTree as ElementTree

SOURCE = pathlib.Path(sys.argv[1])
BIN = pathlib.Path(sys.argv[2])


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)


def without_llvm():
    """The reason to skip what runs compiled kernels, or an empty string."""
    said = run(BIN / "embed").stderr
    return said.strip() if "LLVM" in said else ""


SKIP = without_llvm()


class Embed(unittest.TestCase):
    @unittest.skipIf(SKIP, SKIP)
    def test_minimises(self):
        done = run(BIN / "embed")
        self.assertEqual(done.returncode, 0, done.stderr)
        final = [float(x) for x in re.findall(r"(?:weight|bias) (\S+?)(?:,|$)", done.stdout, re.M)]
        self.assertEqual(len(final), 2, done.stdout)
        for value in final:
            self.assertLess(abs(value), 0.1, "the parameters began at 1 and should be near 0")

    def test_readme_shows_this_program(self):
        readme = (SOURCE / "README.md").read_text(encoding="utf-8")
        found = re.search(r"<!-- samples/embed/main.cpp -->\n```cpp\n(.*?)```", readme, re.S)
        self.assertTrue(found, "README.md has a block marked <!-- samples/embed/main.cpp -->")
        program = (SOURCE / "samples/embed/main.cpp").read_text(encoding="utf-8")
        body = textwrap.dedent(program.split("int main() {\n")[1].rsplit("}\n", 1)[0])
        self.assertIn(found[1], body, "README.md shows lines of main() as they are")


class TrainDigits(unittest.TestCase):
    def train(self, *options):
        with tempfile.TemporaryDirectory() as out:
            done = run(BIN / "train_digits", "--out", out, *options)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            svg = (pathlib.Path(out) / "train_digits.svg").read_text(encoding="utf-8")
        return done.stdout, svg

    def rows(self, text):
        lines = (line.split() for line in text.splitlines())
        return {f[0]: f for f in lines if f and f[0] in ("off", "fixed", "dynamic")}

    @unittest.skipIf(SKIP, SKIP)
    def test_scaling_decides(self):
        text, svg = self.train()
        rows = self.rows(text)
        percent = {name: [float(f[:-1]) for f in row if f.endswith("%")] for name, row in rows.items()}
        self.assertGreater(percent["off"][0], 30, "share of underflow without scaling")
        self.assertLess(percent["dynamic"][0], 1)
        self.assertLess(percent["off"][1], 30, "accuracy without scaling")
        for scaling in ("fixed", "dynamic"):
            self.assertGreater(percent[scaling][1], 90, "accuracy with scaling")
        self.assertGreater(int(rows["dynamic"][4]), 0, "dynamic scaling finds its limit by skipping")
        root = ElementTree.fromstring(svg)
        self.assertTrue(root.tag.endswith("svg"))
        self.assertNotIn("nan", svg)

    @unittest.skipIf(SKIP, SKIP)
    def test_forms_and_devices_agree(self):
        digests = set()
        for options in (["--form", "split"], ["--form", "unfused"], ["--device", "interpret"]):
            rows = self.rows(self.train("--epochs", "1", *options)[0])
            self.assertTrue(all(row[-1] == "yes" for row in rows.values()), rows)
            digests.add(tuple(row[-2] for row in rows.values()))
        self.assertEqual(len(digests), 1, "CPU and interpreter, all forms")

    def test_says_what_is_wrong(self):
        done = run(BIN / "train_digits", "--data", "/no/such.csv")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such.csv", done.stderr)
        self.assertNotEqual(run(BIN / "train_digits", "--form", "fast").returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
