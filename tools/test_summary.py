#!/usr/bin/env python3
"""Adds up one or more ctest runs and the house checks, and prints CI's closing line.

    tools/test_summary.py [--ctest BUILD_DIR JUNIT_XML]... [--check NAME RESULT SECONDS]...
                          [--part NAME SECONDS]... [--times FILE] [--budgets FILE]

RESULT is passed, failed or skipped. A doctest executable counts with its test cases, any other
ctest test as one; a part (set-up) only has a time. A test case that cannot run here prints a line
"skipped: REASON" and is counted as skipped; the reasons are listed.

The ten slowest items are printed: checks, and the cases of doctest and pytest, or a whole test where
it has none. --times writes the parts and all items that took a second or more into a file. --budgets
reads lines "LABEL SECONDS" and warns for each label whose tests took longer together.

The last line is "N passed, N failed, N skipped"; the exit code is 1 where anything failed or
nothing ran.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

CASES = re.compile(r"\[doctest\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed \|\s*(\d+) skipped")
# Lines that doctest's --duration and pytest's --durations print.
DURATIONS = (re.compile(r"^(\d+\.\d+) s: (.+)$", re.MULTILINE),
             re.compile(r"^(\d+\.\d+)s (?:call|setup|teardown) +(.+)$", re.MULTILINE))
SKIPPED = re.compile(r"^(?:.*MESSAGE:\s*)?skipped: (.+)$", re.MULTILINE)


def labels_of(build_dir):
    """Test name -> labels. CMake 3.25 does not write them into its JUnit file."""
    shown = subprocess.run(["ctest", "--test-dir", build_dir, "--show-only=json-v1"],
                           check=False, capture_output=True, text=True).stdout
    labels = {}
    for test in json.loads(shown).get("tests", []):
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        labels[test["name"]] = properties.get("LABELS") or ["(no label)"]
    return labels


def count(case):
    """(passed, failed, skipped, reasons) of one JUnit test case."""
    status, output = case.get("status"), case.findtext("system-out") or ""
    reasons = SKIPPED.findall(output)
    if status in ("notrun", "disabled"):
        return 0, 0, 1, reasons or [f"{case.get('name')}: {status}"]
    found = CASES.search(output)
    if not found:
        return (1, 0, 0, []) if status == "run" else (0, 1, 0, [])
    # A case that says it was skipped returned early, which doctest takes for passed. Cases that a
    # filter left out are other tests' or long ones, so they do not count.
    passed, failed = int(found[1]), int(found[2])
    skipped = min(len(reasons), passed)
    if status != "run" and failed == 0:
        failed = 1  # a sanitizer's or a destructor's fault after the last case
    return passed - skipped, failed, skipped, reasons


def slow_items(case):
    """(seconds, name) of each of its cases that took a second or more; the test itself where it prints none."""
    name, output = case.get("name"), case.findtext("system-out") or ""
    found = [(float(seconds), f"{name}: {what}") for pattern in DURATIONS for seconds, what in pattern.findall(output)]
    return [i for i in found or [(float(case.get("time", 0)), name)] if i[0] >= 1]


def over_budget(file, rows):
    """A warning for each label that took longer than the file allows."""
    for line in pathlib.Path(file).read_text(encoding="utf-8").splitlines():
        label, _, budget = line.partition("#")[0].strip().partition(" ")
        took = rows[label][3] if label in rows else 0.0
        if label and took > float(budget):
            yield f"warning: {label} took {took:.0f} s, its budget is {float(budget):.0f} s ({file})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ctest", nargs=2, action="append", default=[], metavar=("BUILD_DIR", "XML"))
    parser.add_argument("--check", nargs=3, action="append", default=[], metavar=("NAME", "RESULT", "SECONDS"))
    parser.add_argument("--part", nargs=2, action="append", default=[], metavar=("NAME", "SECONDS"))
    parser.add_argument("--times", metavar="FILE")
    parser.add_argument("--budgets", metavar="FILE")
    arguments = parser.parse_args()

    rows = collections.defaultdict(lambda: [0, 0, 0, 0.0])
    total, reasons, failures, items = [0, 0, 0], collections.Counter(), [], []
    for build_dir, xml_file in arguments.ctest:
        labels = labels_of(build_dir)
        for case in xml.etree.ElementTree.parse(xml_file).getroot().iter("testcase"):
            name, (*counts, why) = case.get("name"), count(case)
            reasons.update(why)
            items += slow_items(case)
            if counts[1]:
                failures.append(f"{name} ({build_dir})")
            for at, n in enumerate(counts):
                total[at] += n
            for label in labels.get(name, ["(no label)"]):
                row = rows[f"{label} ({build_dir})" if len(arguments.ctest) > 1 else label]
                row[:] = [a + b for a, b in zip(row, [*counts, float(case.get("time", 0))])]
    for name, seconds in arguments.part:
        rows[name] = [0, 0, 0, float(seconds)]
    for name, result, seconds in arguments.check:
        at = ("passed", "failed", "skipped").index(result)
        total[at] += 1
        rows[name] = [int(at == i) for i in range(3)] + [float(seconds)]
        items.append((float(seconds), name))
        if result == "failed":
            failures.append(name)
    items = sorted((i for i in items if i[0] >= 1), reverse=True)
    if arguments.times:
        parts = [(float(seconds), name) for name, seconds in arguments.part]
        lines = [f"{seconds:.1f}\t{name}\n" for seconds, name in sorted(items + parts, reverse=True)]
        pathlib.Path(arguments.times).write_text("".join(lines), encoding="utf-8")

    width = max(map(len, rows), default=5)
    print(f"{'':{width}}  passed  failed  skipped  seconds")
    for name, (passed, failed, skipped, seconds) in sorted(rows.items()):
        print(f"{name:{width}}  {passed:6}  {failed:6}  {skipped:7}  {seconds:7.1f}")
    print("the slowest:")
    for seconds, name in items[:10]:
        print(f"{seconds:8.1f} s  {name}")
    for warning in over_budget(arguments.budgets, rows) if arguments.budgets else []:
        print(warning)
    for reason, times in reasons.items():
        print(f"skipped: {reason}" + (f" ({times} times)" if times > 1 else ""))
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{total[0]} passed, {total[1]} failed" + (f", {total[2]} skipped" if total[2] else ""))
    sys.exit(bool(total[1]) or not total[0])


if __name__ == "__main__":
    main()
