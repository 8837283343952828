#!/usr/bin/env python3
"""Plants small faults in the product, one at a time, and says which of them the tests notice.

    tests/mutations/mutate.py                         every fault; hours, resumable
    tests/mutations/mutate.py --only runtime/saved/record   those in files with this in the name
    tests/mutations/mutate.py --sample 20 --seed 3    20 of them, drawn at random
    tests/mutations/mutate.py --jobs 2                two at a time, each in its own copy; on two cores in 84 minutes
    tests/mutations/mutate.py --check                 only checks that the tables fit the sources; seconds

A fault is a row of a table next to this file: a file, the text before (which occurs there once) and after, and the
tests to run. Faults are planted in copies of the tree in build-mutate/, one per job, each with its own build folder;
the working tree is not touched. The results are: killed, a test failed or hung; survived, all passed; no fault, the
text does not compile. build-mutate/results.json stores them. A fault that was noticed is planted again only if its row
or its file has changed. Rows that are known to change nothing say so in `equivalent`, and are not counted.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import queue
import random
import shlex
import shutil
import subprocess
import sys
import threading
import time

try:
    import tomllib
except ImportError:
    print("skipped: the tables need Python 3.11")
    sys.exit(3)

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = pathlib.Path(__file__).resolve().parent
AREA = ROOT / "build-mutate"
LIMIT_S = 600  # or five times the test's time without a fault, whichever is more: then it hangs
# A part of a long test that finds most of the faults that the test finds: run first.
FIRST = {"differential_test": (["-tc=random programs*"], {"STEPFUSE_SEEDS": "1:100"})}


class Fault(collections.namedtuple("Fault", "table file before after run equivalent")):
    def key(self):
        """A digest that changes with the row and with its file."""
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
    """Rows whose text does not occur exactly once, and rows without a change."""
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
                shlex.split(run)
            except ValueError as error:
                yield f"{f.table}: {f.file}: {error}: {run}"


def command_of(run, copy):
    """(build target, command): a test program and its arguments, or `cli FILE CLASS`, or `ctest REGEX`."""
    words = shlex.split(run)
    if words[0] == "cli":
        tests = copy.source / "tests" / "cli" / words[1]
        return "stepfuse_cli", [sys.executable, str(tests), str(copy.bin / "stepfuse"), str(copy.source), *words[2:]]
    if words[0] == "ctest":
        return "all", ["ctest", "--test-dir", str(copy.build), "--output-on-failure", "-R", words[1]]
    return words[0], [str(copy.bin / words[0]), "--abort-after=1", *words[1:]]


def files_of_tree():
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout
    return {n for n in listed.split("\0") if n and (ROOT / n).is_file()}


def digest_of_tree():
    """A digest of everything that is built or run, which excludes the tables of faults."""
    digest = hashlib.sha256()
    for name in sorted(n for n in files_of_tree() if not n.startswith("tests/mutations/")):
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()


class Copy:
    """A copy of the tree for planting faults, with its build folder inside, so that ccache serves all copies."""

    def __init__(self, source, cores):
        self.source, self.build, self.cores = source, source / "build", cores
        self.bin = self.build / "bin"
        self.environment = {**os.environ, "STEPFUSE_CACHE": "off", "STEPFUSE_FAKE_DRIVER": str(self.build / "fake_driver"),
                            "CCACHE_BASEDIR": str(source)}
        # The store compiles a kernel again only if a fault changes its text.
        for folder in ("build/tests/nvrtc/store", "build/nvrtc"):
            if list((ROOT / folder).glob("libnvrtc.so*")):
                self.environment["STEPFUSE_NVRTC_DIR"] = str(ROOT / folder)
                break
        disassembler = ROOT / "build/nvdisasm/nvdisasm"
        if disassembler.exists():
            self.environment["STEPFUSE_NVDISASM"] = str(disassembler)

    def call(self, words, limit=None, more=None):
        """Exit code and output; None if it exceeded its time limit."""
        try:
            done = subprocess.run(words, cwd=self.build, env={**self.environment, **(more or {})}, capture_output=True, text=True,
                                  errors="replace", timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return None, ""
        return done.returncode, done.stdout + done.stderr

    def prepare(self):
        """Copies the files that git tracks or would track; unchanged files keep their time and are not built again."""
        names = files_of_tree()
        for name in names:
            source, target = ROOT / name, self.source / name
            if not target.exists() or target.read_bytes() != source.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        for path in self.source.rglob("*"):
            inside = path.relative_to(self.source)
            if path.is_file() and inside.parts[0] != "build" and str(inside) not in names:
                path.unlink()
        self.build.mkdir(parents=True, exist_ok=True)
        launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        code, output = self.call(["cmake", "-S", str(self.source), "-B", str(self.build), "-G", "Ninja", *launcher,
                                  "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG",
                                  "-DSTEPFUSE_WERROR=OFF"])  # a fault may leave a function unused
        if code != 0:
            sys.exit(output)

    def make(self, runs, cores=None):
        targets = {command_of(run, self)[0] for run in runs}
        return self.call(["ninja", "-C", str(self.build), "-j", str(cores or self.cores), "--quiet", *sorted(targets)])

    def test(self, run, limit=None):
        words = command_of(run, self)[1]
        arguments, environment = FIRST.get(run, ([], None))
        if environment:
            code, output = self.call(words + arguments, limit, environment)
            if code != 0:
                return code, output
        return self.call(words, limit)

    def plant(self, fault, limits):
        """Returns killed, hung, survived or no fault, and the test."""
        path = self.source / fault.file
        sound = path.read_text()
        try:
            path.write_text(sound.replace(fault.before, fault.after))
            code, _ = self.make(fault.run)
            if code != 0:
                return "no fault", "does not compile"
            for run in fault.run:
                code, output = self.test(run, limits[run])
                if code is None:
                    return "hung", run
                if code != 0:
                    return "killed", run
                if ran_nothing(output):
                    return "no test", run
            return "survived", ""
        finally:
            path.write_text(sound)


def ran_nothing(output):
    counts = " ".join(output.split())
    return any(none in counts for none in ("test cases: 0 ", "assertions: 0 ", "Ran 0 tests", "No tests were found"))


def plant_all(todo, copies, limits, keep):
    """One thread per copy; a free one takes the next fault."""
    begin, lock, waiting = time.monotonic(), threading.Lock(), iter(todo)

    def work(copy):
        while True:
            with lock:
                fault = next(waiting, None)
            if fault is None:
                return
            result, test = copy.plant(fault, limits)
            with lock:
                done = keep(fault, {"result": result, "test": test})
                left = (time.monotonic() - begin) / done * (len(todo) - done) / 60
                print(f"{done}/{len(todo)} {result:9} {fault.title()}  ({left:.0f} min left)", flush=True)

    with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
        for job in [pool.submit(work, copy) for copy in copies]:
            job.result()


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
    parser.add_argument("--sample", type=int, metavar="N", help="number of faults, drawn with --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of faults at a time")
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
    cores = max(1, (os.cpu_count() or 1) // args.jobs)
    copies = [Copy(AREA / str(job), cores) for job in range(args.jobs)]
    for copy in copies:
        copy.prepare()
    kept = AREA / "results.json"
    results = json.loads(kept.read_text()) if kept.exists() else {}
    todo = [f for f in faults if args.again or results.get(f.key(), {}).get("result") not in ("killed", "hung")]
    runs = sorted({r for f in todo for r in f.run})
    print(f"{len(faults)} faults, {len(todo)} to plant; first the tests without any", flush=True)
    for copy in copies:
        code, output = copy.make(runs, os.cpu_count())
        if code != 0:
            sys.exit(output)
    sound = AREA / "sound.json"  # time of each test without a fault
    tree = digest_of_tree()
    times = json.loads(sound.read_text()).get(tree, {}) if sound.exists() else {}
    free, lock = queue.SimpleQueue(), threading.Lock()
    for copy in copies:
        free.put(copy)

    def measure(run):
        copy, begin = free.get(), time.monotonic()
        code, output = copy.test(run)
        free.put(copy)
        if code != 0 or ran_nothing(output):
            return f"{'fails' if code else 'runs no test'} without a fault: {run}\n{output[-3000:]}"
        with lock:
            times[run] = time.monotonic() - begin
            sound.write_text(json.dumps({tree: times}, indent=1))
        return ""

    with concurrent.futures.ThreadPoolExecutor(len(copies)) as pool:
        wrong = [w for w in pool.map(measure, [r for r in runs if r not in times]) if w]
    if wrong:
        sys.exit("\n".join(wrong))
    limits = {r: max(LIMIT_S, 5 * times[r]) for r in runs}
    todo.sort(key=lambda f: sum(times[r] for r in f.run))  # short ones first
    planted = []

    def keep(fault, result):
        planted.append(fault)
        results[fault.key()] = result
        kept.write_text(json.dumps(results, indent=1))
        return len(planted)

    plant_all(todo, copies, limits, keep)
    print("\n" + table_of(faults, results))
    survivors = [f for f in faults if results[f.key()]["result"] in ("survived", "no test", "no fault")]
    for f in survivors:
        print(f"{results[f.key()]['result']}: {f.title()}  [{'; '.join(f.run)}]")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
