"""The Python package as pip builds it: its metadata, what it says if LLVM's headers are missing, and, with --build, an installation
from a clone and from git into empty environments. Knows pip and scikit-build-core.

    package_test.py SOURCE_DIR WORK_DIR [--build]

Exit code 3, and the reason, where pip cannot fetch scikit-build-core.
"""

import email
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import venv
import zipfile

SOURCE, WORK = map(pathlib.Path, sys.argv[1:3])
BUILD = "--build" in sys.argv


def run(*words: object, **options: object) -> subprocess.CompletedProcess:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "STEPFUSE", "stepfuse"))}
    options["env"] = clean | options.pop("env", {})
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, **options)


def environment(name: str, *packages: str) -> pathlib.Path:
    """An environment with nothing but these packages."""
    folder = WORK / name
    venv.create(folder, clear=True, with_pip=True)
    if packages:
        done = run(folder / "bin/pip", "install", "--quiet", *packages)
        if done.returncode:
            print(f"skipped: pip cannot install {' '.join(packages)}: {done.stderr.strip().splitlines()[-1]}")
            sys.exit(3)
    return folder / "bin"


class Metadata(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bin = environment("builder", "scikit-build-core>=0.11")
        code = ("import scikit_build_core.build as b, sys; "
                "print(b.prepare_metadata_for_build_wheel(sys.argv[1]))")
        out = WORK / "metadata"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        done = run(cls.bin / "python", "-c", code, out, cwd=SOURCE)
        assert done.returncode == 0, done.stdout + done.stderr
        cls.folder = next(out.glob("*.dist-info"))
        cls.fields = email.message_from_string((cls.folder / "METADATA").read_text(encoding="utf-8"))

    def test_the_version_is_that_of_the_library(self):
        project = re.search(r"project\(stepfuse VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())
        self.assertEqual(self.fields["Version"], project[1])

    def test_licence_python_and_extras(self):
        self.assertEqual(self.fields["License-Expression"], "Apache-2.0")
        self.assertEqual(self.fields.get_all("License-File"), ["LICENSE"])
        self.assertEqual(self.fields["Requires-Python"], ">=3.10")
        self.assertEqual(set(self.fields.get_all("Provides-Extra")), {"torch", "jax", "docs"})
        required = self.fields.get_all("Requires-Dist")
        self.assertTrue(all("extra ==" in line for line in required), required)
        self.assertGreater(len(self.fields.get_all("Classifier")), 5)
        self.assertTrue(self.fields["Keywords"])

    def test_the_documentation_extra_is_what_the_site_is_built_with(self):
        lines = (SOURCE / "tools/docs/requirements.in").read_text().splitlines()
        wanted = {line.strip() for line in lines if line and not line.startswith("#")}
        extra = {line.split(";")[0].strip() for line in self.fields.get_all("Requires-Dist") if "docs" in line.split(";")[1]}
        self.assertEqual(extra, wanted)

    def test_the_page_has_no_link_that_an_index_cannot_follow(self):
        page = self.fields.get_payload()
        self.assertIn("pip install", page)
        for target in re.findall(r"\]\(([^)]*)\)", page):
            self.assertTrue(target.startswith("https://"), target)

    def test_the_command_is_the_tool(self):
        self.assertIn("stepfuse=stepfuse.__main__:main", (self.folder / "entry_points.txt").read_text().replace(" ", ""))


class Headers(unittest.TestCase):
    def test_missing_headers_of_llvm_are_named_with_what_helps(self):
        folder = WORK / "no_llvm"
        shutil.rmtree(folder, ignore_errors=True)
        done = run("cmake", "-S", SOURCE / "python", "-B", folder, "-G", "Ninja", "-DSTEPFUSE_OWN_LLVM=OFF",
                   "-DCMAKE_IGNORE_PATH=" + ";".join(f"/usr/lib/llvm-{v}/include" for v in (19, 20, 21)))
        said = " ".join(done.stderr.split())
        self.assertNotEqual(done.returncode, 0, said)
        for words in ("LLVM's C headers", "apt-get install llvm-19-dev", "STEPFUSE_LLVM_INCLUDE_DIR=", "STEPFUSE_LLVM=OFF"):
            self.assertIn(words, said)


@unittest.skipIf(not BUILD, "--build was not given")
class Installation(unittest.TestCase):
    def works(self, binary: pathlib.Path) -> None:
        elsewhere = {"cwd": WORK, "env": {"STEPFUSE_CACHE": "off"}}
        done = run(binary / "python", "-m", "stepfuse.selftest", **elsewhere)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        by_command = run(binary / "stepfuse", "run", "adamw", "--clip", "--params", "1000", "--steps", "2", "--digest", **elsewhere)
        self.assertEqual(by_command.returncode, 0, by_command.stderr)
        by_module = run(binary / "python", "-m", "stepfuse", "run", "adamw", "--clip", "--params", "1000", "--steps", "2", "--digest",
                        "--backend=interpret", **elsewhere)
        self.assertEqual(by_module.stdout, by_command.stdout, by_module.stderr)
        version = run(binary / "python", "-c", "import stepfuse; print('stepfuse', stepfuse.__version__)", **elsewhere)
        self.assertEqual(run(binary / "stepfuse", "--version", **elsewhere).stdout, version.stdout)
        self.assertEqual(run(binary / "stepfuse", "nonsense", **elsewhere).returncode,
                         run(binary / "python", "-m", "stepfuse", "nonsense", **elsewhere).returncode)

    def test_from_a_clone_and_from_git(self):
        clone = WORK / "clone"
        shutil.rmtree(clone, ignore_errors=True)
        self.assertEqual(run("git", "clone", "--quiet", SOURCE, clone).returncode, 0)
        for name, what in (("from_clone", str(clone)), ("from_git", f"stepfuse @ git+file://{clone}")):
            with self.subTest(name):
                binary = environment(name)
                done = run(binary / "pip", "install", what, cwd=clone)
                self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-4000:])
                self.works(binary)


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1], verbosity=1)
