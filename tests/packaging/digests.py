"""Two builds of the command line tool, such as those for x86-64 and for AArch64, compute the same bits: digests of CPU kernels over the
covering set of recipes, options, layouts, inputs, forms and threads.

    digests.py SOURCE_DIR TOOL OTHER_TOOL [--rows=N] [--start=N] [--jobs=N] [--cpu-level=LEVEL]

--rows takes that many rows of tests/data/cpu_recipes.covering (default: the usual ones), --start leaves out the first ones. Both tools are
words of a command: "qemu-aarch64-static -L ROOT stepfuse" is one, too. --cpu-level is for the other tool. Each line has the row's number.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
LAYOUTS = {"sizes": "sizes", "misaligned": "misaligned", "mixed_dtypes": "mixed_dtypes", "many_groups": "many_groups", "tiny": "tiny_10000"}
LARGEST = 40_000  # elements of a tensor
BLOCK = 256       # the largest block, which rows must be a multiple of if a step has blocks and rows
TENSORS = 200     # of "tiny"
SQUARES = (128, 256)  # the shape that transposed and swizzled copies are tried with: whole squares, whole blocks in a row
MATRICES = 12     # tensors of that shape, since it is large; the rest are empty
REFUSED = ("not a multiple of the blocks", "step such tensors separately")  # errors that ask for other shapes


def read_covering(file: pathlib.Path) -> tuple[list[dict[str, tuple[int, str]]], int]:
    """The rows, each as {factor: (index, value)}, and how many of them are the usual ones."""
    factors, rows, usual = [], [], 0
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("factor "):
            name, values = line[len("factor "):].split(": ", 1)
            factors.append((name, values.split(", ")))
        elif line.startswith("usual "):
            usual = int(line.split()[1])
        elif line and not line.startswith(("#", "seed ", "pairs ")):
            chosen = [DIGITS.index(c) for c in line]
            rows.append({name: (i, values[i]) for (name, values), i in zip(factors, chosen, strict=True)})
    return rows, usual


def write_layouts(source: pathlib.Path, folder: pathlib.Path) -> None:
    """Each layout with small tensors, as the test of these rows has them; with rows of whole blocks; and with matrices of whole squares."""
    for name, file in LAYOUTS.items():
        layout = json.loads((source / f"samples/layouts/{file}.json").read_text(encoding="utf-8"))
        tensors = []
        for t in layout["tensors"]:
            t["shape"] = t["shape"][:2]
            for i in range(min(t.pop("count", 1), TENSORS)):
                tensors.append({**t, "name": t["name"] + (f".{i}" if name == "tiny" else "")})
        for kind in ("plain", "blocks"):
            for i, t in enumerate(tensors):  # "blocks" begins with what "plain" made
                size, columns = min(elements(t["shape"]), LARGEST), t["shape"][1] if len(t["shape"]) > 1 else 0
                if i % 2 == 1 and columns == 0:
                    columns = 1 + size // 5
                if kind == "blocks" and columns and size:
                    columns = -(-columns // BLOCK) * BLOCK
                    size = max(columns, size)
                shape = [size // columns, columns] if columns else [size]
                t = {**t, "shape": shape}
                tensors[i] = t
            (folder / f"{name}.{kind}.json").write_text(json.dumps({**layout, "tensors": tensors}), encoding="utf-8")
        squares = [{**t, "shape": SQUARES if i < MATRICES else [0, SQUARES[1]], "misalign": aligned(t.get("misalign", 0))}
                   for i, t in enumerate(tensors)]
        (folder / f"{name}.squares.json").write_text(json.dumps({**layout, "tensors": squares}), encoding="utf-8")


def aligned(misalign: int | dict[str, int]) -> int | dict[str, int]:
    """The misalignment, a multiple of 4 elements."""
    return {b: n - n % 4 for b, n in misalign.items()} if isinstance(misalign, dict) else misalign - misalign % 4


def elements(shape: list[int]) -> int:
    product = 1
    for n in shape:
        product *= n
    return product


def words_of(row: dict[str, tuple[int, str]], folder: pathlib.Path, kind: str) -> list[str]:
    value = {name: text for name, (_, text) in row.items()}
    words = ["run", value["recipe"], "--digest", "--steps=4", "--seed=7", "--vary"]
    for name, (index, text) in list(row.items())[1:]:
        if name == "layout":
            break
        if index:
            words.append(f"--{name}" if text == "true" else f"--{name}={text.replace('|', ',')}")
    words += [f"--layout={folder}/{value['layout']}.{kind}.json", f"--inputs={value['inputs']}", f"--form={value['form']}",
              f"--threads={value['threads']}"]
    if value["absent"] == "some":
        words.append("--absent=0.3")
    if value["gradients"] == "moving":
        words.append("--moving")
    if value["handed over"] == "in parts":
        words.append("--observe")
    if value["external-norm"] == "true":
        words += ["--set", "external_norm=1.5"]
    if value["external-found-inf"] == "true":
        words += ["--set", "external_found_inf=0"]
    return words


def run(tool: list[str], words: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run([*tool, *words], capture_output=True, text=True, env={**os.environ, "STEPFUSE_CACHE": "off"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("tool", type=shlex.split)
    parser.add_argument("other", type=shlex.split)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--cpu-level", default="host")
    o = parser.parse_args()
    rows, usual = read_covering(o.source / "tests/data/cpu_recipes.covering")
    chosen = list(enumerate(rows))[o.start:][: o.rows or usual]
    began, same, faults = time.monotonic(), 0, []
    print(f"digests: comparing {len(chosen)} rows of {len(rows)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_layouts(o.source, folder)

        def compare(numbered: tuple[int, dict]) -> str:
            number, row = numbered
            for kind in ("plain", "blocks", "squares"):  # the first layout that the step takes
                words = words_of(row, folder, kind)
                first = run(o.tool, words)
                if not any(error in first.stderr for error in REFUSED):
                    break
            if first.returncode:
                return f"row {number}: {shlex.join(words)}: {first.stderr.strip()}"
            second = run(o.other, [*words, f"--cpu-level={o.cpu_level}"])
            if second.returncode or first.stdout != second.stdout:
                return f"row {number}: {shlex.join(words)}: {first.stdout.strip()} is not {second.stdout.strip()}{second.stderr.strip()}"
            return ""

        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            for done, fault in enumerate(pool.map(compare, chosen), 1):
                if fault:
                    faults.append(fault)
                    print(fault, flush=True)
                else:
                    same += 1
                if done % 20 == 0:
                    print(f"digests: {done} rows after {time.monotonic() - began:.0f} s", flush=True)
    print(f"digests: {same} equal, {len(faults)} not, in {time.monotonic() - began:.0f} s")
    return 1 if faults or not same else 0


if __name__ == "__main__":
    sys.exit(main())
