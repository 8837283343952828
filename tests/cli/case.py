"""What the tests of the command line tool share: calling it, and what this machine has.

A test file is called as  FILE BINARY SOURCE_DIR [unittest arguments: a class, a test].
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY, SOURCE = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
LAYOUTS = SOURCE / "samples" / "layouts"
WHOLE = ["adamw", "--grad", "f16", "--master", "--loss-scale", "--clip", "--zero-grad"]
ENVIRONMENT = {**os.environ, "STEPFUSE_CACHE": "off"}
ENV = {}  # what `stepfuse env` says of this machine


def call(*words, text=None, environment=None, folder=None):
    """The finished process; its output is bytes where it is no text."""
    done = subprocess.run([BINARY, *map(str, words)], input=text and text.encode(), capture_output=True, cwd=folder,
                          env={**ENVIRONMENT, **(environment or {})}, timeout=1500, check=False)
    done.err = done.stderr.decode()
    return done


class Case(unittest.TestCase):
    maxDiff = None

    def ok(self, *words, **options):
        done = call(*words, **options)
        self.assertEqual(done.returncode, 0, f"{words}: {done.err}")
        return done.stdout.decode()

    def need_no_sanitizer(self, why):
        if b"AddressSanitizer" in call("--help", environment={"ASAN_OPTIONS": "help=1"}).stderr:
            self.skipTest(f"the tool is built under a sanitizer: {why}")

    def fails(self, code, expected, *words, **options):
        """The message on standard error, which holds every one of the expected parts."""
        done = call(*words, **options)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout} {done.err}")
        for part in [expected] if isinstance(expected, str) else expected:
            self.assertIn(part, done.err)
        return done.err

    def file(self, name, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, name)
        path.write_text(text)
        return path

    def need(self, part):
        found = ENV[part]
        if not found["available"]:
            print(f"skipped: {part}: {found['problem'].splitlines()[0]}")
            self.skipTest(found["problem"])


    def fake_driver(self):
        """The environment of a process that has it as its libcuda.so.1."""
        self.need("nvrtc")
        fake = os.environ.get("STEPFUSE_FAKE_DRIVER")
        if not fake:
            print("skipped: no fake driver was built")
            self.skipTest("STEPFUSE_FAKE_DRIVER names no folder")
        return {"STEPFUSE_CUDA_CODE": "ptx", "LD_LIBRARY_PATH": f"{fake}:{os.environ.get('LD_LIBRARY_PATH', '')}"}


def main():
    ENV.update(json.loads(call("env", "--json").stdout))
    unittest.main(argv=["cli_test", *sys.argv[3:]], verbosity=0)
