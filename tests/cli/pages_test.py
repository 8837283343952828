"""The commands on all pages of the documentation, as a reader types them: each is run here, or named with the test that runs it."""

import pathlib
import re
import shutil
import subprocess
import tempfile

from case import BINARY, ENVIRONMENT, SOURCE, Case, main

PAGES = sorted(path for path in SOURCE.rglob("*.md")
               if path.relative_to(SOURCE).parts[0] not in ("build", "tests") and not path.relative_to(SOURCE).parts[0].startswith("."))
# Commands that are not run here: a pattern, and the file that runs them or says why nobody does.
ELSEWHERE = (
    (r"git clone URL stepfuse && cd stepfuse", "tests/samples/programs_test.py"),
    (r"tools/setup\.sh", "tests/packaging/setup_test.py"),
    (r"pip install (\.|\"stepfuse\[torch\]\")$", "tests/packaging/package_test.py"),
    (r"pip install --no-deps --require-hashes -r tools/peers/requirements\.txt", "tools/peers/requirements.txt"),
    (r"python -m stepfuse\.selftest", "tests/packaging/package_test.py"),
    (r"apt-get install g\+\+ cmake|tools/setup\.sh && apt-get install", "tools/setup.sh"),
    (r"cmake -S \. -B build.*DCMAKE_INSTALL_PREFIX=/usr|cmake --build build && \(cd build && cpack|apt-get install \./build/", "tests/packaging/deb.sh"),
    (r"cmake (-S \. -B build|--build build|--install build)|g\+\+ -std=c\+\+20 main\.cpp", "tests/consumer/run.sh"),
    (r"cmake -S samples/libtorch|cmake --build build-libtorch", "tests/libtorch/run.sh"),
    (r"conan create \. -s compiler\.cppstd=20|vcpkg install \"stepfuse\[tool\]\"", "tests/packaging/recipes_test.py"),
    (r"cmake --list-presets", "CMakePresets.json"),
    (r"build/bin/train_digits", "tests/samples/programs_test.py"),
    (r"mpirun -n 4 build/bin/ranks", "tests/ranks/mpi_test.py"),
    (r"build/bin/ptx_machine samples/ptx/block_sum_racy\.ptx", "tests/ptx_machine/cli_test.py"),
    (r"LD_LIBRARY_PATH=build/fake_driver build/bin/stepfuse", "tests/cli/machine_test.py"),
    (r"STEPFUSE_(FORM|RECORD|PERF_MAP|KERNELS)=\S+ (perf record )?\./(your_)?trainer", "tests/cli/replay_test.py"),
    (r"STEPFUSE_CPU_CODE=quick \./your_trainer", "tests/cli/cache_test.py"),
    (r"stepfuse replay ~/bad/", "tests/cli/replay_test.py"),
    (r"python3 -c \"import json, torch", "tests/python/test_pages.py"),
    (r"PYTHONPATH=build/python build/jax/bin/python tests/python_jax/run\.py", "tests/python_jax/run.py"),
    (r"export PYTHONPATH=build/python", "tests/python/run.py"),
    (r"STEPFUSE_TEST_REAL_GPU=1 build/bin/cuda_test", "tests/cuda/cli_test.cpp"),  # these three on a machine with a GPU
    (r"(STEPFUSE_TEST_DEVICE=cuda )?PYTHONPATH=build/python python3 tests/python/run\.py", "tests/python/test_gpu.py"),
    (r"STEPFUSE_TEST_DEVICE=cuda PYTHONPATH=build/python python3 tests/python_jax/run\.py", "tests/python_jax/test_gpu.py"),
    (r"(tools|tests)/[\w/]+\.(sh|py)", ""),  # its name and options are checked
)


def commands(page):
    """The commands of a page's blocks, without comments, each with its continuation lines or its here document."""
    for block in re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", page.read_text(encoding="utf-8")):
        lines = iter(block.splitlines())
        for line in lines:
            while line.endswith("\\") or (re.search(r'-c "', line) and line.count('"') % 2):
                line = line.removesuffix("\\") + ("" if line.endswith("\\") else "\n") + next(lines)
            if end := re.search(r"<<'(\w+)'", line):
                while not line.endswith("\n" + end[1]):
                    line += "\n" + next(lines)
            elif "\n" not in line:
                line = re.sub(r"\s+#\s.*", "", line).rstrip()
            if line:
                yield line


class Pages(Case):
    def run_in(self, folder, command):
        pathlib.Path(folder, "build/bin").mkdir(parents=True, exist_ok=True)
        for tool in (pathlib.Path(folder, "stepfuse"), pathlib.Path(folder, "build/bin/stepfuse")):
            if not tool.exists():
                tool.symlink_to(BINARY)
        environment = {**ENVIRONMENT, "PATH": f"{folder}:{ENVIRONMENT['PATH']}"}
        done = subprocess.run(["bash", "-euc", command], cwd=folder, capture_output=True, text=True, env=environment, timeout=1500, check=False)
        self.assertEqual((done.returncode, done.stderr if "error" in done.stderr else ""), (0, ""), command + done.stderr)

    def test_every_command_of_the_tool_runs(self):
        ran = 0
        for page in PAGES:
            with tempfile.TemporaryDirectory() as folder:
                if page.name == "checkpoints.md":
                    shutil.copy(SOURCE / "tests/cli/adamw.safetensors", pathlib.Path(folder, "run.safetensors"))
                for command in commands(page):
                    mine = re.match(r"(build/bin/)?stepfuse |cat > model\.json", command)
                    if mine and not re.match(r"stepfuse replay ~", command):
                        with self.subTest(page=page.name, command=command):
                            if " aot " in command:
                                self.need("nvrtc")
                            self.run_in(folder, command.replace("/tmp/", f"{folder}/"))
                        ran += 1
        self.assertGreater(ran, 25)

    def test_every_other_command_is_run_by_a_test_that_is_named(self):
        used = set()
        for page in PAGES:
            for command in commands(page):
                if re.match(r"(build/bin/)?stepfuse (?!replay ~)|cat > model\.json", command):
                    continue
                row = next((k for k, (pattern, _) in enumerate(ELSEWHERE) if re.match(pattern, command)), None)
                self.assertIsNotNone(row, f"{page.name}: nothing runs '{command}'")
                used.add(row)
                self.assertTrue(not ELSEWHERE[row][1] or (SOURCE / ELSEWHERE[row][1]).exists(), ELSEWHERE[row])
                for script in re.findall(r"(?<![\w/])((?:tools|tests)/[\w/]+\.(?:sh|py))", command):
                    text = (SOURCE / script).read_text(encoding="utf-8")
                    for option in re.findall(r"(?<=\s)(--[a-z-]+)", command[command.index(script):].split("&&")[0]):
                        self.assertIn(option, text, f"{page.name}: {command}")
        self.assertEqual(sorted(used), list(range(len(ELSEWHERE))), "each row is for a command that some page has")

    def test_the_step_of_the_page_about_formats_runs_alike_everywhere(self):
        text = (SOURCE / "docs" / "formats.md").read_text(encoding="utf-8")
        (step,) = re.findall(r"(?ms)^```step\n(.*?)^```", text)
        file = self.file("encode.sf", step)
        self.assertIn("step @encode", self.ok("check", file))
        digests = {self.ok("run", file, "--params=1000", "--inputs=special", f"--backend={b}", "--digest") for b in ("interpret", "cpu")}
        self.assertEqual(len(digests), 1)

    def test_the_numbers_about_fusion_are_what_explain_counts(self):
        text = (SOURCE / "docs" / "fusion.md").read_text(encoding="utf-8")
        said = self.ok("explain", "adamw", "--loss-scale", "--clip", "--no-compile")
        fused, _, unfused = re.search(r"bytes per parameter +(\d+) +(\d+) +(\d+)", said).groups()
        self.assertEqual(re.findall(r"\*\*total\*\* \| \| \| \*\*(\d+)\*\*", text), [unfused, fused])


if __name__ == "__main__":
    main()
