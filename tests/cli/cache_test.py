"""The disk cache through the command line tool: its verbs, and processes that find a warm cache."""

import json
import pathlib
import re
import tempfile

from case import ENV, WHOLE, Case, call, main


class Cache(Case):
    def test_verbs(self):
        with tempfile.TemporaryDirectory() as folder:
            where = {"STEPFUSE_CACHE": "", "STEPFUSE_CACHE_DIR": folder}
            self.assertEqual(self.ok("cache", "path", environment=where).strip(), folder)
            self.assertIn("0 entries", self.ok("cache", "list", environment=where))
            if ENV["llvm"]["available"]:
                self.ok("run", "adamw", "--params=10", environment=where)
                line = self.ok("cache", "list", environment=where).splitlines()[0]
                self.assertIn("step @", self.ok("cache", "show", line.split()[0][:8], environment=where))
                # The step's kernel, the kernel that initialises its state, and LLVM's identity.
                self.assertIn("3 entries removed", self.ok("cache", "clear", environment=where))
                self.assertIn("0 entries", self.ok("cache", "list", environment=where))
            self.fails(2, "'zz' is not the beginning of exactly one", "cache", "show", "zz", environment=where)
            self.fails(2, "cache show needs the name of a kernel", "cache", "show", environment=where)
            kernel = pathlib.Path(folder, "0" * 32 + ".variant")
            kernel.touch()
            for what in ("clear", "list", "path"):
                self.fails(2, f"cache {what}: only `stepfuse cache show` takes a name; got '3f9a'", "cache", what, "3f9a", environment=where)
            self.assertTrue(kernel.exists())
        self.fails(3, "the kernel cache is off", "cache", "list")
        self.fails(2, "is not one of path, list, show, clear", "cache", "burn")

    def test_quick_code_is_cached_separately(self):
        self.need("llvm")
        with tempfile.TemporaryDirectory() as folder:
            where = {"STEPFUSE_CACHE": "", "STEPFUSE_CACHE_DIR": folder}
            reports = {}
            for code in ("quick", "optimized", "quick", ""):
                words = ["run", *WHOLE, "--params=1000", "--json", "--digest"]
                report = json.loads(self.ok(*words, environment={**where, "STEPFUSE_CPU_CODE": code}))
                reports.setdefault(report["digest"], []).append(report["from_disk_cache"])
            self.assertEqual(list(reports.values()), [[False, False, True, True]])
            self.fails(2, ["STEPFUSE_CPU_CODE=fast is neither optimized nor quick"], "run", "sgd", "--params=10",
                       environment={**where, "STEPFUSE_CPU_CODE": "fast"})

    def warm_start(self, backend, library, environment):
        """Runs a step in several processes; the first one compiles, the others do not load the compiler."""
        with tempfile.TemporaryDirectory() as folder:
            where = {**environment, "STEPFUSE_CACHE": "", "STEPFUSE_CACHE_DIR": folder, "LD_DEBUG": "files"}
            times = []
            for i in range(6):
                done = call("run", *WHOLE, "--params=100", "--steps=1", "--json", f"--backend={backend}",
                            environment=where)
                self.assertEqual(done.returncode, 0, done.err)
                report = json.loads(done.stdout)
                self.assertEqual(report["from_disk_cache"], i > 0)
                # The loader's log of the libraries that it was asked to load.
                opened = re.search(rf"file=\S*{library}\S*.*dynamically loaded", done.err)
                self.assertEqual(opened is not None, i == 0, f"process {i}")
                times.append(report["prepare_ms"])
            print(f"{backend}: prepared in {times[0]:.1f} ms cold, {min(times[1:]):.1f} ms warm")

    def test_a_warm_process_opens_no_nvrtc(self):
        self.warm_start("cuda", r"libnvrtc\.so", self.fake_driver())

    def test_a_warm_process_opens_no_llvm(self):
        self.need("llvm")
        self.warm_start("cpu", "libLLVM", {})

    def test_another_nvrtc_is_noticed(self):
        driver = self.fake_driver()
        with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as other:
            found = pathlib.Path(ENV["nvrtc"]["path"])
            for file in found.parent.glob("libnvrtc*"):
                pathlib.Path(other, file.name).symlink_to(file)
            where = {**driver, "STEPFUSE_CACHE": "", "STEPFUSE_CACHE_DIR": cache, "LD_DEBUG": "files"}
            words = ["run", "sgd", "--params=10", "--backend=cuda", "--json"]
            call(*words, environment=where)
            done = call(*words, environment={**where, "STEPFUSE_NVRTC_DIR": other})
            self.assertIn(f"{other}/libnvrtc.so", done.err)
            # The same version in a different folder: the kernel is still valid.
            self.assertTrue(json.loads(done.stdout)["from_disk_cache"])


if __name__ == "__main__":
    main()
