"""Optimizers' formulas (FILE.opt) through the command line tool: the page about them, every verb, built-in texts."""

import json
import pathlib
import re
import subprocess
import sys

from case import BINARY, ENVIRONMENT, SOURCE, Case, call, main

PAGE = (SOURCE / "docs" / "your_optimizer.md").read_text()
BLOCKS = re.findall(r"```opt\n(.*?)```", PAGE, re.DOTALL)
PIPELINE = ["--grad=bf16", "--master", "--clip", "--loss-scale", "--zero-grad", "--ema"]


class Page(Case):
    def test_each_step_of_the_page_runs_alike_everywhere(self):
        self.assertEqual(len(BLOCKS), 5)
        for text in BLOCKS:
            path = self.file("mine.opt", text)
            self.assertIn("step @mine", self.ok("check", path))
            for options in ([], PIPELINE):
                words = ["run", path, "--params=20000", "--steps=3", "--inputs=special", "--digest", *options]
                digest = self.ok(*words, "--backend=interpret")
                self.assertRegex(digest, r"^[0-9a-f]{32}\n$")
                for form in ("fused", "unfused"):
                    self.assertEqual(digest, self.ok(*words, f"--form={form}"), (options, form))

    def test_lamb_reports_and_has_two_phases(self):
        path = self.file("lamb.opt", BLOCKS[4])
        self.assertIn("report @trust : <f32>", self.ok("dump", path))
        self.assertEqual(len(re.findall(r"(?m)^ *phase ", self.ok("dump", path, "--emit=schedule"))), 2)


class PageOfOptimizers(Case):
    def test_lines_phases_bytes_and_peers_are_as_it_says(self):
        environment = {**ENVIRONMENT, "STEPFUSE_BUILD": str(pathlib.Path(BINARY).parents[1])}
        done = subprocess.run([sys.executable, SOURCE / "tools" / "optimizers_page.py", "--check"], env=environment,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)


class Editor(Case):
    def test_the_grammar_knows_what_the_language_has(self):
        def scopes(name, word):
            grammar = json.loads((SOURCE / "tools" / "editor" / f"{name}.tmLanguage.json").read_text())
            return [p["name"] for p in grammar["patterns"] if re.search(p["match"], word)]
        for function in re.search(r"functions are `([^`]+)`", PAGE).group(1).split():
            self.assertIn("support.function" if function not in ("f32", "f64") else "storage.modifier",
                          scopes("opt", f"{function}(x)"), function)
        for keyword in re.findall(r'\| "([a-z]+)"|= "([a-z]+)" NAME', PAGE):
            word = keyword[0] or keyword[1]
            self.assertRegex(" ".join(scopes("opt", f"{word} x")), r"storage\.|keyword\.", word)
        reference = (SOURCE / "ir" / "README.md").read_text()
        for dtype in re.search(r"(?m)^dtype +=(.*)$", reference).group(1).split("|"):
            self.assertIn("entity.name.type", scopes("sf", dtype.strip(' "')))


class Formula(Case):
    def test_a_built_in_text_is_a_file_of_ones_own(self):
        text = self.ok("list", "adamw", "--text")
        self.assertEqual(text, (SOURCE / "ir" / "optimizers" / "adamw.opt").read_text())
        path = self.file("adamw.opt", text)
        words = ["--params=3000", "--backend=interpret", "--digest", *PIPELINE]
        self.assertEqual(self.ok("run", path, *words), self.ok("run", "adamw", *words))
        self.assertEqual(self.ok("list", path, "--text"), text)
        self.fails(2, "accumulate has no formula", "list", "accumulate", "--text")

    def test_list_shows_all_that_one_takes(self):
        text = self.ok("list", "sgd", "--momentum", "--clip")
        for line in (r"lr +\{f64\} +0.001 +learning rate", r"momentum +\{f64\} +0.9 +decay rate", r"momentum_buffer +f32 +updated +from 0",
                     r"momentum_begun +<bool>", r"grad_norm +f32", r"--nesterov +look ahead"):
            self.assertRegex(text, line)
        mine = self.file("mine.opt", 'optimizer mine "a test" {\n  hyper k = 2 "how much"\n  w = w - k * g\n}\n')
        self.assertRegex(self.ok("list", mine), r"(?s)mine.opt: a test\n.*k +\{f64\} +2 +how much")

    def test_faults_have_a_place_a_caret_and_a_hint(self):
        bad = self.file("bad.opt", 'optimizer bad "" {\n  moment exp_avg\n  exp_avg = g\n  w = w - exp_avq\n}\n')
        for verb in ("check", "run", "dump"):
            said = self.fails(1, [f"{bad}:4:11: error: there is no 'exp_avq'; did you mean 'exp_avg'?"], verb, bad)
            self.assertIn("    w = w - exp_avq\n            ^", said)
        self.fails(2, "bad has no --amsgrad", "run", self.file("b.opt", 'optimizer bad "" { w = w - g }'), "--amsgrad")

    def test_fmt_rewrites_what_is_not_in_form_and_check_only_names_it(self):
        good = self.file("good.sf", "step @s {\n  report @r : f32\n  write @r, 1\n}\n")
        bad = self.file("bad.opt", 'optimizer bad "" {\nw=w-g  // so\n}\n')
        broken = self.file("broken.sf", "step @s {\n")
        self.assertEqual(call("fmt", "--check", good, bad).returncode, 1)
        self.assertEqual(call("fmt", "--check", good, bad).stdout.decode(), f"{bad}\n")
        self.assertEqual(self.ok("fmt", good, bad), f"{bad}\n")
        self.assertEqual(bad.read_text(), 'optimizer bad "" {\n  w = w - g  // so\n}\n')
        self.assertEqual(self.ok("fmt", "--check", good, bad), "")
        self.fails(1, "broken.sf:2:1: error: expected", "fmt", good, broken)
        self.assertEqual(self.ok("fmt", "-", text=good.read_text()), good.read_text())
        self.assertEqual(self.ok("fmt", "--formula", "-", text='optimizer o ""{w=w-g}'), 'optimizer o "" { w = w - g }\n')

    def test_check_warns_of_what_is_never_used(self):
        path = self.file("left.sf", "step @s {\n  buffer @w : f32 inout\n  %x = load @w : [f32]\n"
                                    "  %sum = reduce_add %x : f32\n  store @w, 0\n}\n")
        done = call("check", path)
        self.assertEqual(done.returncode, 0)
        self.assertIn(f"{path}:4:3: warning: the reduction %sum is never used: remove it\n", done.err)


if __name__ == "__main__":
    main()
