"""tools/release.py in a clone: versions, changelog, tag, SBOM and checksums, and what it refuses. Knows git.

    release_test.py SOURCE_DIR
"""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])


def run(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(words, cwd=folder, capture_output=True, text=True)


class Release(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.clone = pathlib.Path(temporary.name) / "clone"
        run(SOURCE, "git", "clone", "--quiet", str(SOURCE), str(self.clone))
        # The script of this tree, also if it is not committed.
        (self.clone / "tools/release.py").write_bytes((SOURCE / "tools/release.py").read_bytes())
        for name, value in (("user.name", "Test"), ("user.email", "test@example.org")):
            run(self.clone, "git", "config", name, value)
        run(self.clone, "git", "add", "--all")
        run(self.clone, "git", "commit", "--quiet", "--message", "Take the script of the tree")

    def release(self, *words: str) -> subprocess.CompletedProcess:
        return run(self.clone, sys.executable, "tools/release.py", *words)

    def text(self, name: str) -> str:
        return (self.clone / name).read_text(encoding="utf-8")

    def test_a_release(self):
        done = self.release("7.8.9", "--no-build", "--date=2027-01-02")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("project(stepfuse VERSION 7.8.9", self.text("CMakeLists.txt"))
        header = self.text("runtime/include/stepfuse/version.h")
        for line in ("MAJOR 7", "MINOR 8", "PATCH 9", 'STRING "7.8.9"'):
            self.assertIn("#define STEPFUSE_VERSION_" + line, header)
        self.assertIn("\nversion: 7.8.9\n", self.text("CITATION.cff"))
        self.assertIn("\n## [Unreleased]\n\n## [7.8.9] - 2027-01-02\n\n### Added\n", self.text("CHANGELOG.md"))
        self.assertEqual(run(self.clone, "git", "describe").stdout.strip(), "v7.8.9")
        self.assertEqual(run(self.clone, "git", "status", "--porcelain", "--untracked-files=no").stdout, "")
        dist = self.clone / "build/dist"
        bom = json.loads((dist / "stepfuse-7.8.9.cdx.json").read_text())
        self.assertEqual((bom["bomFormat"], bom["metadata"]["component"]["version"]), ("CycloneDX", "7.8.9"))
        self.assertIn("LLVM", [part["name"] for part in bom["components"]])
        sums = re.findall(r"(\w{64})  (.+)\n", (dist / "SHA256SUMS").read_text())
        self.assertEqual([name for _, name in sums], ["stepfuse-7.8.9.cdx.json"])
        for digest, name in sums:
            self.assertEqual(hashlib.sha256((dist / name).read_bytes()).hexdigest(), digest)
        again = self.release("7.8.9", "--no-build")
        self.assertIn("the tag v7.8.9 exists", again.stderr)
        self.assertIn("7.8.8 is before 7.8.9", self.release("7.8.8", "--no-build").stderr)
        self.assertIn("no change under", self.release("7.9.0", "--no-build").stderr)

    def test_a_dry_run_changes_nothing(self):
        before = run(self.clone, "git", "rev-parse", "HEAD").stdout
        done = self.release("7.8.9", "--no-build", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(run(self.clone, "git", "rev-parse", "HEAD").stdout, before)
        self.assertEqual(run(self.clone, "git", "tag").stdout, "")
        self.assertTrue((self.clone / "build/release/build/dist/SHA256SUMS").exists())

    def test_refusals(self):
        self.assertIn("expected MAJOR.MINOR.PATCH", self.release("1.0").stderr)
        (self.clone / "README.md").write_text("changed")
        self.assertIn("not committed", self.release("7.8.9").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
