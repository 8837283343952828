"""The command line tool where things go wrong: lost output, failing machines, and the numbers that it tells."""

import json
import os
import re
import resource
import subprocess
import tempfile

from case import BINARY, ENV, ENVIRONMENT, SOURCE, WHOLE, Case, main

GOOD = "step @s {\n  report @r : f32\n  %c = const 1 : f32\n  write @r, %c\n}\n"
LOST = "stepfuse: cannot write to standard output"


class Output(Case):
    def shell(self, command, *words):
        """Runs `stepfuse WORDS` under a shell's redirections."""
        line = f'"$0" "$@" {command}'
        return subprocess.run(["bash", "-c", line, BINARY, *map(str, words)], capture_output=True,
                              env=ENVIRONMENT, timeout=1500, check=False)

    def test_lost_output_is_an_error(self):
        good = self.file("good.sf", GOOD)
        for words in (["list"], ["--help"], ["--version"], ["env"], ["env", "--json"], ["check", good],
                      ["dump", "adamw"], ["explain", "adamw", "--no-compile"],
                      ["explain", "adamw", "--no-compile", "--json"],
                      ["run", "adamw", "--backend=interpret", "--params=10"],
                      ["run", "adamw", "--backend=interpret", "--params=10", "--digest"]):
            done = self.shell(">/dev/full", *words)
            self.assertEqual(done.returncode, 3, words)
            self.assertRegex(done.stderr.decode(), f"\\A{LOST}(: No space left on device)?\n\\Z", words)
            done = self.shell(">&-", *words)
            self.assertEqual(done.returncode, 3, words)
            self.assertIn(LOST, done.stderr.decode(), words)

    def test_a_failure_keeps_its_code_when_output_is_lost(self):
        bad = self.file("bad.sf", "nonsense")
        good = self.file("good.sf", GOOD)
        done = self.shell(">/dev/full", "check", good, bad)
        self.assertEqual(done.returncode, 1)
        self.assertIn("bad.sf:1:1: error", done.stderr.decode())
        self.assertIn(LOST, done.stderr.decode())

    def test_lost_messages_crash_nothing(self):
        bad = self.file("bad.sf", "nonsense")
        for where in ("2>&-", "2>/dev/full", "2>&- >&-", "<&- 2>&- >&-"):
            self.assertEqual(self.shell(where, "check", bad).returncode, 1, where)
            self.assertEqual(self.shell(where, "dmp").returncode, 2, where)
            self.assertEqual(self.shell(where, "run", "adamw", "--backend=cuda").returncode, 3, where)

    def test_messages_go_into_no_file(self):
        """With standard error closed, the next file that is opened has its number."""
        path = self.file("out.sf", "")
        self.assertEqual(self.shell("2>&-", "dump", "adamw", "-o", path).returncode, 0)
        self.assertEqual(path.read_text(), self.ok("dump", "adamw"))
        if ENV["nvrtc"]["available"]:  # which also prints registers
            self.shell("2>&-", "dump", "adamw", "--emit=ptx", "-o", path)
            self.assertEqual(path.read_text().strip(), self.ok("dump", "adamw", "--emit=ptx").strip())

    def test_standard_input_that_is_closed(self):
        done = self.shell("<&-", "check", "-")
        self.assertIn(done.returncode, (1, 2))
        self.assertTrue(done.stderr)


class Failures(Case):
    def limited(self, megabytes, *words, text=b""):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        return subprocess.run([BINARY, *map(str, words)], input=text, capture_output=True, env=ENVIRONMENT,
                              preexec_fn=limit, timeout=1500, check=False)

    def test_a_layout_of_too_many_rows_is_refused_before_it_takes_memory(self):
        self.need_no_sanitizer("it needs the address space")
        layout = self.file("rows.json", json.dumps({"name": "rows", "tensors": [{"name": "w", "shape": [2**44, 1]}]}))
        done = self.limited(1000, "explain", "adafactor", "--no-compile", "--layout", layout)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("has a value per row, and the tensors up to 0 have 17592186044416 of them", done.stderr.decode())

    def test_out_of_memory(self):
        self.need_no_sanitizer("it needs the address space")
        done = self.limited(400, "check", "-", text=b" " * (300 << 20))
        self.assertEqual((done.returncode, done.stderr.decode()), (3, "stepfuse: out of memory\n"))
        done = self.limited(1000, "run", "adamw", "--backend=interpret", "--params=1e9")
        self.assertEqual(done.returncode, 3)
        self.assertIn("out of memory", done.stderr.decode())

    def test_without_llvm(self):
        none = {"STEPFUSE_LLVM_LIBRARY": "/nonexistent"}
        self.fails(3, ["needs libLLVM", "STEPFUSE_LLVM_LIBRARY"], "run", "adamw", "--params=10", environment=none)
        # As the help says: nothing falls back by itself.
        text = " ".join(self.ok("env", "--help").split())
        self.assertIn("Without LLVM a step runs in the interpreter (--backend=interpret", text)
        self.ok("run", "adamw", "--params=10", "--backend=interpret", environment=none)
        self.assertNotIn("without LLVM steps run in the interpreter", text)

    def test_a_kernel_that_is_too_large_to_compile(self):
        n = 40000
        lines = "".join(f"  %v{i + 1} = fma %v{i}, %v{i}, %v0 : [f32]\n" for i in range(n))
        bomb = self.file("bomb.sf", "step @s {\n  buffer @grad : f32 in\n  buffer @w : f32 inout\n"
                         f"  %v0 = load @grad : [f32]\n{lines}  store @w, %v{n}\n}}\n")
        words = ["MB of", "more than 4 MB", "--backend=interpret"]
        if ENV["llvm"]["available"]:
            text = self.fails(1, [*words, "LLVM IR"], "run", bomb, "--params=10")
            self.assertNotIn("bug in stepfuse", text)
        if ENV["nvrtc"]["available"]:
            self.fails(1, [*words, "CUDA text"], "dump", bomb, "--emit=cubin", "-o", "/dev/null")
        self.ok("run", bomb, "--params=10", "--backend=interpret", "--digest")

    def test_a_compiler_that_refuses(self):
        self.need("nvrtc")
        self.fails(3, "does not compile for sm_999", "dump", "adamw", "--emit=cubin", "--arch=sm_999",
                   "-o", "/dev/null")
        if ENV["llvm"]["available"]:
            self.fails(2, "unknown processor level", "dump", "adamw", "--emit=llvm", "--cpu-level=z80")

    def test_the_cache_is_turned_off_by_0(self):
        with tempfile.TemporaryDirectory() as folder:
            for word in ("0", "off", "no", "false"):
                where = {"STEPFUSE_CACHE": word, "STEPFUSE_CACHE_DIR": folder}
                self.fails(3, f"the kernel cache is off: STEPFUSE_CACHE={word}\n", "cache", "list", environment=where)
                if ENV["llvm"]["available"]:
                    self.ok("run", "sgd", "--params=10", environment=where)
                self.assertEqual(os.listdir(folder), [], word)
            for word in ("1", "on", "yes", "true", ""):
                where = {"STEPFUSE_CACHE": word, "STEPFUSE_CACHE_DIR": folder}
                self.assertIn("0 entries", self.ok("cache", "list", environment=where))
            self.fails(3, ["STEPFUSE_CACHE=/tmp is neither on nor off", "STEPFUSE_CACHE_DIR"], "cache", "list",
                       environment={"STEPFUSE_CACHE": "/tmp"})

    def test_mistakes_keep_their_sigils(self):
        def of(body):
            return self.file("bad.sf", f"step @s {{\n  {body}\n}}\n")
        self.fails(1, "found '%grad'", "check", of("%x = const %grad : f32"))
        self.fails(1, "found '@grad'", "check", of("%x = neg @grad : f32"))
        self.fails(1, "found 'grad'", "check", of("%x = neg grad : f32"))
        self.fails(1, "found '%x'", "check", of("stage %x"))

    def test_names_of_any_length(self):
        n = "n" * 6000
        text = (f"step @s {{\n  buffer @grad : f32 in\n  buffer @w : f32 inout\n  %{n} = load @grad : [f32]\n"
                f"  %q = load @w : [f32]\n  %{n}2 = add %{n}, %q : [f32]\n  store @w, %{n}2\n}}\n")
        path = self.file("long.sf", text)
        expected = self.ok("run", path, "--params=100", "--digest", "--backend=interpret")
        if ENV["llvm"]["available"]:
            self.assertEqual(expected, self.ok("run", path, "--params=100", "--digest"))
        if ENV["nvrtc"]["available"]:
            self.ok("dump", path, "--emit=cubin", "-o", "/dev/null")

    def test_many_states_take_time_in_proportion(self):
        n = 20000
        text = ("step @s {\n  %c = const 1 : f32\n" + "".join(f"  state @s{i} : f32\n" for i in range(n))
                + "".join(f"  write @s{i}, %c\n" for i in range(n)) + "}\n")
        self.assertGreater(len(self.ok("dump", self.file("states.sf", text), "--emit=cuda")), n)


class Figures(Case):
    def rows(self, text):
        """The first words of each line, and the numbers behind them."""
        found = {}
        for line in text.splitlines():
            cells = re.split(r"  +", line.strip())
            found.setdefault(cells[0], cells[1:])
        return found

    def test_explain_as_text(self):
        rows = self.rows(self.ok("explain", *WHOLE[:-1], "--no-compile", "--params=100000000"))
        for label, cells in {
            "launches": "1 2 6", "grid barriers": "1 0 0", "phases": "2 2 5", "bytes per parameter": "30 30 52",
            "of a skipped step": "2 2 18", "speed at equal bandwidth": "1.73x 1.73x 1.00x",
            "reduce": "2 2+0", "update": "28 2+0 0+2 4+4 4+4 4+4", "all": "30 4+0 0+2 4+4 4+4 4+4",
            "unscale": "6 2+0 0+4", "norm": "4 4+0", "clip": "8 4+4", "copy": "6 0+2 4+0",
        }.items():
            self.assertEqual(rows[label], cells.split(), label)
        self.assertEqual(rows["H100 SXM"][:4], "3350 0.896 0.896 1.552".split())
        device = rows["device bytes owned by the step, CPU"]
        self.assertEqual(device[0], device[1])
        self.assertTrue(device[2].endswith(" MB") and float(device[2].split()[0]) >= 400)

    def test_explain_as_json(self):
        j = json.loads(self.ok("explain", *WHOLE[:-1], "--no-compile", "--params=1000", "--json"))
        got = [[j["forms"][f][k] for k in ("launches", "phases", "bytes_per_parameter",
                                           "skipped_bytes_per_parameter")] for f in ("fused", "split", "unfused")]
        self.assertEqual(got, [[1, 2, 30, 2], [2, 2, 30, 2], [6, 5, 52, 18]])

    def test_infinities_have_a_sign_in_json(self):
        path = self.file("inf.sf", "step @s {\n" + "".join(
            f"  report @r{i} : f32\n  %c{i} = const {c} : f32\n  write @r{i}, %c{i}\n"
            for i, c in enumerate(("-inf", "inf", "nan", "-1.5"))) + "}\n")
        report = json.loads(self.ok("run", path, "--backend=interpret", "--steps=1", "--json"))["reports"][0]
        self.assertEqual([report[f"r{i}"] for i in range(4)], ["-inf", "inf", "nan", -1.5])

    def test_resources(self):
        self.need("nvrtc")
        j = json.loads(self.ok("explain", "sgd", "--clip", "--arch=sm_90", "--json"))
        for kernel in j["forms"]["fused"]["cuda"][0]["kernels"]:
            # Ours use no stack; that is what tells it from shared memory, which they do use.
            self.assertEqual(kernel["stack_bytes"], 0)
            self.assertGreater(kernel["shared_bytes"], 0)

    def test_explain_compiles_what_differs(self):
        self.need("nvrtc")
        forms = json.loads(self.ok("explain", "sgd", "--json"))["forms"]
        self.assertEqual([[c["arch"] for c in f["cuda"]] for f in forms.values()], [["sm_90"]] * 3)
        self.assertEqual(forms["split"]["cuda"], forms["fused"]["cuda"])  # its times too: not compiled again


if __name__ == "__main__":
    main()
