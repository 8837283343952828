#!/usr/bin/env python3
"""Runs the samples and the README's programs as a user does. tests/python/test_readme.py runs the README's Python.

    programs_test.py SOURCE_DIR BIN_DIR
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

SOURCE = pathlib.Path(sys.argv[1])
BIN = pathlib.Path(sys.argv[2])


def run(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=1500)


def without_llvm():
    """The reason to skip what runs compiled kernels, or an empty string."""
    said = run(BIN / "embed").stderr
    return said.strip() if "LLVM" in said else ""


SKIP = without_llvm()


class Embed(unittest.TestCase):
    @unittest.skipIf(SKIP, SKIP)
    def test_minimises(self):
        done = run(BIN / "embed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.near_0(done.stdout, 1)

    @unittest.skipIf(SKIP, SKIP)
    def test_mixed_precision_minimises_and_its_first_steps_are_finite(self):
        done = run(BIN / "mixed_precision")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.near_0(done.stdout, 2)
        self.assertNotIn("inf", done.stdout)

    def near_0(self, text, parameters):
        final = [float(x) for x in re.findall(r"(?:weight|bias) (\S+?)(?:,|$)", text, re.M)]
        self.assertEqual(len(final), parameters, text)
        for value in final:
            self.assertLess(abs(value), 0.1, "the parameters began at 1 and should be near 0")


class Readme(unittest.TestCase):
    TEXT = (SOURCE / "README.md").read_text(encoding="utf-8")
    BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.S | re.M)
    TOOL = BIN / "stepfuse"

    def blocks(self, language):
        return [text for name, text in self.BLOCKS if name == language]

    def test_every_block_has_its_test(self):
        self.assertEqual(sorted(name for name, _ in self.BLOCKS), ["cpp", "python", "sh", "sh", "text"])
        self.assertLessEqual(len(self.TEXT.splitlines()), 150)

    def test_the_program_in_cpp_is_the_sample(self):
        program = (SOURCE / "samples/embed/main.cpp").read_text(encoding="utf-8")
        self.assertEqual(self.blocks("cpp")[0], program[program.index("#include <cstdio>"):])

    def test_the_commands_to_install_name_what_there_is(self):
        block = self.blocks("sh")[0]
        self.assertEqual(run("bash", "-n", "-c", block).returncode, 0)
        self.assertIn("--for", (SOURCE / "tools/setup.sh").read_text(encoding="utf-8"))
        self.assertIn("git clone URL stepfuse && cd stepfuse ", block)
        self.assertIn("pip install . ", block)
        self.assertTrue((SOURCE / "pyproject.toml").exists())
        self.assertTrue((SOURCE / "python/stepfuse/selftest.py").exists())

    @unittest.skipIf(SKIP or not TOOL.exists(), SKIP or "no command line tool was built")
    def test_the_commands_of_the_tool_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for line in self.blocks("sh")[1].splitlines():
                words = line.split("#")[0].replace("-o ", f"-o {folder}/").replace("stepfuse", str(self.TOOL), 1).split()
                done = run(*words)
                self.assertEqual(done.returncode, 0, line + done.stderr)

    @unittest.skipIf(not TOOL.exists(), "no command line tool was built")
    def test_the_output_of_explain_is_real(self):
        done = run(self.TOOL, "explain", "adamw", "--loss-scale", "--clip", "--no-compile")
        self.assertTrue(done.stdout.startswith(self.blocks("text")[0]), done.stdout + done.stderr)

    def test_the_charts_are_drawn_from_their_data(self):
        checked = run(sys.executable, SOURCE / "tools/charts.py", "--check")
        self.assertEqual((checked.returncode, checked.stdout), (0, ""), checked.stderr)
        for picture in SOURCE.glob("docs/*.svg"):
            self.assertIn("prefers-color-scheme", picture.read_text(encoding="utf-8"), picture)

    def test_the_page_about_benchmarks_has_the_charts_numbers(self):
        page = (SOURCE / "docs/benchmarks.md").read_text(encoding="utf-8")
        of = lambda name: json.loads((SOURCE / f"docs/{name}.json").read_text(encoding="utf-8"))["rows"]
        rows = [f"| {r['parameters']:,} | {r['work']} | {r['torch_ms']:g} ms | {r['stepfuse_ms']:g} ms | {r['ratio']:g}x |" for r in of("host_time")]
        self.assertIn("\n".join(rows), page)
        rows = [f"| {r['parameters'] / 1e6:g} M | {r['fused_ms']:g} ms | {r['unfused_ms']:g} ms | {r['ratio']:g} |" for r in of("fused_unfused")]
        self.assertIn("\n".join(rows), page)

    def test_the_factors_are_those_of_the_data(self):
        data = SOURCE / "docs/compare_torch.json"
        fastest = [min(v["ratio"] for n, v in r["rows"].items() if n != "stepfuse") for r in json.loads(data.read_text())["results"]]
        low, high, tiny = (f"{x:.2g}" if x < 10 else f"{x:.0f}" for x in (min(fastest), max(f for f in fastest if f < 10), max(fastest)))
        self.assertIn(f"{low} to {high} times as fast", self.TEXT)
        self.assertIn(f"{tiny} times with 10,000 small tensors", self.TEXT)

    def test_the_factors_on_a_gpu_are_those_of_the_data(self):
        page = (SOURCE / "docs/benchmarks.md").read_text(encoding="utf-8")
        factors = {}
        for result in json.loads((SOURCE / "docs/compare_torch_h100.json").read_text(encoding="utf-8"))["results"]:
            times = {name: row["median_s"] for name, row in result["rows"].items()}
            factors[result["layout"]] = f"{min(times['fused'], times['foreach']) / times['native']:.2g}"
            cells = " | ".join(f"{1e3 * times[name]:.3f} ms" for name in ("stepfuse", "native", "deferred", "fused", "foreach"))
            self.assertIn(f" | {cells} | **{factors[result['layout']]}x** |", page)
        self.assertIn(f"{factors['gpt2']} to {factors['resnet50']} times as fast as torch's fused step on an H100", self.TEXT)
        package = (SOURCE / "python/README.md").read_text(encoding="utf-8")
        self.assertIn(f"{factors['gpt2']}\n  times as fast as torch's fused step for GPT-2 and {factors['resnet50']} times for ResNet-50", package)


class Pages(unittest.TestCase):
    """Programs in C++ on the other pages."""

    BUILD = BIN.parent

    def blocks(self, page, language):
        text = (SOURCE / ("" if "/" in page else "docs") / page).read_text(encoding="utf-8")
        return re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)

    @unittest.skipIf(SKIP, SKIP)
    def test_the_tutorial_builds_and_minimises(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, language in (("main.cpp", "cpp"), ("CMakeLists.txt", "cmake")):
                pathlib.Path(folder, name).write_text(self.blocks("tutorial_cpp.md", language)[0], encoding="utf-8")
            command = self.blocks("tutorial_cpp.md", "sh")[0].replace("/path/to/stepfuse/build", str(self.BUILD.resolve()))
            done = subprocess.run(["bash", "-euc", command], cwd=folder, capture_output=True, text=True, timeout=1500)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for value in re.search(r"weight (\S+), bias (\S+)", done.stdout).groups():
            self.assertLess(abs(float(value)), 0.1, done.stdout)

    @unittest.skipIf(SKIP or not (BUILD / "libstepfuse.so").exists(), SKIP or "no shared library was built")
    def test_the_program_in_c_minimises(self):
        (part,) = self.blocks("embedding.md", "c")
        program = f"""#include <stdio.h>
#include <stdlib.h>
#include <stepfuse/stepfuse.h>
static float weight[1000], gradient[1000], exp_avg[1000], exp_avg_sq[1000];
static void ok(stepfuse_status status) {{
  if (status == STEPFUSE_OK) return;
  fprintf(stderr, "%s\\n", stepfuse_error_message());
  exit(1);
}}
int main(void) {{
for (int k = 0; k < 1000; ++k) weight[k] = 1;
{part}printf("weight %g\\n", weight[999]);
return 0;
}}
"""
        includes = [f"-I{SOURCE / layer / 'include'}" for layer in ("ir", "compiler", "runtime")]
        link = [f"-L{self.BUILD}", "-lstepfuse", f"-Wl,-rpath,{self.BUILD.resolve()}"]
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run(["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", *includes, "-x", "c", "-", *link, "-o", f"{folder}/main"],
                                  input=program, capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, made.stderr)
            done = run(pathlib.Path(folder, "main"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(abs(float(done.stdout.split()[1])), 0.1)

    def test_parts_of_programs_compile(self):
        """Each block in a function, with the names that its page takes for granted."""
        given = """#include <cmath>
#include <stepfuse/checkpoint.hpp>
#include "tools/ptx_machine/machine.hpp"
namespace sf = stepfuse;
using ptx::u64;
enum { ncclFloat, ncclSum };
void ncclAllReduce(void*, void*, size_t, int, int, int, sf::Stream);
int depth_of(int);
double schedule(int);
"""
        parts = [("checkpoints.md", "sf::Step& step, const std::string& path"),
                 ("cuda.md", "sf::Step& step, std::vector<void*>& gradients, const sf::Args& args, int comm, sf::Stream stream"),
                 ("migration.md", "const sf::Layout& layout, int tensors, int i"),
                 ("tools/ptx_machine/README.md", "std::string_view ptx_text, u64 bytes, const std::byte* host")]
        for page, names in parts:
            self.assertTrue(self.blocks(page, "cpp"), page)
            for k, block in enumerate(self.blocks(page, "cpp")):
                given += f"void {pathlib.Path(page).stem}_{k}({names}) {{\n{block}}}\n"
        includes = [f"-I{SOURCE}", *(f"-I{SOURCE / layer / 'include'}" for layer in ("ir", "compiler", "runtime"))]
        done = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", *includes, "-x", "c++", "-"], input=given, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


class TrainDigits(unittest.TestCase):
    def train(self, *options):
        with tempfile.TemporaryDirectory() as out:
            done = run(BIN / "train_digits", "--out", out, *options)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            svg = (pathlib.Path(out) / "train_digits.svg").read_text(encoding="utf-8")
        return done.stdout, svg

    def rows(self, text):
        lines = (line.split() for line in text.splitlines())
        return {f[0]: f for f in lines if f and f[0] in ("off", "fixed", "dynamic")}

    @unittest.skipIf(SKIP, SKIP)
    def test_scaling_decides(self):
        text, svg = self.train()
        rows = self.rows(text)
        percent = {name: [float(f[:-1]) for f in row if f.endswith("%")] for name, row in rows.items()}
        self.assertGreater(percent["off"][0], 30, "share of underflow without scaling")
        self.assertLess(percent["dynamic"][0], 1)
        self.assertLess(percent["off"][1], 30, "accuracy without scaling")
        for scaling in ("fixed", "dynamic"):
            self.assertGreater(percent[scaling][1], 90, "accuracy with scaling")
        self.assertGreater(int(rows["dynamic"][4]), 0, "dynamic scaling finds its limit by skipping")
        root = ElementTree.fromstring(svg)
        self.assertTrue(root.tag.endswith("svg"))
        self.assertNotIn("nan", svg)

    @unittest.skipIf(SKIP, SKIP)
    def test_forms_and_devices_agree(self):
        digests = set()
        for options in (["--form", "split"], ["--form", "unfused"], ["--device", "interpret"]):
            rows = self.rows(self.train("--epochs", "1", *options)[0])
            self.assertTrue(all(row[-1] == "yes" for row in rows.values()), rows)
            digests.add(tuple(row[-2] for row in rows.values()))
        self.assertEqual(len(digests), 1, "CPU and interpreter, all forms")

    def test_says_what_is_wrong(self):
        done = run(BIN / "train_digits", "--data", "/no/such.csv")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such.csv", done.stderr)
        self.assertNotEqual(run(BIN / "train_digits", "--form", "fast").returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
