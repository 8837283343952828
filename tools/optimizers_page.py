#!/usr/bin/env python3
"""Writes docs/optimizers.md: what each built-in optimizer costs and how near it is to its peer; knows the tool and tools/peers.

    tools/optimizers_page.py                     what costs nothing: lines, phases, bytes; the rest stays as it is
    tools/optimizers_page.py --draws 200         the comparisons too (PyTorch, the peers, and PYTHONPATH of the package)
    tools/optimizers_page.py --times             and the times (PYTHONPATH of the package; a build with -O3, a quiet machine)
    tools/optimizers_page.py --check             whether lines, phases, bytes and peers on the page are true
"""

import argparse
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/optimizers.md"
BINARY = pathlib.Path(os.environ.get("STEPFUSE_BUILD", ROOT / "build")) / "bin/stepfuse"
HALVES = ("muon_momentum", "muon_update")  # of an optimizer that tests/python/test_muon.py compares as a whole
HEAD = """# Optimizers

Each optimizer is a file in `ir/optimizers/`. `stepfuse list NAME` shows its arguments, `stepfuse list NAME --text` its
formula. Most options of the pipeline work with each of them; [what goes with what](combinations.md) lists the
exceptions. [In PyTorch](pytorch.md) they are classes. You can [write your own](your_optimizer.md).

`tools/optimizers_page.py` writes this page.

- **bytes**: memory traffic per parameter with f32 gradients, weights and moments, without clipping.
- **floor**: a lower bound, counted in the formula's text. Each array that the update reads or writes counts once, and
  each array that reductions read counts once per pass. The update may read back what a pass stored.
- **difference**: {draws} draws of all hyperparameters, 30 steps each on four tensors of 1 to 2,049 elements. *bits* means
  that weights and state equal the peer's for-loop bit for bit in all draws, with a correctly rounded square root as
  in [parity](parity.md). Otherwise it is the largest difference of a weight, relative to its size plus 0.001, and the
  reason.

Muon is two of these files, `muon_momentum` and `muon_update`, around the caller's matrix products, which move 14 and 12
bytes. `stepfuse.torch.Muon` is both halves around torch's products, and equals `torch.optim.Muon` bit for bit.

| optimizer | lines | phases | bytes | floor | peer | difference |
|---|---|---|---|---|---|---|
"""


def tool(*words):
    return subprocess.run([BINARY, *words], check=True, capture_output=True, text=True).stdout


def floor(ir):
    """Bytes of the step's text, all of whose arrays are f32: what the update reads and writes, and what reductions read,
    in a pass for all that wait for equally many others. The least over all choices of what these passes store already, for
    the update to read back."""
    operands, loads, reduced, stores = {}, {}, {}, {}
    for line in ir.splitlines():
        word = line.split()
        if match := re.match(r"\s*(%\S+) = (\S+) (.*) : \S+$", line):
            name, op, rest = match.groups()
            operands[name] = re.findall(r"%[\w.]+", rest)
            if op == "load":
                loads[name] = rest[1:]
            if op.startswith("reduce_"):
                reduced[name] = None
        elif word and word[0] == "store":
            operands[line] = re.findall(r"%[\w.]+", line)
            stores[line] = word[1].strip("@,")

    def reads(name, levels, kept=()):
        """The arrays that a value needs without what is reduced or kept, and how many reductions it waits for."""
        found, todo, seen = set(), list(operands[name]), set()
        while todo:
            x = todo.pop()
            if x in seen or x not in operands:
                continue
            seen.add(x)
            if x in loads:
                found.add(loads[x].strip("@"))
            if x in reduced:
                levels.append(level(x)[0])
            elif x in kept:
                found.add(f"new {kept[x]}")
            else:
                todo += operands[x]
        return found

    def level(name):
        if reduced[name] is None:
            levels = [0]
            found = reads(name, levels)
            reduced[name] = (max(levels) + (1 if found else 0), found)
        return reduced[name]

    waits = {}
    for store in stores:
        levels = [0]
        reads(store, levels)
        waits[store] = max(levels)
    early = [store for store in stores if waits[store] < max(waits.values())]

    def moved(chosen):
        """Arrays read and written where those stores are made early; none where a later pass needs the old ones."""
        passes = {}
        for name in reduced:
            number, found = level(name)
            passes.setdefault(number, set()).update(found)
        for store in chosen:
            passes.setdefault(waits[store] + 1, set()).update(reads(store, []))
        kept = {operands[store][0]: stores[store] for store in chosen}
        update = set()
        for store in stores:
            if store not in chosen:
                update |= reads(store, [], kept)
        if not chosen:  # what waits for as many is reduced in the same pass
            update |= passes.pop(max(waits.values()) + 1, set())
        behind = [update] + [passes[n] for n in passes if any(n > waits[s] + 1 for s in chosen)]
        if any(array in found for array in kept.values() for found in behind):
            return None
        return len(update) + len(stores) + sum(len(found) for found in passes.values())

    choices = itertools.chain.from_iterable(itertools.combinations(early, n) for n in range(len(early) + 1))
    return 4 * min(count for count in map(moved, choices) if count is not None)


def facts(name, case):
    ir = tool("dump", name, *case.flags(), "--emit=ir")
    form = json.loads(tool("explain", name, *case.flags(), "--no-compile", "--json"))["forms"]["fused"]
    lines = len((ROOT / f"ir/optimizers/{name}.opt").read_text(encoding="utf-8").splitlines())
    return [name, lines, form["phases"], f"{form['bytes_per_parameter']:g}", floor(ir), case.peer()]


def draws(name, case, count):
    from cases import compare
    worst, exact = 0.0, 0
    for seed in range(count):
        bits, difference, _ = compare(name, seed, "interpret")
        worst, exact = max(worst, difference), exact + (bits == 0)
    if exact == count:
        return "bits"
    why = case.near[1] if case.near else "FAILED"
    print(f"{name}: {exact} of {count} draws bit-identical, {worst:.1e}", flush=True)
    return f"weights bits; {why}" if worst == 0 else f"{worst:.1e}, {why}"


def old_rows(text):
    rows = {}
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        if len(cells) == 7 and (ROOT / f"ir/optimizers/{cells[0]}.opt").exists():
            rows[cells[0]] = cells
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=0)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", help="to compare; all others stay")
    a = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tools/peers"))
    from cases import CASES, leave_out_init
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    old = old_rows(text)
    if a.draws or a.times:
        leave_out_init("timm", "timm.optim", "timm.utils")
    rows = []
    for file in sorted((ROOT / "ir/optimizers").glob("*.opt")):
        name = file.stem
        if name in HALVES:
            continue
        row = [str(cell) for cell in facts(name, CASES[name])]
        compared = a.draws and (not a.names or name in a.names)
        row.append(draws(name, CASES[name], a.draws) if compared else old.get(name, [""] * 7)[6])
        if a.check and old.get(name, [])[:6] != row[:6]:
            sys.exit(f"docs/optimizers.md says {old.get(name)}, true is {row}: run tools/optimizers_page.py")
        rows.append("| " + " | ".join(row) + " |\n")
    if a.check:
        return
    count = str(a.draws) if a.draws else (re.search(r"(\d+) draws of all hyperparameters", text) or [0, "0"])[1]
    times = text[text.index("\n## Times"):] if "\n## Times" in text else ""
    if a.times:
        import times as timing
        times = timing.section()
    PAGE.write_text(HEAD.format(draws=count) + "".join(rows) + times, encoding="utf-8")


if __name__ == "__main__":
    main()
