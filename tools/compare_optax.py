#!/usr/bin/env python3
"""Times of stepfuse.jax and of optax under jit with donation, AdamW with clip, in turns; needs jax and optax.

    PYTHONPATH=build/python build/jax/bin/python tools/compare_optax.py --layouts 16M gpt2
    PYTHONPATH=build/python build/jax/bin/python tools/compare_optax.py --layouts 400x1024 --rounds 15 --json times.json

A layout is a name of samples/layouts, a number of parameters (16M), or TENSORSxELEMENTS. Publish what an idle machine gave.
"""

import argparse
import json
import pathlib
import re
import statistics
import time

import jax
import jax.numpy as jnp
import optax

import stepfuse.jax

LAYOUTS = pathlib.Path(__file__).resolve().parents[1] / "samples/layouts"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def shapes_of(name):
    several = re.fullmatch(r"(\d+)x(\d+)", name)
    if several:
        return [(int(several[2]),)] * int(several[1])
    one = re.fullmatch(r"(\d+)([KM]?)", name)
    if one:
        return [(int(one[1]) * UNITS[one[2]],)]
    file = LAYOUTS / f"{name}.json"
    if not file.exists():
        known = ", ".join(sorted(f.stem for f in LAYOUTS.glob("*.json")))
        raise SystemExit(f"--layouts: expected one of {known}, a number of parameters as in 16M, or TENSORSxELEMENTS; got '{name}'")
    shapes = []
    for tensor in json.loads(file.read_text())["tensors"]:
        shapes += [tuple(tensor.get("shape") or [tensor["size"]])] * tensor.get("count", 1)
    return shapes


def make_stepfuse(params):
    tx = stepfuse.jax.adamw(lr=1e-3, weight_decay=0.01, max_norm=1.0)
    return tx.init(params), tx.step


def make_optax(params):
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, weight_decay=0.01))

    def step(params, state, grads):
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    return tx.init(params), step


class Contestant:
    def __init__(self, make, shapes):
        key = jax.random.key(0)
        self.params = [jax.random.normal(jax.random.fold_in(key, i), s) for i, s in enumerate(shapes)]
        self.grads = [jnp.full(s, 1e-3) for s in shapes]
        self.state, step = make(self.params)
        self.step = jax.jit(step, donate_argnums=(0, 1))
        begin = time.perf_counter()
        self.run()
        self.first = time.perf_counter() - begin
        self.times = []

    def run(self, wait=True):
        self.params, self.state = self.step(self.params, self.state, self.grads)
        if wait:
            jax.block_until_ready((self.params, self.state))

    def measure(self, steps, overlap):
        begin = time.perf_counter()
        for _ in range(steps):
            self.run(wait=not overlap)
        jax.block_until_ready((self.params, self.state))
        self.times.append((time.perf_counter() - begin) / steps)


def compare(name, rounds, seconds, overlap):
    shapes = shapes_of(name)
    contestants = {"stepfuse": Contestant(make_stepfuse, shapes), "optax": Contestant(make_optax, shapes)}
    for c in contestants.values():
        c.run()
    begin = time.perf_counter()
    contestants["optax"].run()
    steps = max(1, round(seconds / (time.perf_counter() - begin)))
    for _ in range(rounds):
        for c in contestants.values():
            c.measure(steps, overlap)
    found = {who: {"ms": [1e3 * t for t in c.times], "median_ms": 1e3 * statistics.median(c.times), "first_s": c.first}
             for who, c in contestants.items()}
    ratio = found["optax"]["median_ms"] / found["stepfuse"]["median_ms"]
    print(f"{name:16} {found['stepfuse']['median_ms']:10.3f} {found['optax']['median_ms']:10.3f} {ratio:7.2f} "
          f"{found['stepfuse']['first_s']:8.2f} {found['optax']['first_s']:8.2f}", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", default=["16M", "gpt2"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn of optax; both take as many steps")
    parser.add_argument("--overlap", action="store_true", help="wait for all steps of a turn at once, so that dispatch overlaps with the device")
    parser.add_argument("--json", type=pathlib.Path, help="file for all times")
    a = parser.parse_args()
    print(f"{'':16} {'stepfuse':>10} {'optax':>10} {'ratio':>7} {'first':>8} {'first':>8}   (medians in ms; the first step in s)")
    found = {name: compare(name, a.rounds, a.seconds, a.overlap) for name in a.layouts}
    if a.json:
        a.json.write_text(json.dumps({"jax": jax.__version__, "optax": optax.__version__, "layouts": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
