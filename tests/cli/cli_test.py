"""Drives the command line tool as a user does: every verb, its output, its errors and exit codes."""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile

from case import BINARY, ENV, ENVIRONMENT, LAYOUTS, SOURCE, WHOLE, Case, call, main


class Usage(Case):
    def test_help_teaches(self):
        for words in ([], ["--help"]):
            done = call(*words)
            self.assertEqual(done.returncode, 0 if words else 2)
            for verb in ("list", "check", "dump", "explain", "run", "bench", "env", "cache", "convert"):
                self.assertRegex(done.stdout.decode(), rf"(?m)^  {verb} ")
        for verb in ("list", "check", "dump", "explain", "run", "bench", "env", "cache", "convert"):
            self.assertIn("Examples:\n  ", self.ok(verb, "--help"))

    def test_the_examples_of_the_help_are_understood(self):
        known = re.compile(r"^  stepfuse ((?:dump|explain|run) .*?)(?:   .*)?$", re.MULTILINE)
        for verb in ("dump", "explain", "run"):
            for example in known.findall(self.ok(verb, "--help")):
                words = [w.strip("'") for w in example.split()]
                if "my_step.sf" in words or "cubin" in example or "--sass" in words:
                    continue
                words = [str(SOURCE / w) if w.startswith("samples/") else w for w in words]
                if verb == "explain":
                    words.append("--no-compile")
                if verb == "run" and "--backend=interpret" not in words:
                    words.append("--backend=interpret")
                with tempfile.TemporaryDirectory() as folder:  # some of them write a file
                    self.ok(*words, folder=folder)

    def test_version(self):
        for word in ("--version", "-V"):
            self.assertRegex(self.ok(word), r"^stepfuse \d+\.\d+\.\d+$")

    def test_help_is_a_verb(self):
        self.assertEqual(self.ok("help"), self.ok("--help"))
        self.assertEqual(self.ok("help", "dump"), self.ok("dump", "--help"))
        self.fails(2, "did you mean 'dump'?", "help", "dmp")

    def test_the_limit_of_a_clip_is_no_kind_of_it(self):
        for words in (["--clip", "1.0"], ["--clip=l2", "1.0"]):
            self.fails(2, "write --clip=l2 --set max_norm=1.0", "run", "adamw", *words)
        self.fails(2, "--clip: 'two' is not one of", "run", "adamw", "--clip=two")

    def test_unknown_words_suggest_near_ones(self):
        self.fails(2, "there is no verb 'dmp'; did you mean 'dump'?", "dmp", "adamw")
        self.fails(2, "there is no verb 'adamw'; to run the recipe, write `stepfuse run adamw`", "adamw", "--clip")
        self.fails(2, "--clip: `check` takes no options of recipes; leave it out", "check", "mine.opt", "--clip")
        self.fails(2, "no recipe and no file 'adamww'; did you mean 'adamw' or 'adam'", "dump", "adamww")
        self.fails(2, "'--clp' is not understood; did you mean '--clip'?", "run", "adamw", "--clp")
        self.fails(2, "--emit: 'shedule' is not one of", "dump", "adamw", "--emit=shedule")
        self.fails(2, "did you mean 'schedule'?", "dump", "adamw", "--emit=shedule")
        self.fails(2, "--help", "dump")
        self.fails(2, "'extra' is not understood", "dump", "adamw", "extra")

    def test_a_checkpoint_that_is_none_is_not_converted(self):
        path = self.file("run.safetensors", "no checkpoint")
        self.fails(2, f"{path}: truncated, or not a safetensors file", "convert", path, path.with_name("new"), "--moments=fp8")
        self.assertFalse(path.with_name("new").exists())
        self.fails(2, "--moments", "convert", path, path.with_name("new"))

    def test_recipe_options(self):
        self.fails(2, "--clip: 'l3' is not one of none, l2, l1, inf, value", "dump", "adamw", "--clip=l3")
        self.fails(2, "--model is the type of low-precision weights; add --master or --weight-rounding", "dump", "adamw", "--model=f16")
        self.fails(2, "applies to recipes and formulas", "dump", SOURCE / "tests/unit/classic.sf", "--master")
        plain = self.ok("dump", "adamw", "--clip")
        self.assertEqual(plain, self.ok("dump", "--clip", "adamw"))
        self.assertEqual(plain, self.ok("dump", "adamw", "--clip", "l2"))
        self.assertEqual(plain, self.ok("dump", "adamw", "--clip=inf", "--clip=l2"))
        self.assertEqual(self.ok("dump", "adamw"), self.ok("dump", "adamw", "--master=false"))
        stored = self.ok("dump", "adamw", "--store", "weight=bf16+ecc24", "--store", "exp_avg@4096=fp8,exp_avg_sq=bf16")
        self.assertEqual(stored, self.ok("dump", "adamw", "--store=weight=bf16+ecc24,exp_avg@4096=fp8,exp_avg_sq=bf16"))
        self.assertEqual(stored, self.ok("dump", "adamw", "--model=bf16", "--master=ecc24", "--moments=exp_avg@4096=fp8,exp_avg_sq=bf16"))
        self.fails(2, "--store: 'weight=bf16+ecc16': the missing bits of weights are stored as f32, remainder or ecc24", "dump", "adamw",
                   "--store=weight=bf16+ecc16")
        self.fails(2, "--store: adamw has no moment 'exp'; it has exp_avg, exp_avg_sq", "dump", "adamw", "--store=exp=fp8")
        self.fails(2, "--moments: adamw has no moment 'exp'; it has exp_avg, exp_avg_sq", "dump", "adamw", "--moments=exp=fp8")

    def test_files_that_are_not_there(self):
        self.fails(2, "cannot read nothing.sf: No such file", "dump", "nothing.sf")
        self.fails(2, "cannot read nothing.json: No such file", "run", "adamw", "--layout", "nothing.json")
        self.fails(2, "cannot write /nonexistent/x: No such file", "dump", "adamw", "-o", "/nonexistent/x")
        self.fails(2, "cannot read", "dump", SOURCE.as_posix())


class List(Case):
    def test_recipes_and_options(self):
        text = self.ok("list")
        for name in ("adamw", "adam", "loss_scale_update"):
            self.assertRegex(text, rf"(?m)^  {name} +\S")
        for option in ("--grad f16|bf16|f32", "--moments f32|bf16", "--master", "--model f16|bf16",
                       "--loss-scale[=", "--check", "--clip[=", "--zero-grad", "--round-grad"):
            self.assertIn(f"  {option}", text)
        self.assertIn("[f32]", text)

    def test_every_recipe_can_be_dumped_checked_and_run(self):
        recipes = re.findall(r"(?m)^  ([a-z]\w*)  ", self.ok("list"))
        self.assertGreaterEqual(len(recipes), 3)
        for name in recipes:
            text = self.ok("dump", name)
            self.assertIn(": ok\n", self.ok("check", "-", text=text))
            digest = self.ok("run", name, "--backend=interpret", "--params=100", "--digest")
            path = self.file(f"{name}.sf", text)
            self.assertEqual(digest, self.ok("run", path, "--backend=interpret", "--params=100", "--digest"))


class Check(Case):
    GOOD = "step @s {\n  report @r : f32\n  %c = const 1 : f32\n  write @r, %c\n}\n"

    def test_good_files(self):
        good = self.file("good.sf", self.GOOD)
        self.assertEqual(self.ok("check", good, good).count("step @s, 2 instructions"), 2)

    def test_faults_have_a_place_and_a_caret(self):
        bad = self.file("bad.sf", self.GOOD.replace("const 1", "konst 1"))
        text = self.fails(1, f"{bad}:3:8: error: ", "check", bad)
        lines = text.splitlines()
        self.assertEqual(lines[1], "    %c = konst 1 : f32")
        self.assertEqual(lines[2].rstrip(), " " * 9 + "^")
        wrong = self.file("wrong.sf", self.GOOD.replace("@r, %c", "@r, %d"))
        self.fails(1, [f"{wrong}:4:", "%d", "^"], "check", wrong)

    def test_every_file_is_looked_at(self):
        good = self.file("good.sf", self.GOOD)
        bad = self.file("bad.sf", "nonsense")
        done = call("check", bad, good, bad)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.err.count("bad.sf:1:1: error"), 2)
        self.assertIn("good.sf: step @s", done.stdout.decode())

    def test_standard_input(self):
        self.assertIn(": ok\n", self.ok("check", "-", text=self.GOOD))
        self.fails(1, "<stdin>:1:1: error", "check", "-", text="x")

    def test_faults_show_with_every_verb(self):
        bad = self.file("bad.sf", "step @s {\n  oops\n}\n")
        for verb in ("dump", "explain", "run"):
            self.fails(1, [f"{bad}:2:3: error: ", "\n    oops\n    ^"], verb, bad)


class Dump(Case):
    def test_stages(self):
        ir = self.ok("dump", *WHOLE)
        self.assertTrue(ir.startswith("step @adamw {"))
        self.assertEqual(ir, self.ok("dump", *WHOLE, "--emit=ir"))
        passes = self.ok("dump", *WHOLE, "--emit=passes")
        self.assertTrue(passes.startswith("; before\nstep @adamw {"))
        for name in ("bind dtypes", "fold constants", "remove dead"):
            self.assertIn(f"; after {name}", passes)
        for form, kernels in (("fused", 1), ("split", 2), ("unfused", 7)):
            text = self.ok("dump", *WHOLE, "--emit=schedule", f"--form={form}")
            self.assertTrue(text.startswith(f"schedule of @adamw, form {form}"))
            self.assertEqual(len(re.findall(r"(?m)^kernel ", text)), kernels)
            cuda = self.ok("dump", *WHOLE, "--emit=cuda", f"--form={form}")
            self.assertEqual(len(re.findall(r"\b__global__\b", cuda)), kernels)
            self.assertNotIn("#include", cuda)
        llvm = self.ok("dump", *WHOLE, "--emit=llvm", "--cpu-level=x86-64-v3")
        self.assertIn("@sf_phase_1(", llvm)

    def test_output_file(self):
        path = self.file("out.sf", "")
        self.assertEqual(self.ok("dump", "adamw", "-o", path), "")
        self.assertEqual(path.read_text(), self.ok("dump", "adamw"))

    def test_storage_types(self):
        def signatures(*words):
            return len(re.findall(r"(?m)^signature ", self.ok("dump", *words, "--emit=schedule")))

        two = ["adamw", "--grad", "f16|f32"]
        self.assertEqual(signatures(*two), 2)
        self.assertEqual(signatures(*two, "--bind", "grad=f16"), 1)
        self.assertEqual(signatures("adamw", "--grad", "f16|bf16|f32",
                                    "--layout", LAYOUTS / "mixed_dtypes.json"), 3)
        self.fails(2, "@grad is declared as f16 f32", "dump", *two, "--bind", "grad=bf16")
        self.fails(2, "has no buffer @grd; did you mean 'grad'?", "dump", *two, "--bind", "grd=f16")
        self.fails(2, "write BUFFER=TYPE", "dump", *two, "--bind", "grad")

    def test_architectures(self):
        for arch in ("sm_", "x", "70", "sm_90x"):
            self.fails(2, "write a compute capability", "dump", "adamw", "--emit=ptx", "--arch", arch)
        self.fails(2, "unknown processor level 'x86'", "dump", "adamw", "--emit=llvm", "--cpu-level=x86")

    def test_machine_code(self):
        if not ENV["nvrtc"]["available"]:
            self.fails(3, "set STEPFUSE_NVRTC_DIR", "dump", "adamw", "--emit=cubin")
        self.need("nvrtc")
        for arch in ("sm_80", "sm_90", "sm_100", "sm_120"):
            done = call("dump", *WHOLE, "--emit=cubin", "--arch", arch)
            self.assertEqual(done.returncode, 0, done.err)
            self.assertTrue(done.stdout.startswith(b"\x7fELF"))
            self.assertRegex(done.err, r"\d+ registers, \d+ bytes of shared memory, no spills")
            self.assertRegex(done.err, rf"{arch}, min-blocks=\d,unroll=\d,.*, compiled in")
        done = call("dump", *WHOLE, "--emit=ptx", "--arch=sm_90")
        self.assertIn(b".target sm_90", done.stdout)
        self.assertRegex(done.err, r"\d+ registers")
        self.fails(3, "sm_998", "dump", "adamw", "--emit=cubin", "--arch=998")

    def test_cuda_options(self):
        text = call("dump", "adamw", "--emit=cuda", "--cuda-options", "min-blocks=2,cache=streaming").stdout
        self.assertIn(b"__launch_bounds__(kThreads, 2)", text)
        self.assertIn(b"store<Streaming, float, 4, 1>(out_b_weight", text)
        self.fails(2, "min-blocks=1|2|3|4", "dump", "adamw", "--emit=cuda", "--cuda-options", "unroll=3")
        self.fails(2, "access=256: sm_90", "dump", "adamw", "--emit=cuda", "--cuda-options", "access=256")
        self.fails(2, "'fast' is not one of", "run", "adamw", "--backend=cuda", "--cuda-options", "fast")

    def test_a_cubin_is_not_written_to_a_terminal(self):
        ours, theirs = pty.openpty()
        try:
            process = subprocess.run([BINARY, "dump", "adamw", "--emit=cubin"], stdout=theirs,
                                     stderr=subprocess.PIPE, env=ENVIRONMENT, check=False)
        finally:
            os.close(theirs)
            os.close(ours)
        self.assertEqual(process.returncode, 2)
        self.assertIn(b"a cubin is binary", process.stderr)


class MachineCode(Case):
    def test_explain_sass(self):
        self.need("nvrtc")
        words = ("explain", "adamw", "--clip", "--arch=sm_90,sm_100", "--no-compile", "--sass")
        if "STEPFUSE_NVDISASM" not in os.environ:
            print("skipped: no nvdisasm here; tools/setup.sh fetches one")
            self.skipTest("no nvdisasm")
        said = self.ok(*words)
        for arch in ("sm_90", "sm_100"):
            self.assertIn(f"Machine code of the streaming loops, {arch} (nvdisasm", said)
        for gpu in ("H100", "H200", "B200"):
            self.assertRegex(said, rf"(?m)^{gpu} +[0-9.]+ +[01]\.[0-9]+ ")
        self.assertNotIn("a spill", said)

    def copy(self):
        """The tool in a folder of its own, and an environment that names no disassembler."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tool = shutil.copy(BINARY, folder.name)
        return pathlib.Path(tool), {**ENVIRONMENT, "STEPFUSE_NVDISASM": "", "PATH": ""}

    def test_without_a_disassembler_nothing_is_even_read(self):
        tool, environment = self.copy()
        done = subprocess.run([tool, "explain", "adamw", "--sass", "--layout", "/nonexistent.json"], capture_output=True,
                              env=environment, text=True, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("pip install nvidia-cuda-nvdisasm", done.stderr)

    def test_the_disassembler_beside_the_tool_is_found(self):
        tool, environment = self.copy()
        beside = tool.parent / "nvdisasm" / "nvdisasm"
        beside.parent.mkdir()
        beside.write_text("#!/bin/sh\necho it is asked\n")
        self.need("nvrtc")
        environment["STEPFUSE_NVRTC_DIR"] = str(pathlib.Path(ENV["nvrtc"]["path"]).parent)
        for mode, expected in ((0o755, "printed no version"), (0o777, "pip install nvidia-cuda-nvdisasm")):
            beside.chmod(mode)
            done = subprocess.run([tool, "explain", "adamw", "--no-compile", "--sass"], capture_output=True, env=environment,
                                  text=True, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(expected, done.stderr, f"mode {mode:o}")


class Explain(Case):
    def explain(self, *words):
        return json.loads(self.ok("explain", *words, "--no-compile", "--json"))

    def bytes(self, *words):
        forms = self.explain(*words)["forms"]
        return [forms[f]["bytes_per_parameter"] for f in ("fused", "split", "unfused")]

    def test_bytes_per_parameter(self):
        self.assertEqual(self.bytes("adamw", "--clip", "--check", "--loss-scale"), [32, 32, 48])
        self.assertEqual(self.bytes("adamw", "--clip", "--loss-scale", "--grad=f16", "--master"),
                         [30, 30, 52])
        self.assertEqual(self.bytes("adamw"), [28, 28, 28])

    def test_phases_launches_barriers(self):
        forms = self.explain("adamw", "--clip", "--loss-scale")["forms"]
        self.assertEqual([forms[f]["launches"] for f in forms], [1, 2, 5])
        self.assertEqual([forms[f]["grid_barriers"] for f in forms], [1, 0, 0])
        phases = forms["fused"]["traffic"][0]["phases"]
        self.assertEqual([p["name"] for p in phases], ["reduce", "update"])
        self.assertEqual(phases[0]["arrays"], [{"array": "grad", "read": 4, "written": 0}])
        self.assertEqual(phases[1]["skipped_bytes"], 0)

    def test_layouts(self):
        e = self.explain("adamw", "--grad", "f16|bf16|f32", "--layout", LAYOUTS / "mixed_dtypes.json")
        self.assertEqual((e["tensors"], e["parameters"]), (33, 314_907))
        traffic = e["forms"]["fused"]["traffic"]
        self.assertEqual(sum(t["parameters"] for t in traffic), 314_907)
        self.assertEqual({t["dtypes"]["grad"] for t in traffic}, {"f16", "bf16", "f32"})
        weighed = sum(t["parameters"] * sum(p["bytes"] for p in t["phases"]) for t in traffic)
        self.assertAlmostEqual(e["forms"]["fused"]["bytes_per_parameter"], weighed / 314_907)

    def test_time_floors_follow_from_bytes(self):
        e = self.explain("adamw", "--params", "1e9")
        self.assertEqual(e["parameters"], 10**9)
        self.assertEqual({f["gpu"].split()[0] for f in e["time_floor"]},
                         {"A100", "H100", "H200", "B200", "RTX"})
        for floor in e["time_floor"]:
            self.assertAlmostEqual(floor["ms"]["fused"], 28e9 / (floor["gigabytes_per_second"] * 1e9) * 1e3)

    def test_steps_with_rows_get_a_matrix(self):
        e = self.explain("adafactor")  # 100 million parameters
        self.assertEqual(e["parameters"], 10**8)
        self.assertLess(e["forms"]["fused"]["workspace_bytes"], 10**7, "the state of rows and columns of a square matrix")
        self.assertEqual(self.explain("adafactor", "--params", "7919")["parameters"], 7919, "a prime number")

    def test_workspace_is_the_steps(self):
        e = self.explain("adamw", "--clip", "--params", "5000")
        run = json.loads(self.ok("run", "adamw", "--clip", "--params", "5000", "--backend=interpret",
                                 "--json"))
        self.assertEqual(e["forms"]["fused"]["workspace_bytes"], run["workspace_bytes"])
        self.assertGreater(e["forms"]["unfused"]["workspace_bytes"], 4 * 5000)
        self.assertGreater(e["forms"]["fused"]["cuda_workspace_bytes"],
                           e["forms"]["fused"]["workspace_bytes"])

    def test_text(self):
        text = self.ok("explain", *WHOLE, "--no-compile")
        for part in ("launches", "grid barriers", "bytes per parameter", "device bytes owned", "H200 SXM",
                     "@exp_avg_sq", "100,000,000 parameters in 1 tensor "):
            self.assertIn(part, text)
        self.assertNotIn("Registers", text)
        self.assertIn("launches", self.ok("explain", "loss_scale_update", "--no-compile"))

    def test_compile_times_and_registers(self):
        e = json.loads(self.ok("explain", *WHOLE, "--arch=sm_90", "--json"))
        for form in e["forms"].values():
            if ENV["nvrtc"]["available"]:
                self.assertEqual(form["cuda"][0]["arch"], "sm_90")
                self.assertEqual(len(form["cuda"][0]["kernels"]), form["launches"])
                for kernel in form["cuda"][0]["kernels"]:
                    self.assertGreater(kernel["registers"], 0)
                    self.assertEqual(kernel["spill_store_bytes"], 0)
            else:
                self.assertIn("libnvrtc", form["cuda"][0]["problem"])
            if ENV["llvm"]["available"]:
                self.assertGreater(form["cpu"]["codegen_ms"], 0)
            else:
                self.assertIn("LLVM", form["cpu"]["problem"])

    def test_counts(self):
        for text, count in (("16M", 16_000_000), ("2k", 2000), ("1e3", 1000), ("0", 0), ("1.5G", 1_500_000_000)):
            self.assertEqual(self.explain("adamw", "--params", text)["parameters"], count)
        for text in ("x", "-1", "1.5", "1X", "1e30", "16MM"):
            self.fails(2, "write a number of parameters", "explain", "adamw", f"--params={text}", "--no-compile")


class Run(Case):
    def digest(self, *words):
        text = self.ok("run", *words, "--digest")
        self.assertRegex(text, r"\A[0-9a-f]{32}\n\Z")
        return text.strip()

    def test_digests_are_equal_between_backends_forms_and_threads(self):
        self.need("llvm")
        levels = ENV["processor"]["levels"]
        for inputs in ("normal", "special"):
            for layout in ("sizes", "misaligned"):
                base = [*WHOLE, f"--inputs={inputs}", "--layout", LAYOUTS / f"{layout}.json", "--vary",
                        "--absent=0.2"]
                expected = self.digest(*base, "--backend=interpret")
                for number, form in enumerate(("fused", "split", "unfused")):
                    self.assertEqual(expected, self.digest(*base, f"--form={form}", "--threads=1"))
                    level = levels[(number + 1) % len(levels)]
                    self.assertEqual(expected, self.digest(*base, f"--form={form}", "--threads=2", "--moving",
                                                           f"--cpu-level={level}"))
                self.assertEqual(expected, self.digest(*base, "--observe"))

    def test_the_executed_cuda_kernel_agrees(self):
        driver = self.fake_driver()
        base = ["run", *WHOLE, "--params=3000", "--inputs=special", "--digest"]
        expected = self.ok(*base, "--backend=interpret")
        for form in ("fused", "unfused"):
            self.assertEqual(expected, self.ok(*base, "--backend=cuda", f"--form={form}", environment=driver))

    def test_without_a_driver(self):
        if not ENV["driver"]["available"]:
            self.fails(3, "libcuda.so.1", "run", "adamw", "--backend=cuda")

    def test_mixed_storage_types(self):
        self.need("llvm")
        base = ["adamw", "--grad", "f16|bf16|f32", "--clip", "--layout", LAYOUTS / "mixed_dtypes.json"]
        expected = self.digest(*base, "--backend=interpret")
        for form in ("fused", "unfused"):
            self.assertEqual(expected, self.digest(*base, f"--form={form}"))

    def test_a_file_is_what_its_recipe_is(self):
        self.need("llvm")
        path = self.file("mine.sf", self.ok("dump", *WHOLE).replace("@adamw", "@mine"))
        self.assertEqual(self.digest(*WHOLE, "--params=3000"), self.digest(path, "--params=3000"))

    def test_each_input_matters(self):
        base = [*WHOLE, "--backend=interpret", "--layout", LAYOUTS / "many_groups.json"]
        seen = {self.digest(*base)}
        for more in (["--seed=2"], ["--steps=5"], ["--inputs=special"], ["--set", "lr=0.5"], ["--vary"],
                     ["--init-scale=1024"], ["--set", "lr[3]=0.5"], ["--absent=1"]):
            seen.add(self.digest(*base, *more))
        self.assertEqual(len(seen), 9)
        self.assertIn(self.digest(*base), seen)
        self.assertIn(self.digest(*base, "--set", "lr=0.001"), seen)

    def test_json(self):
        words = ["run", *WHOLE, "--params=1000", "--inputs=special", "--steps=4", "--json", "--seed=7"]
        words += [] if ENV["llvm"]["available"] else ["--backend=interpret"]
        j = json.loads(self.ok(*words, "--digest"))
        self.assertEqual(j["parameters"], 1000)
        self.assertEqual(j["tensors"], 1)
        self.assertEqual(j["seed"], 7)
        self.assertEqual(len(j["seconds"]), 4)
        self.assertGreaterEqual(j.get("threads", 1), 1)
        self.assertEqual([r["found_inf"] for r in j["reports"]], [0, 1, 0, 0])
        self.assertEqual([r["loss_scale"] for r in j["reports"]][-1], 32768)
        self.assertIn(j["reports"][1]["grad_norm"], ("nan", "inf"))
        self.assertEqual(set(j["compile_ms"]), {"passes", "parse", "optimize", "codegen", "load", "total"})
        self.assertRegex(j["digest"], r"^[0-9a-f]{32}$")
        self.assertNotIn("digest", json.loads(self.ok(*words)))

    def test_text(self):
        text = self.ok("run", *WHOLE, "--backend=interpret", "--params=1000", "--steps=3")
        for part in ("1,000 parameters in 1 tensor ", "median of 3", "grad_norm", "loss_scale"):
            self.assertIn(part, text)

    def test_settings(self):
        base = ["run", "adamw", "--backend=interpret", "--layout", LAYOUTS / "sizes.json"]
        self.ok(*base, "--set", "lr=0.01", "--set", "weight_decay[1]=0")
        self.fails(2, "has no argument 'ls'", *base, "--set", "ls=0.01")
        self.fails(2, "the value is not a number", *base, "--set", "lr=fast")
        self.fails(2, "NAME=VALUE", *base, "--set", "lr")
        self.fails(2, "group 2 does not exist: the layout has 2 groups (0 to 1)", *base, "--set", "lr[2]=1")
        self.fails(2, "argument 'lr' of step @adamw cannot be -1: it must be at least 0\n", *base, "--set", "lr=-1")
        self.fails(2, "'lr' of step @adamw is not per tensor", *base, "--set", "lr[x]=1")
        self.fails(2, "the brackets must hold", *base, "--set", "lr[1=1")
        scaled = ["run", "sgd", "--per-tensor=lr", "--params=100", "--steps=2", "--backend=interpret", "--digest"]
        plain = self.ok(*scaled)
        self.assertEqual(plain, self.ok("run", "sgd", *scaled[3:]))
        half = self.ok(*scaled, "--set", "lr_scale[parameters]=0.5")
        self.assertEqual(half, self.ok(*scaled, "--set", "lr=0.0005"))
        self.assertEqual(half, self.ok(*scaled, "--set", "lr_scale[0]=0.5"))
        self.assertNotEqual(half, plain)
        self.fails(2, "the layout has no tensor 'head'", *scaled, "--set", "lr_scale[head]=1")
        layout = self.file("l.json", '{"name": "l", "tensors": [{"name": "parameters", "shape": [100], "args": {"lr_scale": 0.5}}]}')
        in_file = [w for w in scaled if not w.startswith("--params")] + ["--layout", layout]
        self.assertEqual(half, self.ok(*in_file))
        self.ok(*[w for w in in_file if w != "--per-tensor=lr"])  # the step has no such argument
        self.fails(2, "%external_norm of step @adamw has no default", *base, "--clip", "--external-norm")

    def test_numbers_are_decimal(self):
        base = ["run", "adamw", "--backend=interpret", "--params=10"]
        run = json.loads(self.ok(*base, "--steps=010", "--seed=010", "--threads=008", "--json"))
        self.assertEqual((run["steps"], run["seed"]), (10, 10))
        self.assertEqual(self.ok(*base, "--steps=08", "--digest"), self.ok(*base, "--steps=8", "--digest"))
        largest = 2**64 - 1
        self.assertEqual(json.loads(self.ok(*base, f"--seed={largest}", "--json"))["seed"], largest)
        for text in ("18446744073709551616", "-1", "-99999999999999999999999", "0x10", "1e3", "1.0"):
            self.fails(2, f"--seed: expected a whole number from 0 to {largest}; got '{text}'", *base, f"--seed={text}")
        checkpoint = SOURCE / "tests/cli/adamw.safetensors"
        self.fails(2, "--moments-below: expected a whole number", "convert", checkpoint, "/dev/null", "--moments=fp8", "--moments-below=0x10")
        self.fails(2, "--rounds: expected a whole number from 1 to 1000; got '0x9'", "bench", "adamw", "--rounds=0x9")
        self.fails(2, "--threads: expected a whole number from 0 to 4096; got '0x1'", "bench", "adamw", "--threads=1,0x1")
        self.fails(2, "--threads: expected a whole number", "replay", checkpoint, "--threads=0x1")
        for text in ("nan", "0", "-1", "inf", "1e39"):
            self.fails(2, f"got '{text}'", *base, f"--init-scale={text}")

    def test_no_tensors_no_steps(self):
        self.digest("adamw", "--backend=interpret", "--params=0")
        self.digest("adamw", "--backend=interpret", "--steps=0", "--params=10")
        self.digest("loss_scale_update", "--backend=interpret")

    def test_layout_mistakes(self):
        bad = self.file("bad.json", '{"name": "x",\n "tensors": [{]}')
        self.fails(1, [f"{bad}:2:", "not JSON", "^"], "run", "adamw", "--layout", bad)
        bad.write_text('{"name": "x", "tensors": [{"name": "t", "shape": [-4]}]}')
        self.fails(1, 'tensor "t"', "run", "adamw", "--layout", bad)
        self.fails(1, "@grad of step @adamw cannot be stored as", "run", "adamw", "--grad=bf16",
                   "--layout", LAYOUTS / "mixed_dtypes.json")
        self.fails(2, "excludes", "run", "adamw", "--params=1", "--layout", LAYOUTS / "sizes.json")
        self.fails(2, "write a number of parameters", "run", "adamw", "--params=many")
        if ENV["llvm"]["available"]:
            self.fails(2, "unknown processor level", "run", "adamw", "--cpu-level=z80")
            if ENV["processor"]["levels"][-1] == "x86-64-v3":
                self.fails(3, "cannot run level 'x86-64-v4'; it runs host, ", "run", "adamw", "--params=9", "--cpu-level=x86-64-v4")

    def test_progress_stays_out_of_pipes(self):
        done = call("run", "adamw", "--backend=interpret", "--params=200000", "--steps=6", "--digest")
        self.assertEqual(done.err, "")


class Env(Case):
    def test_parts(self):
        self.assertEqual(set(ENV), {"stepfuse", "processor", "llvm", "nvrtc", "driver", "nvdisasm", "cache", "variables"})
        self.assertEqual(ENV["variables"]["STEPFUSE_CACHE"], "off")
        self.assertIn("STEPFUSE_CACHE=off", self.ok("env"))
        self.assertGreaterEqual(ENV["processor"]["threads"], 1)
        for part in ("llvm", "nvrtc", "driver", "cache"):
            if ENV[part]["available"]:
                self.assertTrue(ENV[part]["path"])
            else:
                self.assertTrue(ENV[part]["problem"])

    def test_what_is_missing_is_named(self):
        text = self.ok("env")
        for part in ("processor", "LLVM", "NVRTC", "NVIDIA driver", "disk cache"):
            self.assertRegex(text, rf"(?m)^{part} +(found|not found)$")
        if not ENV["driver"]["available"]:
            self.assertIn("libcuda.so.1", ENV["driver"]["problem"])

    def test_a_driver_without_a_symbol_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "cuda.c")
            source.write_text("int cuInit(unsigned flags) { return (int)flags; }\n")
            library = pathlib.Path(folder, "libcuda.so.1")
            built = subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=False)
            if built.returncode != 0:
                self.skipTest("no C compiler")
            found = json.loads(self.ok("env", "--json", environment={"LD_LIBRARY_PATH": folder}))
        self.assertFalse(found["driver"]["available"])
        self.assertIn("has no cuDriverGetVersion", found["driver"]["problem"])


if __name__ == "__main__":
    main()
