"""Help of the command line tool: short, long, by topic, as man pages, as completions, and hints for mistakes."""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile
import unittest

from case import BINARY, ENVIRONMENT, SOURCE, Case, call, main

VERBS = re.findall(r"(?m)^  (\w+) ", re.search(r"(?s)Verbs:\n(.*?)\n\n", call("-h").stdout.decode())[1])
DATA = ("list", "check", "explain", "run", "bench", "env", "selftest", "cache", "aot", "replay")


class Help(Case):
    def test_verbs_are_found(self):
        self.assertIn("dump", VERBS)
        self.assertEqual(len(VERBS), len(set(VERBS)))
        self.assertGreaterEqual(len(VERBS), 14)

    def test_short_help_fits_on_a_screen_and_long_help_has_examples(self):
        for verb in VERBS:
            short, long = self.ok(verb, "-h"), self.ok(verb, "--help")
            self.assertLessEqual(len(short.splitlines()), 45, verb)
            self.assertNotIn("Examples:", short)
            self.assertIn(f"`stepfuse {verb} --help`", short)
            for line in long.splitlines():
                self.assertLessEqual(len(line), 120, line)
        self.assertNotIn("Start here", self.ok("-h"))
        self.assertIn("Start here", self.ok("--help"))

    def test_recipe_options_have_a_page_of_their_own(self):
        page = self.ok("help", "recipe-options")
        for name in re.findall(r"(?m)^  (--[a-z-]+)", self.ok("list").partition("Options of every recipe")[2]):
            self.assertRegex(page, rf"(?m)^  {name}\b")
        self.assertIn("--store exp_avg=dyn8,exp_avg_sq=dyn8u", page)
        self.assertLessEqual(max(map(len, page.splitlines())), 100)
        for verb in ("dump", "run"):
            for text in (self.ok(verb, "-h"), self.ok(verb, "--help")):
                self.assertNotIn("--weight-rounding", text)
                self.assertIn("stepfuse help recipe-options", text)
        self.assertNotIn("recipe-options", self.ok("env", "--help"))

    def test_topics(self):
        self.assertRegex(self.ok("help", "environment"), r"(?m)^  STEPFUSE_CACHE_DIR\b")
        self.fails(2, "there is no help on 'recipe-option'; did you mean 'recipe-options'?", "help", "recipe-option")
        for verb in VERBS:
            self.assertEqual(self.ok("help", verb), self.ok(verb, "--help"))

    def test_every_variable_that_is_read_is_listed(self):
        read = set()
        for folder in ("ir", "compiler", "runtime", "tools/cli", "tools/sass", "python"):
            for path in (SOURCE / folder).rglob("*"):
                if path.suffix in (".cpp", ".hpp", ".py"):
                    text = path.read_text(encoding="utf-8")
                    read |= set(re.findall(r'(?:getenv|environ(?:\.get)?)\s*[(\[]\s*"(STEPFUSE_[A-Z_]+)"', text))
        page = self.ok("help", "environment")
        self.assertGreaterEqual(len(read), 8)
        self.assertEqual({name for name in read if f"  {name}" not in page}, set())

    def test_ranges_are_readable(self):
        self.assertNotIn("INT:INT", self.ok("run", "--help") + self.ok("bench", "--help"))
        self.fails(2, "--threads: expected a whole number from 0 to 4096; got '1,2'", "run", "adamw", "--threads=1,2")
        self.fails(2, "--absent: expected a number from 0 to 1; got '2'", "run", "adamw", "--absent=2")


class Hints(Case):
    def test_a_hyperparameter_is_an_argument(self):
        self.fails(2, "lr is an argument of the step: write --set lr=0.1", "run", "adamw", "--lr", "0.1")
        self.fails(2, "write --set lr=0.1", "run", "adamw", "--lr=0.1")
        self.fails(2, "write --set beta1=VALUE", "dump", "adamw", "--beta1")

    def test_words_of_other_tools(self):
        for words, hint in ((["--max-norm", "1"], "--clip=l2 --set max_norm=1"), (["--max_grad_norm=2"], "--clip=l2 --set max_norm=2"),
                            (["--fp16"], "--grad=f16"), (["--bf16"], "--grad=bf16"), (["--gpu"], "--backend=cuda"),
                            (["--dtype=bf16"], "--grad"), (["--betas", "0.9,0.95"], "--set beta1=")):
            self.fails(2, hint, "run", "adamw", *words)

    def test_a_limit_is_no_kind_of_clipping(self):
        for words in (["--clip=1.0"], ["--clip", "1.0"]):
            self.fails(2, "write --clip=l2 --set max_norm=1.0", "run", "adamw", *words)

    def test_an_argument_that_an_option_brings(self):
        self.fails(2, "--clip", "run", "adamw", "--set", "max_norm=1")

    def test_recipes_are_not_all_on_one_line(self):
        text = self.fails(2, "did you mean 'adamw'", "run", "adamww")
        self.assertLessEqual(max(map(len, text.splitlines())), 100)


class Json(Case):
    def test_every_verb_that_prints_data_has_it(self):
        for verb in DATA:
            self.assertIn("--json", self.ok(verb, "-h"), verb)

    def test_list(self):
        data = json.loads(self.ok("list", "--json"))
        self.assertIn("adamw", [r["name"] for r in data["recipes"]])
        clip = next(o for o in data["options"] if o["name"] == "clip")
        self.assertEqual((clip["without_value"], clip["default"]), ("l2", "none"))
        self.assertIn("agc", clip["values"])
        one = json.loads(self.ok("list", "adamw", "--clip", "--json"))
        self.assertEqual(next(a for a in one["arguments"] if a["name"] == "lr")["default"], "0.001")
        self.assertEqual(next(a for a in one["arguments"] if a["name"] == "lr")["meaning"], "learning rate")
        self.assertIn("exp_avg", [b["name"] for b in one["buffers"]])
        self.assertIn("grad_norm", [r["name"] for r in one["reports"]])

    def test_check_has_each_file_and_each_fault(self):
        good = self.file("good.sf", "step @s {\n  report @r : f32\n  %c = const 1 : f32\n  write @r, %c\n}\n")
        bad = self.file("bad.sf", "step @s {\n  oops\n}\n")
        done = call("check", good, bad, "--json")
        self.assertEqual((done.returncode, done.err), (1, ""))
        first, second = json.loads(done.stdout)
        self.assertEqual((first["file"], first["ok"], first["step"], first["instructions"]), (str(good), True, "s", 2))
        self.assertFalse(second["ok"])
        self.assertIn(f"{bad}:2:3: error: ", second["error"])

    def test_selftest(self):
        data = json.loads(self.ok("selftest", "--json"))
        self.assertTrue(data["ok"])
        self.assertEqual(data["devices"][0], {"device": "interpreter", "result": "works", "detail": "3 steps"})

    def test_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            cache = {"STEPFUSE_CACHE": "on", "STEPFUSE_CACHE_DIR": folder}
            self.ok("run", "sgd", "--params=10", environment=cache)
            data = json.loads(self.ok("cache", "list", "--json", environment=cache))
            self.assertEqual(data["folder"], folder)
            for entry in data["entries"]:
                self.assertEqual(set(entry), {"name", "bytes", "used"})
                self.assertIn(entry["name"], self.ok("cache", "list", environment=cache))
            self.assertEqual(json.loads(self.ok("cache", "path", "--json", environment=cache)), {"folder": folder})
            removed = json.loads(self.ok("cache", "clear", "--json", environment=cache))
            self.assertEqual(removed, {"removed": len(data["entries"])})

    def test_aot(self):
        self.need("llvm")
        with tempfile.TemporaryDirectory() as folder:
            kernels = json.loads(self.ok("aot", "sgd", "--for=x86-64", "-o", folder, "--json"))
            self.assertEqual({k["target"] for k in kernels}, {"x86-64"})
            self.assertGreater(kernels[0]["bytes"], 0)


class Completion(Case):
    def words(self, *typed):
        return self.ok("complete", *typed).split()

    def test_candidates(self):
        self.assertEqual(self.words("ex"), ["explain", "explore"])
        self.assertEqual(self.words("help", "recipe"), ["recipe-options"])
        self.assertEqual(self.words("run", "adamw_"), ["adamw_cautious_decay", "adamw_independent_decay"])
        self.assertEqual(self.words("run", "adamw", "--weight-d"), ["--weight-decay"])
        self.assertEqual(self.words("dump", "adamw", "--emit", "pa"), ["passes"])
        self.assertEqual(self.words("dump", "adamw", "--emit=pa"), ["--emit=passes"])
        self.assertIn("--clip=agc", self.words("dump", "adamw", "--clip=a"))
        self.assertEqual(self.words("cache", "l"), ["list"])
        self.assertEqual(self.words("dump", "adamw", "-o", ""), [])
        self.assertEqual(self.words("completion", ""), ["bash", "zsh", "fish"])

    def test_bash(self):
        folder = str(pathlib.Path(BINARY).parent)
        script = self.file("stepfuse.bash", self.ok("completion", "bash"))

        def complete(line):
            words = line.split(" ")
            ask = (f'. {script}; COMP_WORDS=({" ".join(words)}); [[ "{line}" == *" " ]] && COMP_WORDS+=(""); '
                   'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _stepfuse; printf "%s\\n" "${COMPREPLY[@]}"')
            environment = {**ENVIRONMENT, "PATH": f"{folder}:{os.environ['PATH']}"}
            done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, env=environment, check=True)
            return done.stdout.split()

        self.assertEqual(complete("stepfuse exp"), ["explain", "explore"])
        self.assertEqual(complete("stepfuse dump adamw --emit pa"), ["passes"])
        # bash cuts words at "=".
        self.assertEqual(complete("stepfuse dump adamw --emit = pa"), ["passes"])

    def test_the_others_are_shell(self):
        for shell, check in (("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])):
            text = self.ok("completion", shell)
            self.assertIn("stepfuse complete", text)
            if shutil.which(shell):
                done = subprocess.run([*check, self.file("script", text)], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
        self.fails(2, "'tcsh' is not one of bash, zsh, fish", "completion", "tcsh")


class Man(Case):
    def test_there_is_a_page_of_the_tool_and_of_each_verb_and_topic(self):
        with tempfile.TemporaryDirectory() as folder:
            self.ok("man", "-o", folder)
            names = sorted(p.name for p in pathlib.Path(folder).iterdir())
            expected = ["stepfuse.1", *(f"stepfuse-{v}.1" for v in VERBS), "stepfuse-recipe-options.7", "stepfuse-environment.7"]
            self.assertEqual(names, sorted(expected))
            dump = pathlib.Path(folder, "stepfuse-dump.1").read_text()
            for part in (".TH STEPFUSE-DUMP 1", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", ".SH EXAMPLES", "\\-\\-emit"):
                self.assertIn(part, dump)
            if not shutil.which("groff"):
                self.skipTest("no groff here")
            for name in names:
                done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", pathlib.Path(folder, name)], capture_output=True, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)
                self.assertTrue(done.stdout.strip())
            done = subprocess.run(["groff", "-man", "-Tascii", "-P-c", pathlib.Path(folder, "stepfuse-dump.1")], capture_output=True,
                                  text=True, check=True)
            self.assertIn("stepfuse dump adamw --clip --emit=passes", re.sub(".\b", "", done.stdout))


class Colour(Case):
    def on_terminal(self, *words, **environment):
        ours, theirs = pty.openpty()
        keep = {k: v for k, v in ENVIRONMENT.items() if k != "NO_COLOR"}
        process = subprocess.run([BINARY, *map(str, words)], stderr=theirs, stdout=subprocess.DEVNULL,
                                 env={**keep, "TERM": "xterm", **environment}, check=False)
        os.close(theirs)
        said = b""
        try:
            while chunk := os.read(ours, 65536):
                said += chunk
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        self.assertNotEqual(process.returncode, 0)
        return said.decode().replace("\r\n", "\n")

    def test_faults_are_coloured_where_somebody_looks(self):
        bad = self.file("bad.sf", "step @s {\n  oops\n}\n")
        for words in (["check", bad], ["dump", bad]):
            plain = call(*words).err
            self.assertNotIn("\033", plain)
            shown = self.on_terminal(*words)
            self.assertIn("\033[1;31merror:\033[0m", shown)
            self.assertIn("\033[1;32m^\033[0m", shown)
            self.assertEqual(re.sub(r"\033\[[0-9;]*m", "", shown), plain)
            self.assertEqual(self.on_terminal(*words, NO_COLOR="1"), plain)
            self.assertEqual(self.on_terminal(*words, TERM="dumb"), plain)
            self.assertIn("\033[", self.on_terminal(*words, NO_COLOR=""))

    def test_the_name_of_the_tool_too(self):
        self.assertTrue(self.on_terminal("dump", "nothing.sf").startswith("\033[1;31mstepfuse:\033[0m cannot read"))


if __name__ == "__main__":
    main()
