#!/usr/bin/env python3
"""Fits the constants of the model of streaming loops (tools/sass/model.cpp) to times that a GPU took.

    stepfuse explain adamw --loss-scale --clip --arch sm_90 --sass --json > f32.json
    stepfuse_gpu_bench --grad f32 bf16 --json bench.json
    tools/fit_model.py bench.json f32=f32.json bf16=bf16.json --json fitted.json

Only the phases that the benchmark timed alone count: `observe` is the model's phase 0, `after_observe` its phase 1. The tool
fits the copy's speed, the latency of a load and the cost of a launch besides its loop. The clock stays what the model assumes.
If a constant limits no loop at any size, these times do not determine it. The table then says so and keeps the assumption.
Knows the two JSON files only.
"""

import argparse
import itertools
import json
import math
import statistics

WARP, SCHEDULERS, SPECIAL_PER_CLOCK = 32, 4, 16
PIECE, BLOCK_THREADS = 16384, 256  # compiler/abi.hpp
PHASE_OF = {"observe": 0, "after_observe": 1}
FITTED = ("copy_tb_s", "latency_ns", "launch_us")


def best_split(chunks, elements, blocks):
    """`best_split` of runtime/cuda/split.hpp."""
    four, mean = 4 * BLOCK_THREADS, elements // max(1, chunks)
    splits = [s for s in range(PIECE.bit_length()) if PIECE >> s >= 2 * four]
    return min(splits, key=lambda s: -(-(chunks << s) // blocks) * (-(-min(mean, PIECE >> s) // four) + 1))


def round_of(loop, warps, gpu):
    """Clocks per turn with `warps` warps on every multiprocessor, and the constant that limits them, if any."""
    moved = (loop["loaded"] + loop["stored"]) * WARP * warps
    waits = math.ceil(loop["loads"] / loop["loads_at_once"]) if loop["loads_at_once"] else 0
    return max(
        (moved * gpu["clock_ghz"] * gpu["multiprocessors"] / (gpu["copy_tb_s"] * 1e3), "copy_tb_s"),
        (loop["exposed_cycles"] + waits * gpu["latency_ns"] * gpu["clock_ghz"], "latency_ns"),
        (warps * loop["instructions"] / SCHEDULERS, None),
        (warps * WARP * loop["special"] / SPECIAL_PER_CLOCK, None),
        (warps * WARP * loop["doubles"] / gpu["doubles_per_clock"], None),
        key=lambda limit: limit[0])


def predict(loop, gpu, elements):
    """Milliseconds and which constant, if any, they hang on: `predict` of tools/sass/model.cpp, and a launch."""
    blocks = loop["blocks"] * gpu["multiprocessors"]
    split = best_split(-(-elements // PIECE), elements, blocks) if loop["splits"] else 0
    unit = min(elements, PIECE >> split)
    units = -(-elements // unit)
    turns = -(-unit // (loop["elements"] * BLOCK_THREADS))
    whole, last = divmod(units, blocks)
    clocks, limit = round_of(loop, loop["warps"], gpu)
    rest, rest_limit = round_of(loop, -(-last // gpu["multiprocessors"]) * loop["warps"] / loop["blocks"], gpu)
    total = turns * (whole * clocks + (rest if last else 0))
    return total / gpu["clock_ghz"] * 1e-6 + gpu["launch_us"] * 1e-3, limit if whole else rest_limit


def measured(bench, loops):
    """(loop, parameters, milliseconds) of each phase that was timed alone."""
    found = []
    for case, series in ((c, s) for c in bench["cases"] for s in c["series"]):
        loop = loops.get((case["grad"], PHASE_OF.get(series["name"])))
        if loop is not None and case["misalign"] == 0 and case["tensors"] <= 16:
            found.append((loop, case["params"], statistics.median(series["device_ms"])))
    return found


def error(times, gpu):
    return math.sqrt(statistics.fmean(math.log(predict(l, gpu, n)[0] / ms) ** 2 for l, n, ms in times))


def fit(times, assumed):
    """Turns one constant after the other while that helps, by ever smaller factors, from several beginnings: what a limit hides
    at one of them shows at another."""
    best, least = None, math.inf
    for beginning in itertools.product((0.5, 1, 2), repeat=len(FITTED)):
        gpu = dict(assumed)
        for name, factor in zip(FITTED, beginning):
            gpu[name] *= factor
        now, factor = error(times, gpu), 1.3
        while factor > 1.0002:
            tries = [dict(gpu, **{name: gpu[name] * f}) for name in FITTED for f in (factor, 1 / factor)]
            left = min(tries, key=lambda g: error(times, g))
            if (then := error(times, left)) < now:
                gpu, now = left, then
            else:
                factor = math.sqrt(factor)
        if now < least:
            best, least = gpu, now
    limits = {predict(loop, best, n)[1] for loop, n, _ in times} | {"launch_us"}
    for name in FITTED:
        if name not in limits:
            best[name] = assumed[name]
    return best, limits, error(times, best)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", help="the JSON of stepfuse_gpu_bench")
    parser.add_argument("sass", nargs="+", metavar="GRAD=FILE", help="the JSON of explain --sass for each gradient type timed")
    parser.add_argument("--json", help="file for the constants")
    o = parser.parse_args()
    with open(o.bench, encoding="utf-8") as file:
        bench = json.load(file)
    loops, gpus = {}, []
    for grad, path in (word.split("=", 1) for word in o.sass):
        with open(path, encoding="utf-8") as file:
            for report in json.load(file)["sass"]:
                gpus = report["gpus"]
                loops.update({(grad, loop["phase"]): loop for loop in report["loops"]})
    times = measured(bench, loops)
    if not times or not gpus:
        parser.exit(1, "fit_model: no phase was timed alone whose machine code is here, or the model has no GPU of that arch\n")
    # Several GPUs run one arch's code: the one whose copy is nearest to what was measured.
    copy = statistics.median(g for c in bench["cases"] for g in c["copy_gbs"]) / 1e3
    assumed = min(gpus, key=lambda g: abs(math.log(g["copy_tb_s"] / copy)))
    assumed = dict(assumed, multiprocessors=bench["multiprocessors"], launch_us=5.0)
    fitted, limits, rest = fit(times, assumed)
    print(f"{bench['device']}, as {assumed['gpu']}: {len(times)} times, {100 * rest:.0f} % off where they were "
          f"{100 * error(times, assumed):.0f} %")
    for name in FITTED:
        note = "" if name in limits else "  (limits nothing here: kept)"
        print(f"  {name:<12}{assumed[name]:>10.3f} -> {fitted[name]:.3f}{note}")
    if o.json:
        with open(o.json, "w", encoding="utf-8") as file:
            json.dump({"device": bench["device"], "fitted": fitted, "assumed": assumed, "known": sorted(limits - {None}),
                       "error": rest}, file, indent=1)


if __name__ == "__main__":
    main()
