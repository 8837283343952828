"""Kernels compiled ahead of time: processes without LLVM and NVRTC run from the folder, with identical bits."""

import pathlib
import re
import tempfile

from case import WHOLE, Case, call, main

RUN = [*WHOLE, "--params=20000", "--steps=3", "--digest"]


class Aot(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name, "kernels")
        self.without = {"STEPFUSE_LLVM_LIBRARY": "/nowhere/libLLVM.so", "LD_DEBUG": "files",
                        "STEPFUSE_KERNELS": str(self.folder)}

    def run_without(self, library, *words, **environment):
        """Standard output of a process that loaded neither library."""
        done = call("run", *words, environment={**self.without, **environment})
        own = "\n".join(line for line in done.err.splitlines() if not re.match(r"\s+\d+:\t", line))
        self.assertEqual(done.returncode, 0, own)
        self.assertNotRegex(done.err, rf"file=\S*{library}\S*.*dynamically loaded")
        return done.stdout.decode()

    def digest(self, text):
        return re.findall(r"\b[0-9a-f]{32}\b", text)[-1]

    def test_a_processor_level(self):
        self.need("llvm")
        expected = self.digest(self.ok("run", *RUN, "--backend=cpu"))
        self.ok("aot", *WHOLE, "--for", "x86-64,x86-64-v3", "-o", self.folder)
        self.assertEqual(self.digest(self.run_without("libLLVM", *RUN, "--backend=cpu")), expected)
        one_level = self.run_without("libLLVM", *RUN, "--backend=cpu", "--cpu-level=x86-64")
        self.assertEqual(self.digest(one_level), expected)
        # The error for a kernel that is not in the folder names the kernel and the command that
        # makes it.
        self.fails(3, ["/nowhere/libLLVM.so", str(self.folder), "stepfuse aot"], "run", "sgd", "--params=10",
                   "--backend=cpu", environment={**self.without, "LD_DEBUG": ""})

    def test_names_neither_machine_nor_compiler(self):
        self.need("llvm")
        self.ok("aot", "sgd", "--for", "x86-64-v3", "-o", self.folder)
        (file,) = (self.folder / "x86-64-v3").iterdir()
        self.assertEqual(file.stat().st_mode & 0o777, 0o644)
        preimage = file.read_bytes().split(b"kernel text")[0]
        self.assertIn(b"target shipped x86-64-v3\n", preimage)
        self.assertNotIn(b"LLVM", preimage)
        # The folder must not be writable by others.
        self.run_without("libLLVM", "sgd", "--params=10", "--backend=cpu")
        file.chmod(0o666)
        self.fails(3, "aot", "run", "sgd", "--params=10", "--backend=cpu", environment={**self.without, "LD_DEBUG": ""})

    def test_folders_that_others_may_write(self):
        self.need("llvm")
        self.ok("aot", "sgd", "--for", "x86-64-v3", "-o", self.folder)
        note = self.folder / "x86-64-v3" / "note"
        note.touch(mode=0o600)
        self.ok("aot", "adamw", "--for", "x86-64-v3", "-o", self.folder)
        self.assertEqual(note.stat().st_mode & 0o777, 0o600)  # the tool leaves its mode alone
        run = ("run", "sgd", "--params=10", "--backend=cpu")
        quiet = {**self.without, "LD_DEBUG": ""}
        self.folder.chmod(0o777)
        self.fails(2, [str(self.folder), "chmod go-w"], *run, environment=quiet)
        self.folder.chmod(0o755)
        note.parent.chmod(0o777)
        self.fails(3, "aot", *run, environment=quiet)
        note.parent.chmod(0o755)
        self.run_without("libLLVM", *run[1:])

    def test_ptx_and_cubins(self):
        driver = self.fake_driver()
        expected = self.digest(self.ok("run", *RUN, "--backend=cuda", environment=driver))
        made = self.ok("aot", *WHOLE, "--for", "sm_90,compute_75", "-o", self.folder)
        self.assertRegex(made, r"sm_90 +adamw +fused")
        self.assertRegex(made, r"compute_75 +adamw\.init")
        found = self.run_without(r"libnvrtc\.so", *RUN, "--backend=cuda", **driver)
        self.assertEqual(self.digest(found), expected)

    def test_the_layout_that_the_help_shows(self):
        self.need("llvm")
        layout, = re.findall(r'\{"name": .*?\}\]\}', self.ok("aot", "--help"))
        path = self.file("model.json", layout)
        self.ok("aot", "adamw", "--for", "x86-64", "--layout", path, "-o", self.folder)
        self.run_without("libLLVM", "adamw", "--layout", path, "--backend=cpu", "--cpu-level=x86-64", "--steps=1")

    def test_a_layout_without_a_name(self):
        path = self.file("model.json", '{"tensors": [{"name": "w", "shape": [1024, 768]}]}')
        self.fails(1, 'the layout has no "name": add one, as in "name": "model"', "aot", "adamw", "--for", "x86-64", "--layout", path,
                   "-o", self.folder)

    def test_mistakes(self):
        self.fails(2, "this machine", "aot", "sgd", "--for", "host", "-o", self.folder)
        self.fails(2, "unknown processor level", "aot", "sgd", "--for", "pentium", "-o", self.folder)
        self.fails(2, "not a target", "aot", "sgd", "--for", "sm_fast", "-o", self.folder)
        self.fails(2, "'sm90' is not a target; write sm_90", "aot", "sgd", "--for", "sm90", "-o", self.folder)
        # A target that cannot be compiled is noticed before kernels for the others are written.
        self.need("llvm")
        self.fails(2, "unknown processor level", "aot", "sgd", "--for", "x86-64,pentium", "-o", self.folder)
        self.fails(3, "NVRTC", "aot", "sgd", "--for", "x86-64,sm_250", "-o", self.folder)
        self.assertFalse(self.folder.exists())
        self.fails(2, "STEPFUSE_KERNELS: '/nowhere'", "run", "sgd", "--params=10", "--backend=cpu",
                   environment={"STEPFUSE_KERNELS": "/nowhere"})


main()
