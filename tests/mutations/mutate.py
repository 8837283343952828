#!/usr/bin/env python3
"""Plants small faults in the product, one at a time, and says which of them the tests notice.

    tests/mutations/mutate.py                         every fault; hours on two cores, resumable
    tests/mutations/mutate.py --only runtime/record   those in files of such a name
    tests/mutations/mutate.py --sample 20 --seed 3    so many of them, drawn anew
    tests/mutations/mutate.py --check                 only whether the tables still fit the sources; seconds

A fault is a row of a table beside this file: a file, the text before (which occurs there once) and after, and the
tests to run. They are planted in a copy of the tree in build-mutate/, which has a build folder of its own; the working
tree is not touched. killed: a test failed or hung. survived: all passed. no fault: the text does not compile. Results
are kept in build-mutate/results.json, and a fault that has one there is not planted again unless its row or its file
changed; rows that are known to change nothing say so in `equivalent`, and are not counted.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import time

try:
    import tomllib
except ImportError:
    print("skipped: the tables need Python 3.11")
    sys.exit(3)

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = pathlib.Path(__file__).resolve().parent
AREA = ROOT / "build-mutate"
SOURCE, BUILD = AREA / "source", AREA / "build"
LIMIT_S = 600  # and at least five times what the test takes without a fault: then it hangs


class Fault(collections.namedtuple("Fault", "table file before after run equivalent")):
    def key(self):
        """Changes with the row and with the file that it is planted in."""
        text = (ROOT / self.file).read_text() if (ROOT / self.file).exists() else ""
        return hashlib.sha256("\0".join((self.file, self.before, self.after, str(self.run), text)).encode()).hexdigest()

    def title(self):
        line = (ROOT / self.file).read_text().split(self.before)[0].count("\n") + 1
        short = " ".join(f"{self.before} -> {self.after or '(nothing)'}".split())
        return f"{self.file}:{line}: {short if len(short) < 110 else short[:107] + '...'}"


def read_tables():
    for table in sorted(TABLES.glob("*.toml")):
        for row in tomllib.loads(table.read_text())["fault"]:
            run = row["run"] if isinstance(row["run"], list) else [row["run"]]
            yield Fault(table.name, row["file"], row["before"], row["after"], run, row.get("equivalent", ""))


def misfits(faults):
    """Rows whose text is not there, not there once, or that say nothing new."""
    seen = set()
    for f in faults:
        path = ROOT / f.file
        count = path.read_text().count(f.before) if path.exists() else -1
        if count != 1:
            yield f"{f.table}: {f.file}: the text before occurs {max(count, 0)} times: {f.before!r}"
        if f.before == f.after or (f.file, f.before, f.after) in seen:
            yield f"{f.table}: {f.file}: no fault, or one that is there twice: {f.before!r}"
        seen.add((f.file, f.before, f.after))
        for run in f.run:
            try:
                command_of(run)
            except ValueError as error:
                yield f"{f.table}: {f.file}: {error}: {run}"


def command_of(run):
    """(build target, command): a test program and its arguments, or `cli FILE CLASS`, or `ctest REGEX`."""
    words = shlex.split(run)
    if words[0] == "cli":
        tests = SOURCE / "tests" / "cli" / words[1]
        return "stepfuse_cli", [sys.executable, str(tests), str(BUILD / "bin" / "stepfuse"), str(SOURCE), *words[2:]]
    if words[0] == "ctest":
        return "all", ["ctest", "--test-dir", str(BUILD), "--output-on-failure", "-R", words[1]]
    return words[0], [str(BUILD / "bin" / words[0]), "--abort-after=1", *words[1:]]


ENVIRONMENT = {**os.environ, "STEPFUSE_CACHE": "off", "STEPFUSE_FAKE_DRIVER": str(BUILD / "fake_driver")}


def call(words, limit=None):
    """Exit code and output; None where it took longer than it may."""
    try:
        done = subprocess.run(words, cwd=BUILD, env=ENVIRONMENT, capture_output=True, text=True, errors="replace",
                              timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


def copy_tree():
    """The files that git knows or would know; those that did not change keep their time, so nothing is built again."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout
    names = {n for n in listed.split("\0") if n and (ROOT / n).is_file()}
    for name in names:
        source, target = ROOT / name, SOURCE / name
        if not target.exists() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for path in SOURCE.rglob("*"):
        if path.is_file() and str(path.relative_to(SOURCE)) not in names:
            path.unlink()


def prepare():
    copy_tree()
    BUILD.mkdir(exist_ok=True)
    nvrtc = ROOT / "build" / "nvrtc"
    if nvrtc.exists():
        ENVIRONMENT["STEPFUSE_NVRTC_DIR"] = str(nvrtc)
    done = subprocess.run(["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                           "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG"], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)


def make(targets):
    return call(["ninja", "-C", str(BUILD), "--quiet", *sorted(set(targets))])


def ran_nothing(output):
    return "test cases: 0 " in " ".join(output.split()) or "Ran 0 tests" in output


def plant(fault, limits):
    """killed, hung, survived or no fault, and which test it was."""
    commands = [command_of(r) for r in fault.run]
    path = SOURCE / fault.file
    sound = path.read_text()
    try:
        path.write_text(sound.replace(fault.before, fault.after))
        code, _ = make(t for t, _ in commands)
        if code != 0:
            return "no fault", "does not compile"
        for (_, words), run in zip(commands, fault.run):
            code, output = call(words, limits[run])
            if code is None:
                return "hung", run
            if code != 0:
                return "killed", run
            if ran_nothing(output):
                return "no test", run
        return "survived", ""
    finally:
        path.write_text(sound)


def table_of(faults, results):
    rows = collections.defaultdict(collections.Counter)
    for f in faults:
        folder = str(pathlib.PurePath(f.file).parent)
        rows[folder]["equivalent" if f.equivalent else results.get(f.key(), {"result": "not run"})["result"]] += 1
    heads = ["killed", "hung", "survived", "no test", "no fault", "equivalent", "not run"]
    lines = ["| where | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    total = collections.Counter()
    for folder in sorted(rows):
        total.update(rows[folder])
        lines.append(f"| {folder} | " + " | ".join(str(rows[folder][h] or "") for h in heads) + " |")
    lines.append("| all | " + " | ".join(str(total[h] or "") for h in heads) + " |")
    noticed, missed = total["killed"] + total["hung"], total["survived"] + total["no test"]
    if noticed + missed:
        lines.append(f"\nnoticed: {noticed} of {noticed + missed}, {100 * noticed / (noticed + missed):.1f} %")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="TEXT", default="", help="faults in files whose path contains this")
    parser.add_argument("--sample", type=int, metavar="N", help="so many, drawn with --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="also those that have a result")
    parser.add_argument("--check", action="store_true", help="only whether the tables fit the sources")
    args = parser.parse_args()
    everything = list(read_tables())
    wrong = list(misfits(everything))
    if wrong or args.check:
        print("\n".join(wrong) or f"{len(everything)} faults fit the sources")
        return 1 if wrong else 0
    faults = [f for f in everything if args.only in f.file and not f.equivalent]
    if args.sample:
        faults = random.Random(args.seed).sample(faults, min(args.sample, len(faults)))
    prepare()
    kept = AREA / "results.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    todo = [f for f in faults if args.again or f.key() not in results]
    runs = sorted({r for f in todo for r in f.run})
    print(f"{len(faults)} faults, {len(todo)} to plant; first the tests without any", flush=True)
    code, output = make(command_of(r)[0] for r in runs)
    if code != 0:
        sys.exit(output)
    limits = {}
    for r in runs:
        begin = time.monotonic()
        code, output = call(command_of(r)[1])
        if code != 0 or ran_nothing(output):
            sys.exit(f"{'fails' if code else 'runs no test'} without a fault: {r}\n{output[-3000:]}")
        limits[r] = max(LIMIT_S, 5 * (time.monotonic() - begin))
    begin = time.monotonic()
    for done, f in enumerate(todo):
        result, test = plant(f, limits)
        results[f.key()] = {"result": result, "test": test}
        kept.write_text(json.dumps(results, indent=1))
        left = (time.monotonic() - begin) / (done + 1) * (len(todo) - done - 1) / 60
        print(f"{done + 1}/{len(todo)} {result:9} {f.title()}  ({left:.0f} min left)", flush=True)
    print("\n" + table_of(faults, results))
    survivors = [f for f in faults if results[f.key()]["result"] in ("survived", "no test", "no fault")]
    for f in survivors:
        print(f"{results[f.key()]['result']}: {f.title()}  [{'; '.join(f.run)}]")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
