#!/usr/bin/env python3
"""Compares two runs of the same tests, case by case. The exit code is 1 if an outcome differs, or without any case.

    same_outcomes.py BEFORE.xml AFTER.xml     as pytest's --junitxml writes them
"""

import collections
import sys
import xml.etree.ElementTree as xml


def outcomes(file):
    found = {}
    for case in xml.parse(file).iter("testcase"):
        parts = {part.tag for part in case} & {"failure", "error", "skipped"}
        found[case.get("classname"), case.get("name")] = " and ".join(sorted(parts)) or "passed"
    return found


def main():
    before, after = (outcomes(file) for file in sys.argv[1:3])
    differing = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
    for key in differing:
        print(f"{'::'.join(key)}: {before.get(key, 'not run')}, then {after.get(key, 'not run')}")
    counts = ", ".join(f"{n} {what}" for what, n in sorted(collections.Counter(after.values()).items()))
    print(f"{counts}; {len(differing)} otherwise than before")
    sys.exit(bool(differing) or not after)


if __name__ == "__main__":
    main()
