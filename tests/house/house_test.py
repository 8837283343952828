"""Tests of the house checks: each plants a fault that tools/check_layers.py or the summary must see."""

import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import check_layers  # noqa: E402

OPENING = "// A file that exists to be checked. Knows nothing.\n"


class Layers(unittest.TestCase):
    def faults(self, files):
        """What is wrong with a tree of these files, name -> text."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            with unittest.mock.patch.object(check_layers, "ROOT", pathlib.Path(folder)):
                return check_layers.faults_of(list(check_layers.sources()))

    def expect(self, words, name, text):
        faults = self.faults({name: OPENING + text})
        self.assertEqual(len(faults), 1, faults)
        self.assertIn(words, faults[0])

    def test_a_good_file_has_no_fault(self):
        text = OPENING + '#include <fmt/format.h>\n\n#include "ir/program/types.hpp"\n'
        self.assertEqual(self.faults({"compiler/a.cpp": text, "runtime/empty.cpp": ""}), [])

    def test_upward_includes(self):
        self.expect('may not include "compiler/variant.hpp"', "ir/a.cpp", '#include "compiler/variant.hpp"\n')
        self.expect('may not include "tests/x.hpp"', "runtime/a.cpp", '#include "tests/x.hpp"\n')

    def test_a_library_of_its_own(self):
        own = "tools/ptx_machine/"
        text = OPENING + f'#include "{own}b.hpp"\n'
        self.assertEqual(self.faults({own + "a.cpp": text, "tests/a.cpp": text}), [])
        self.expect("a library of its own", own + "a.cpp", '#include "ir/program/types.hpp"\n')
        self.expect("a library of its own", own + "a.cpp", "#include <stepfuse/stepfuse.hpp>\n")
        self.expect("only tests may use", "tools/a.cpp", f'#include "{own}b.hpp"\n')

    def test_folders_of_tests_share_one(self):
        good = {"tests/cpu/a.cpp": OPENING + '#include "tests/support/b.hpp"\n#include "tests/cpu/b.hpp"\n'}
        self.assertEqual(self.faults(good), [])
        self.expect("tests of one folder", "tests/cpu/a.cpp", '#include "tests/ptx/b.hpp"\n')
        self.expect("tests of one folder", "tests/support/a.cpp", '#include "tests/ptx/b.hpp"\n')

    def test_rooms_of_the_compiler(self):
        reads = '#include "compiler/plan/plan.hpp"\n#include "compiler/c/ops.hpp"\n'
        self.assertEqual(self.faults({"compiler/c/a.cpp": OPENING + reads}), [])
        schedule = '"compiler/schedule/schedule.hpp"'
        for target in (schedule, '"compiler/cuda/text.hpp"', '"ir/semantics/semantics.hpp"', "<stepfuse/program.hpp>"):
            self.expect("compiler/c/ may not include", "compiler/c/a.cpp", f"#include {target}\n")
        knows = OPENING + f"#include {schedule}\n"
        self.assertEqual(self.faults({"compiler/plan/lower.cpp": knows, "tools/cli/dump.cpp": knows}), [])
        for name in ("compiler/passes/a.cpp", "compiler/plan/a.cpp", "runtime/a.cpp", "tools/cli/a.cpp"):
            self.expect("may not include " + schedule, name, f"#include {schedule}\n")
        self.expect('may not include "compiler/passes/passes.hpp"', "compiler/schedule/a.cpp",
                    '#include "compiler/passes/passes.hpp"\n')

    def test_a_public_header_is_of_its_layer(self):
        public = {"runtime/include/stepfuse/stepfuse.hpp": OPENING, "ir/include/stepfuse/types.hpp": OPENING}
        of_runtime, of_ir = "#include <stepfuse/stepfuse.hpp>\n", "#include <stepfuse/types.hpp>\n"
        good = public | {"compiler/a.cpp": OPENING + of_ir, "samples/a.cpp": OPENING + of_runtime}
        self.assertEqual(self.faults(good), [])
        self.assertIn("belongs to runtime/", self.faults(public | {"compiler/a.cpp": OPENING + of_runtime})[0])
        by_path = {"compiler/a.cpp": OPENING + '#include "ir/program/types.hpp"\n'}
        self.assertIn("write <stepfuse/types.hpp>", self.faults(public | by_path)[0])
        self.expect('may not include "runtime/x.hpp"', "samples/a.cpp", '#include "runtime/x.hpp"\n')

    def test_includes_start_at_the_root(self):
        self.expect("from the repository root", "ir/a.cpp", '#include "types.hpp"\n')

    def test_pure_layers_reach_no_machine(self):
        self.expect("touches no machine", "compiler/a.cpp", "#include <filesystem>\n")
        self.expect("may not ask the machine", "ir/a.cpp", 'auto home = getenv("HOME");\n')

    def test_kernel_text_includes_nothing(self):
        self.expect("kernel text", "compiler/prelude.cuh", "#include <cuda_fp16.h>\n")

    def test_one_file_knows_llvm(self):
        text = OPENING + "#include <llvm-c/Core.h>\n"
        self.assertEqual(self.faults({"runtime/a.cpp": text}), [])
        self.assertIn("llvm-c/", self.faults({"runtime/a.cpp": text, "runtime/b.cpp": text})[0])

    def test_nothing_takes_a_file_of_the_tests(self):
        opening = '"""A script that exists to be checked."""\n'
        for line in ('sys.path.insert(0, str(ROOT / "tests" / "x"))', 'x = ROOT / "tests/x/a.json"', 'open("tests/x/a.json")',
                     "import helper", "from helper import a", "import tests.x.helper"):
            files = {"tests/x/helper.py": opening, "tests/x/other.py": opening + line + "\n", "tools/a.py": opening + line + "\n"}
            faults = self.faults(files)
            self.assertEqual(len(faults), 1, (line, faults))
            self.assertTrue(faults[0].startswith("tools/a.py:2: tools/ may not use a file of tests/"), faults)

    def test_modules_of_a_package_import_in_no_circle(self):
        opening = '"""A module that exists to be checked."""\n'
        lines = {"a": "from . import b", "b": "from .c import x", "c": "", "d": "from .a import y"}
        folder = check_layers.ACYCLIC_PACKAGES[0]
        files = {f"{folder}/{name}.py": f"{opening}{line}\n" for name, line in lines.items()}
        self.assertEqual(self.faults(files), [])
        faults = self.faults({**files, f"{folder}/c.py": opening + "def f():\n    from . import a\n"})
        self.assertEqual(len(faults), 1, faults)
        self.assertTrue(faults[0].startswith(f"{folder}: a, b, c import each other in a circle"), faults)

    def test_size_and_opening(self):
        self.expect("above 800 a file needs a reason", "ir/a.cpp", "\n" * 800)
        with unittest.mock.patch.dict(check_layers.LONG_FILES, {"ir/a.cpp": "it is one list"}):
            self.assertEqual(self.faults({"ir/a.cpp": OPENING + "\n" * 800}), [])
            self.assertIn("need no reason", self.faults({"ir/a.cpp": OPENING})[0])
        self.assertIn("one-sentence comment", self.faults({"ir/a.cpp": "int a;\n"})[0])

    def test_lines_of_filetests_are_counted_in_all(self):
        half = "line\n" * 2500
        files = {"tests/filetests/a/b.sf": half, "tests/filetests/c/d.sf": half}
        self.assertEqual(self.faults(files), [])
        self.assertIn("5001 lines; the cap is 5000", self.faults({**files, "tests/filetests/a/d.sf": "line\n"})[0])


class Prose(unittest.TestCase):
    def faults(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            with unittest.mock.patch.object(check_layers, "ROOT", pathlib.Path(folder)):
                return list(check_layers.check_prose(list(check_layers.texts())))

    def page_faults(self, text):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(check_layers, "ROOT", pathlib.Path(folder)):
            page = pathlib.Path(folder, "a.md")
            page.write_text(text)
            return list(check_layers.check_pages([page]))

    def test_pages_have_short_lines_and_sentences(self):
        sentence = "word\n" * 39 + "end.\n\n"
        for text in ("x" * 120, "| " + "x" * 200, sentence * 9, "```\n" + "word " * 20 + "\n```",
                     "longer " + sentence * 34, "Of course. There is no limit. `bytes a step`"):
            self.assertEqual(self.page_faults(text), [], text)
        for text, fault in (("x" * 121, "121 columns"), ("```\n" + "x" * 121 + "\n```", "121 columns"),
                            (("word\n" * 41) + ".", "1 of 1 sentences"), ("- " + "word\n" * 41, "1 of 1 sentences"),
                            ("It is compared beside it.", "'beside'"), ("It goes on.", "'goes on'"), ("It is no number.", "'is no'"),
                            ("Good. Of all.", "begins with its subject"), ("32 bytes a parameter.", "write per")):
            found = self.page_faults(text)
            self.assertEqual(len(found), 1, (text, found))
            self.assertIn(fault, found[0])

    def test_a_fragment_and_a_retired_word_are_faults(self):
        for line, words in (("// Of elements the first.", "begins with 'Of'"), ("# What is kept.", "begins with 'What'"),
                            ("/// Where it runs.", "begins with 'Where'"),
                            ("x = 1  # made anew", "'anew' is a retired word: write again"),
                            ("It is compared to the bit.", "write bit for bit")):
            for name in ("ir/a.cpp", "docs/a.md", "python/a.py"):
                found = self.faults({name: "// Good.\n" + line + "\n"})
                if name == "docs/a.md" and "begins with" in words:
                    self.assertEqual(found, [])
                else:
                    self.assertEqual(len(found), 1, (name, line, found))
                    self.assertTrue(found[0].startswith(f"{name}:2: ") and words in found[0], found)
        self.assertEqual(self.faults({"ir/a.cpp": "// Which of these is taken. Nowhere else. So far. There is no limit.\n"}), [])

    def test_docstrings_and_messages_of_code_have_no_habits(self):
        for name, line, words in (("python/a.py", '    """What of it remains."""', "begins with 'What'"),
                                  ("ir/a.cpp", 'fail("it is no number");', "write is not a"),
                                  ("tools/a.py", 'say("32 bytes a step")', "write per"),
                                  ("runtime/a.cpp", "// Rounds in another way.", "write different"),
                                  ("tools/a.sh", "# It is rounded so.", "write this way")):
            found = self.faults({name: line + "\n"})
            self.assertEqual(len(found), 1, (line, found))
            self.assertIn(words, found[0])
            self.assertEqual(self.faults({"tests/" + name: line + "\n"}), [])  # titles of cases are not read by users

    def test_comments_have_120_columns(self):
        for mark in ("//", "#", "///"):
            self.assertEqual(self.faults({"ir/a.cpp": mark + " " + "x" * (119 - len(mark)) + "\n"}), [])
            found = self.faults({"ir/a.cpp": mark + " " + "x" * (120 - len(mark)) + "\n"})
            self.assertEqual(len(found), 1, found)
            self.assertIn("121 columns", found[0])
        self.assertEqual(self.faults({"tests/filetests/kernels/a.sf": "// " + "x" * 200 + "\n"}), [])


class TorchEnvironment(unittest.TestCase):
    def test_what_cannot_be_installed_is_skipped_with_its_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            nothing = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": folder}
            run = subprocess.run(["bash", TOOLS / "torch_env.sh", f"{folder}/torch"], env=nothing, capture_output=True,
                                 text=True, check=False)
            self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
            self.assertRegex(run.stdout, r"^skipped: no PyTorch [0-9.]+ in .*: .+\n$")

    def test_a_folder_of_somebody_else_stays_as_it_is(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "mine").write_text("")
            run = subprocess.run(["bash", TOOLS / "torch_env.sh", folder], env={**os.environ, "PIP_NO_INDEX": "1"}, capture_output=True,
                                 text=True, check=False)
            self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
            self.assertIn("was not made by this script: give another folder", run.stderr)
            self.assertEqual(os.listdir(folder), ["mine"])


class Scripts(unittest.TestCase):
    def test_help_is_an_answer_and_an_unknown_option_a_fault(self):
        for script in ("test.sh", "demo.sh"):
            asked = subprocess.run(["bash", TOOLS / script, "--help"], capture_output=True, text=True, check=False)
            self.assertEqual((asked.returncode, asked.stderr), (0, ""))
            self.assertIn(f"tools/{script} --quick", asked.stdout)
            wrong = subprocess.run(["bash", TOOLS / script, "--nothing"], capture_output=True, text=True, check=False)
            self.assertEqual((wrong.returncode, wrong.stdout), (2, ""))
            self.assertIn("unknown option --nothing", wrong.stderr)


class Shares(unittest.TestCase):
    def test_every_python_test_is_in_one_share(self):
        run = TOOLS.parent / "tests/python/run.py"
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, f"test_{k}.py") for k in range(7)]
            for k, file in enumerate(files):
                file.write_text("x" * k)
            share_of = runpy.run_path(str(run))["share_of"]
            shares = [share_of(files, f"{k}/3") for k in (1, 2, 3)]
        self.assertEqual([len(s) for s in shares], [2, 1, 4])
        self.assertEqual(sorted(sum(shares, [])), files)


class Summary(unittest.TestCase):
    def closing_line(self, cases, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            xml = pathlib.Path(folder, "tests.xml")
            xml.write_text(f"<testsuite>{cases}</testsuite>")
            run = subprocess.run(
                [sys.executable, TOOLS / "test_summary.py", "--ctest", folder, xml, *arguments],
                capture_output=True, text=True, check=False)
            self.output = run.stdout
            return run.stdout.splitlines()[-1], run.returncode

    def case(self, output, status="run", seconds=1):
        return f'<testcase name="a" time="{seconds}" status="{status}"><system-out>{output}</system-out></testcase>'

    def test_doctest_cases_are_counted(self):
        good = self.case("[doctest] test cases:  7 |  7 passed | 0 failed | 2 skipped")
        self.assertEqual(self.closing_line(good, "--check", "x", "passed", "3"), ("8 passed, 0 failed", 0))

    def test_a_crash_after_the_last_case_is_a_failure(self):
        bad = self.case("[doctest] test cases: 7 | 7 passed | 0 failed | 0 skipped", "fail")
        self.assertEqual(self.closing_line(bad), ("7 passed, 1 failed", 1))

    def test_what_cannot_run_here_is_skipped(self):
        some = self.case("skipped: no GPU\n[doctest] test cases: 2 | 2 passed | 0 failed | 0 skipped")
        self.assertEqual(self.closing_line(some), ("1 passed, 0 failed, 1 skipped", 0))

    def test_times_are_kept_and_the_slowest_are_named(self):
        doctest = self.case("1.500000 s: a slow case\n0.900000 s: a fast case\n"
                            "[doctest] test cases: 2 | 2 passed | 0 failed | 0 skipped", seconds=3)
        pytest = self.case("2.25s call     tests/python/test_x.py::test_y\n3 passed in 4.00s", seconds=4)
        whole = self.case("done", seconds=7)
        with tempfile.TemporaryDirectory() as folder:
            times = pathlib.Path(folder, "times.txt")
            self.closing_line(doctest + pytest + whole, "--check", "lint", "passed", "40", "--part", "set-up", "5",
                              "--times", str(times))
            self.assertEqual(times.read_text(), "40.0\tlint\n7.0\ta\n5.0\tset-up\n"
                                                "2.2\ta: tests/python/test_x.py::test_y\n1.5\ta: a slow case\n")
        self.assertRegex(self.output, r"the slowest:\n +40.0 s  lint\n +7.0 s  a\n +2.2 s")
        many = "".join(self.case("", seconds=s) for s in range(1, 20))
        self.closing_line(many)
        self.assertEqual(self.output.count(" s  a\n"), 10)

    def test_a_folder_over_its_budget_is_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            budgets = pathlib.Path(folder, "seconds.txt")
            for seconds, warnings in ((6, 0), (4, 1)):
                budgets.write_text(f"# seconds\n\nslow {seconds}  # of all its tests\nother 1\n")
                line, code = self.closing_line("", "--check", "slow", "passed", "5", "--budgets", str(budgets))
                self.assertEqual((line, code), ("1 passed, 0 failed", 0))
                self.assertEqual(self.output.count("warning: slow took 5 s, its budget is 4 s"), warnings, self.output)

    def test_nothing_run_is_no_success(self):
        self.assertEqual(self.closing_line(""), ("0 passed, 0 failed", 1))


class Demo(unittest.TestCase):
    def test_an_echoed_command_can_be_pasted(self):
        show = next(line for line in (TOOLS / "demo.sh").read_text().splitlines() if line.startswith("show()"))
        words = ["printf", "%s;", "f16|bf16|f32", "a b", "$HOME"]
        done = subprocess.run(["bash", "-c", show + '\nshow "$@"', "-", *words], capture_output=True, text=True, check=True)
        echoed, output = done.stdout.split("\n", 1)
        pasted = subprocess.run(["bash", "-c", echoed.removeprefix("$ ")], capture_output=True, text=True, check=True)
        self.assertEqual(pasted.stdout, output)


if __name__ == "__main__":
    unittest.main()
