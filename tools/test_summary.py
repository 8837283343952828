#!/usr/bin/env python3
"""Adds up one or more ctest runs and the house checks, and prints CI's closing line.

    tools/test_summary.py [--ctest BUILD_DIR JUNIT_XML]... [--check NAME RESULT]...

RESULT is passed, failed or skipped. A doctest executable counts with its test cases, any other
ctest test as one. A test case that cannot run here prints a line "skipped: REASON" and is counted
as skipped; the reasons are listed. The last line is "N passed, N failed, N skipped"; the exit code
is 1 where anything failed or nothing ran.
"""

import argparse
import collections
import json
import re
import subprocess
import sys
import xml.etree.ElementTree

CASES = re.compile(r"\[doctest\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed \|\s*(\d+) skipped")
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ctest", nargs=2, action="append", default=[], metavar=("BUILD_DIR", "XML"))
    parser.add_argument("--check", nargs=2, action="append", default=[], metavar=("NAME", "RESULT"))
    arguments = parser.parse_args()

    rows = collections.defaultdict(lambda: [0, 0, 0, 0.0])
    total, reasons, failures = [0, 0, 0], collections.Counter(), []
    for build_dir, xml_file in arguments.ctest:
        labels = labels_of(build_dir)
        for case in xml.etree.ElementTree.parse(xml_file).getroot().iter("testcase"):
            name, (*counts, why) = case.get("name"), count(case)
            reasons.update(why)
            if counts[1]:
                failures.append(f"{name} ({build_dir})")
            for at, n in enumerate(counts):
                total[at] += n
            for label in labels.get(name, ["(no label)"]):
                row = rows[f"{label} ({build_dir})" if len(arguments.ctest) > 1 else label]
                row[:] = [a + b for a, b in zip(row, [*counts, float(case.get("time", 0))])]
    for name, result in arguments.check:
        at = ("passed", "failed", "skipped").index(result)
        total[at] += 1
        rows[name] = [int(at == i) for i in range(3)] + [0.0]
        if result == "failed":
            failures.append(name)

    width = max(map(len, rows), default=5)
    print(f"{'':{width}}  passed  failed  skipped  seconds")
    for name, (passed, failed, skipped, seconds) in sorted(rows.items()):
        print(f"{name:{width}}  {passed:6}  {failed:6}  {skipped:7}  {seconds:7.1f}")
    for reason, times in reasons.items():
        print(f"skipped: {reason}" + (f" ({times} times)" if times > 1 else ""))
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{total[0]} passed, {total[1]} failed" + (f", {total[2]} skipped" if total[2] else ""))
    sys.exit(bool(total[1]) or not total[0])


if __name__ == "__main__":
    main()
