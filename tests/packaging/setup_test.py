"""tools/setup.sh says what it will install, and how much, before it does; `--help` of the scripts ends with 0. An apt-get of ours
notes its calls.

    setup_test.py SOURCE_DIR
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
TOOLS = ("awk", "basename", "bash", "cat", "cut", "dirname", "env", "grep", "head", "sed", "sort", "tr")
APT = """#!/bin/bash
case "$*" in
  *--assume-no*) echo "Need to get 12.3 MB of archives." && echo "After this operation, 45.6 MB will be used." && exit 1 ;;
  *) echo "apt-get $*" ;;
esac
"""


class Setup(unittest.TestCase):
    def test_it_says_what_it_installs_and_how_much_before_it_does(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            for name in TOOLS:  # no compiler, no CMake, no Python
                (path / name).symlink_to(shutil.which(name))
            for name, text in (("apt-get", APT), ("sudo", '#!/bin/bash\nwhile [[ $1 == -n ]]; do shift; done\nexec "$@"\n')):
                (path / name).write_text(text)
                (path / name).chmod(0o755)
            done = subprocess.run([path / "bash", "tools/setup.sh", "--for=build", f"--build-dir={folder}/build"], cwd=SOURCE,
                                  env={"PATH": folder}, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        lines = [line for line in done.stdout.splitlines() if line.startswith(("setup:", "apt-get"))]
        self.assertRegex(lines[0], "^setup: this installs with apt.*: g[+][+] cmake ninja-build ")
        update = next(i for i, line in enumerate(lines) if line.startswith("apt-get"))
        self.assertTrue(lines[update].endswith("update"), lines)
        install = next(i for i, line in enumerate(lines) if " install -y " in line)
        said = next(i for i, line in enumerate(lines) if "Need to get 12.3 MB" in line and "45.6 MB" in line)
        self.assertLess(said, install, lines)
        self.assertEqual(done.returncode, 1, "what was not installed is still missing")
        self.assertIn("sudo apt-get install -y g++ cmake", done.stderr)

    def test_help_ends_with_0_and_an_unknown_option_with_2(self):
        for name in ("setup", "demo", "test"):
            asked = subprocess.run(["bash", f"tools/{name}.sh", "--help"], cwd=SOURCE, capture_output=True, text=True, env=dict(os.environ))
            self.assertEqual((asked.returncode, asked.stderr), (0, ""), name)
            self.assertIn(f"tools/{name}.sh", asked.stdout)
            wrong = subprocess.run(["bash", f"tools/{name}.sh", "--nonsense"], cwd=SOURCE, capture_output=True, text=True)
            self.assertEqual(wrong.returncode, 2, name)

    def test_help_of_the_scripts_for_packages_ends_with_0(self):
        for name in ("tools/aarch64.sh", "tools/debian_files.sh", "tools/glibc_stubs.sh", "tools/static_llvm.sh", "tools/wheel.sh",
                     "tools/pack_wheel.py", "tests/packaging/aarch64.sh", "tests/packaging/clean_root.sh", "tests/packaging/conan.sh",
                     "tests/packaging/container.sh", "tests/packaging/digests.py"):
            command = [sys.executable if name.endswith(".py") else "bash", name, "--help"]
            asked = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True)
            self.assertEqual((asked.returncode, asked.stderr), (0, ""), name)
            self.assertIn(pathlib.Path(name).name, asked.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
