#!/usr/bin/env python3
"""Counts in how many turns a warp's lookups in code tables are served, from a generated kernel's text.

    stepfuse dump adamw --moments='exp_avg=dyn8|exp_avg_sq=dyn8u' --emit=cuda | tools/wavefronts.py

A lane has eight elements after one another, so a warp's lanes look up elements that are eight apart. As a load from memory
a lookup takes a turn for each cache line of 128 bytes, from shared memory a turn for each of the different words of the bank
that has most. First moments are drawn as normal numbers, second ones (tables without negative values) as their squares, both
times a factor of its own for each element, and scaled by the largest of 256. Knows the text only.
"""

import bisect
import collections
import math
import random
import re
import struct
import sys

WARP, LANE, BANKS, WORD, LINE = 32, 8, 32, 4, 128


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def turns(entries):
    """Returns the wavefronts of a warp's loads of these entries: from memory, and from shared memory."""
    banks = collections.Counter(entry % BANKS for entry in set(entries))
    return len({entry * WORD // LINE for entry in entries}), max(banks.values())


def draws(signed):
    """The scaled numbers of a warp's 256 elements."""
    values = [random.gauss(0, 1) * 10 ** random.gauss(0, 0.5) for _ in range(WARP * LANE)]
    values = values if signed else [v * v for v in values]
    most = max(map(abs, values))
    return [v / most for v in values]


def main():
    text = sys.stdin.read()
    arrays = {}
    for name, body in re.findall(r"__device__ const float (\w+)\[\d+\] = \{[^\n]*\n(.*?)\};", text, re.S):
        arrays[name] = [float.fromhex(v.rstrip("f")) for v in re.findall(r"[-\w.+]+f\b", body)]
    guesses = {}
    for slopes, numbers in re.findall(r"guessed_code\((\w+), \w+, \w+, ([^;]*), \w+\);", text):
        guesses[slopes] = [float.fromhex(v.strip().rstrip("f")) if "p" in v else int(v) for v in numbers.split(",")]
    random.seed(1)
    print("table                  entries  from memory  from shared memory")
    for name, values in arrays.items():
        if not name.endswith(("_bounds", "_slopes", "_offsets")):
            bounds = [(a + b) / 2 for a, b in zip(values, values[1:])]
            table, entry_of = values, lambda x: bisect.bisect(bounds, x)
        elif name.endswith("_bounds") and name.replace("_bounds", "_slopes") in arrays:
            table, entry_of = arrays[name[: -len("_bounds")]], lambda x, b=values: max(0, bisect.bisect(b, x) - 1)
        elif name in guesses:
            low, high, scale, grain, shift, _ = guesses[name]
            table = arrays[name[: -len("_slopes")]]
            entry_of = lambda x: (bits(abs(min(max(x, low), high)) * scale + grain) >> int(shift)) % len(values)
        else:  # offsets are looked up as slopes are; a small table's tree fits into a line
            continue
        sums, count = [0, 0], 0
        for _ in range(400):
            entries = [entry_of(x) for x in draws(min(table) < 0)]
            for e in range(LANE):
                count += 1
                for k, n in enumerate(turns(entries[e::LANE])):
                    sums[k] += n
        print(f"{name:22} {len(values):7}  {sums[0] / count:11.2f}  {sums[1] / count:18.2f}")


if __name__ == "__main__":
    main()
