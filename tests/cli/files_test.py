"""What the command line tool writes: whole or not at all, with the mode and through the links that are there."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile

from case import BINARY, ENV, ENVIRONMENT, SOURCE, Case, call, main

FORMULA = "optimizer o \"\"{\n" + "// a comment\n" * 1000 + "w=w-g\n}\n"


def full_disk():
    """In this process, no file can grow beyond a block."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def on_full_disk(*words):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT, timeout=1500,
                          check=False, preexec_fn=full_disk)


class Written(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "mine.opt"
        self.path.write_text(FORMULA)

    def only(self, *names):
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), sorted(names))

    def test_fmt_on_a_full_disk_loses_nothing(self):
        done = on_full_disk("fmt", self.path)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"cannot write {self.path}: File too large", done.stderr)
        self.assertEqual(self.path.read_text(), FORMULA)
        self.only("mine.opt")

    def test_an_output_on_a_full_disk_leaves_what_was_there(self):
        for verb in (["dump", "adamw", "--emit=cuda"], ["dump", "adamw", "--emit=llvm"]):
            out = self.folder / "out"
            out.write_text("mine")
            done = on_full_disk(*verb, "-o", out)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f"cannot write {out}: File too large", done.stderr)
            self.assertEqual(out.read_text(), "mine")
            self.only("mine.opt", "out")

    def test_a_file_keeps_its_mode_and_a_link_its_target(self):
        link = self.folder / "link.opt"
        link.symlink_to("mine.opt")
        for mode in (0o600, 0o755):
            self.path.write_text(FORMULA)
            self.path.chmod(mode)
            self.ok("fmt", link)
            self.assertTrue(link.is_symlink())
            self.assertFalse(self.path.is_symlink())
            self.assertIn("w = w - g", self.path.read_text())
            self.assertEqual(self.path.stat().st_mode & 0o777, mode)
        self.only("link.opt", "mine.opt")

    def test_a_new_file_has_the_mode_that_new_files_have(self):
        old = os.umask(0o027)
        try:
            self.ok("dump", "adamw", "-o", self.folder / "new")
            (self.folder / "plain").write_text("")
        finally:
            os.umask(old)
        self.assertEqual((self.folder / "new").stat().st_mode, (self.folder / "plain").stat().st_mode)

    def test_a_name_may_have_255_bytes(self):
        """The name of the unfinished file must not be longer."""
        name = "n" * 255
        self.ok("dump", "adamw", "-o", self.folder / name)
        self.ok("convert", SOURCE / "tests/cli/adamw.safetensors", self.folder / name, "--moments=fp8")
        formula = self.folder / ("n" * 251 + ".opt")
        formula.write_text(FORMULA)
        self.ok("fmt", formula)
        self.fails(2, "File name too long", "dump", "adamw", "-o", self.folder / (name + "n"))
        self.only("mine.opt", name, formula.name)

    def test_where_every_file_has_a_name(self):
        """So it is without /proc: a file that has no name until it is finished gets one through /proc."""
        if not shutil.which("unshare"):
            self.skipTest("no unshare here")
        self.need_no_sanitizer("it finds its stack in /proc")
        out, victim = self.folder / "out", self.folder / "victim"
        out.write_text("mine")
        victim.write_text("precious")

        def dump(emit, limit=None):
            # All have one process ID, for which the next names are another user's links.
            script = 'mount -t tmpfs none /proc && echo hidden && read go && exec "$@"'
            words = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", BINARY, "dump", "adamw", emit, "-o", out]
            with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT,
                                  preexec_fn=limit) as process:
                if process.stdout.readline() != b"hidden\n":
                    print("skipped: /proc cannot be hidden here")
                    self.skipTest("/proc cannot be hidden here")
                links = [self.folder / f"stepfuse.{process.pid}.{i}.partial" for i in range(3)]
                for link in links:
                    link.symlink_to(victim)
                said = process.communicate(b"go\n")[1].decode()
            for link in links:
                link.unlink()
            self.only("mine.opt", "out", "victim")
            self.assertEqual(victim.read_text(), "precious")
            return process.returncode, said

        self.assertEqual(dump("--emit=llvm", full_disk), (2, f"stepfuse: cannot write {out}: File too large\n"))
        self.assertEqual(out.read_text(), "mine")
        self.assertEqual(dump("--emit=ir"), (0, ""))
        self.assertEqual(out.read_text(), self.ok("dump", "adamw"))

    def test_an_output_may_be_a_pipe_or_a_device(self):
        expected = self.ok("dump", "adamw")
        self.assertEqual(self.ok("dump", "adamw", "-o", "/dev/stdout"), expected)
        self.assertEqual(self.ok("dump", "adamw", "-o", "/dev/null"), "")
        script = f"{BINARY} dump adamw -o >(cat); wait"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=ENVIRONMENT, check=True)
        self.assertEqual(done.stdout, expected)

    def test_every_verb_refuses_a_name_that_cannot_be_written_alike(self):
        verbs = [["dump", "adamw", "-o"], ["explore", "sgd", "-o"], ["man", "-o"],
                 ["convert", "--moments=fp8", SOURCE / "tests/cli/adamw.safetensors"]]
        if ENV["llvm"]["available"]:
            verbs += [["bench", "sgd", "--params=1000", "--rounds=1", "-o"], ["aot", "sgd", "--for=x86-64", "-o"]]
        for verb in verbs:
            said = self.fails(2, "cannot write", *verb, self.path / "inside")
            self.assertEqual(said.count(str(self.path)), 1, said)
            self.assertIn("Not a directory", said)
        self.only("mine.opt")

    def test_what_is_no_file_is_named(self):
        self.fails(2, f"cannot write {self.folder}: it is a folder", "dump", "adamw", "-o", self.folder)
        (self.folder / "dangling").symlink_to("nothing/here")
        self.fails(2, "dangling", "dump", "adamw", "-o", self.folder / "dangling")
        self.only("dangling", "mine.opt")

    def test_fmt_names_no_file_that_it_did_not_write(self):
        done = on_full_disk("fmt", self.path)
        self.assertEqual(done.stdout, "")
        self.assertEqual(call("fmt", self.path).stdout.decode(), f"{self.path}\n")


class Meaning(Case):
    def test_fmt_makes_of_no_formula_one_that_check_refuses(self):
        for word in ("where", "if", "return"):
            text = f"optimizer o {{\n  def {word}(x) = x\n  w = w - {word}(g)\n}}\n"
            path = self.file("mine.opt", text)
            self.fails(1, f"'{word}' is a word of the language; choose a different name", "check", path)
            self.fails(1, f"'{word}' is a word of the language; choose a different name", "fmt", path)
            self.assertEqual(path.read_text(), text)
        for path in sorted((SOURCE / "ir" / "optimizers").glob("*.opt")):
            self.ok("check", path)


if __name__ == "__main__":
    main()
