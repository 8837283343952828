#!/usr/bin/env python3
"""Times stepfuse's step in turns with PyTorch's whole pipeline and optax's: one table, one SVG.

    pip install torch==2.13.0 numpy && ninja -C build stepfuse_core && tools/compare_torch.py --out build
    pip install jax optax                                    # for the optax contestant
    tools/compare_torch.py --device cuda --out build         # on a GPU

`stepfuse` is the C++ API, `native` and `deferred` are stepfuse.torch.AdamW from Python. PyTorch's pipeline is unscale_,
clip_grad_norm_, AdamW and update. It runs with fused=True, with foreach=True, and with clip and step under torch.compile.
optax's pipeline is the same under jax.jit, and gets its gradients from torch by DLPack. Missing contestants are named and
left out. Every contestant is a separate process, because two thread pools in one process steal each other's cores. They
take turns. A turn is two steps of warm-up, then steps for a third of a second, but at least one. Shares are relative to
a stream measured in the same run: the time that 32 bytes per parameter take at the speed of a stream that reads four
arrays and writes three of them in place, or on a GPU of a device-to-device copy. On a GPU, times are those of CUDA
events (optax: of block_until_ready), and the JSON also has the host's time per call and the launches per step.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import math
import os
import pathlib
import select
import statistics
import subprocess
import sys
import tempfile

import charts

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON = pathlib.Path(os.environ.get("STEPFUSE_BUILD", ROOT / "build")) / "python"  # the package as built
WORKER = ROOT / "tools" / "peers" / "contestants.py"
TORCH = ["fused", "foreach", "compile"]
PACKAGE = ["native", "deferred"]
NAMES = ["stepfuse", *PACKAGE, *TORCH, "optax"]
TURN_S = 0.3  # what one turn lasts, warm-up aside
FLOOR_BYTES = 32


def layouts(wanted):
    known = {"1M": [1 << 20], "16M": [1 << 22] * 4, "64M": [1 << 22] * 16}
    for name in wanted:
        if name in known:
            yield name, known[name]
            continue
        path = pathlib.Path(name)
        if not path.exists():
            path = ROOT / "samples" / "layouts" / f"{name}.json"
        sizes = []
        for t in json.loads(path.read_text())["tensors"]:
            size = t.get("size")
            if size is None:
                size = 1
                for d in t["shape"]:
                    size *= d
            sizes += [size] * t.get("count", 1)
        yield path.stem, [s for s in sizes if s]


class LeftOut(Exception):
    """A contestant whose first step fails, or is not done in time."""


class Contestant:
    def __init__(self, name, sizes, threads, device, caches, limit):
        env = {**os.environ, "XDG_CACHE_HOME": caches, "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor",
               "TRITON_CACHE_DIR": f"{caches}/triton", "JAX_COMPILATION_CACHE_DIR": f"{caches}/jax",
               "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
               "PYTHONPATH": os.pathsep.join(filter(None, (str(PYTHON), os.environ.get("PYTHONPATH"))))}
        for setting in ("STEPFUSE_CACHE", "STEPFUSE_CACHE_DIR"):
            env.pop(setting, None)
        self.process = subprocess.Popen([sys.executable, str(WORKER), name, str(threads), device],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        hello = self.ask(json.dumps(sizes), limit)
        self.first, self.checksum, self.launches = hello["first"], hello["checksum"], hello["launches"]
        self.times, self.host, self.streams = [], [], []

    def ask(self, line, limit=None):
        """Returns its answer to a line. Ends the process if it does not answer within `limit` seconds."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], limit)[0]:
            self.process.kill()
            self.process.wait()
            raise LeftOut(f"its first step takes more than {limit:g} s (--first-step)")
        answer = self.process.stdout.readline()
        if not answer:
            raise LeftOut(f"its process ended with exit code {self.process.wait()}")
        return json.loads(answer)

    def turn(self, repeats, keep):
        answer = self.ask(f"run {repeats}")
        if keep:
            self.times.append(answer["step"])
            self.host += answer["host"]
            if "stream" in answer:
                self.streams.append(answer["stream"] / answer["stream_bytes"])
        return answer["step"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def start_one(name, given, times_first):
    """Returns a contestant's process, and the times of first steps with empty and with warm caches; None if it is left out."""
    try:
        if not times_first:
            return Contestant(name, *given), None, None
        cold = Contestant(name, *given)
        cold.close()
        warm = Contestant(name, *given)
        return warm, cold.first, warm.first
    except LeftOut as reason:
        print(f"left out: {name}: {reason}", file=sys.stderr)
        if name == "stepfuse":
            raise SystemExit("nothing to compare with") from None
        return None


def start(names, sizes, threads, device, caches, limit, times_first):
    """Starts everybody: one after the other if first steps are timed, otherwise all at once."""
    given = (sizes, threads, device, caches, limit)
    with concurrent.futures.ThreadPoolExecutor(1 if times_first else len(names)) as pool:
        made = zip(names, pool.map(lambda name: start_one(name, given, times_first), names))
        made = {name: one for name, one in made if one is not None}
    contestants = {name: one for name, (one, _, _) in made.items()}
    ours = contestants["stepfuse"].checksum
    for n, c in contestants.items():
        if abs(c.checksum - ours) > 1e-3 * abs(ours):
            raise SystemExit(f"{n} did other work: its weights sum to {c.checksum}, stepfuse's to {ours}")
    return contestants, {name: first for name, (_, *first) in made.items()}


def compare(name, sizes, rounds, threads, names, device, caches, limit, times_first):
    contestants, first = start(names, sizes, threads, device, caches, limit, times_first)
    repeats = {n: max(1, min(200, round(TURN_S / max(c.turn(3, False), 1e-6)))) for n, c in contestants.items()}
    for r in range(rounds):
        for n, c in contestants.items():
            c.turn(repeats[n], True)
        print(f"\r{name}: round {r + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    ours = contestants["stepfuse"]
    floor = statistics.median(ours.streams) * FLOOR_BYTES * sum(sizes)
    result = {"layout": name, "parameters": sum(sizes), "tensors": len(sizes), "floor_s": floor, "rows": {}}
    for n, c in contestants.items():
        median = statistics.median(c.times)
        result["rows"][n] = {"median_s": median, "min_s": min(c.times), "max_s": max(c.times), "share": floor / median,
                             "host_median_s": statistics.median(c.host),
                             "host_p99_s": sorted(c.host)[int(0.99 * (len(c.host) - 1))], "launches": c.launches,
                             "first_s": first[n][0], "first_warm_s": first[n][1], "ratio": median / statistics.median(ours.times)}
        c.close()
    return result


def first_steps(row):
    return "-" if row["first_s"] is None else f"{row['first_s']:.2f} ({row['first_warm_s']:.2f}) s"


def table(results, names):
    package = [n for n in PACKAGE if n in names]
    lines = ["| layout | parameters | tensors | " + " | ".join(f"{n} ms (share)" for n in names)
             + "".join(f" | fastest PyTorch / {n}" for n in ("stepfuse", *package)) + " | first step cold (warm): " + ", ".join(names) + " |",
             "|" + "---|" * (len(names) + 5 + len(package))]
    for r in results:
        rows = [r["rows"].get(n) for n in names]  # None: left out, its first step took too long
        cells = [f"{v['median_s'] * 1e3:.3f} ({v['share']:.2f})" if v else "-" for v in rows]
        rival = min((v["ratio"] for n, v in r["rows"].items() if n in TORCH), default=math.nan)
        firsts = ", ".join(first_steps(v) if v else "-" for v in rows)
        lines.append(f"| {r['layout']} | {r['parameters']:,} | {r['tensors']:,} | " + " | ".join(cells)
                     + f" | **{rival:.2f}x**" + "".join(f" | **{rival / r['rows'][n]['ratio']:.2f}x**" for n in package)
                     + f" | {firsts} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("layouts", nargs="*", default=["16M", "64M", "resnet50", "gpt2", "tiny_10000"],
                        help="1M, 16M, 64M, a file, or a name in samples/layouts")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--first-step", type=float, default=600, metavar="SECONDS",
                        help="a contestant whose first step takes longer is left out of that layout (default 600)")
    parser.add_argument("--at-once", action="store_true", help="start all contestants at once, and do not time first steps")
    parser.add_argument("--without", nargs="*", default=[], choices=NAMES[1:], help="contestants to leave out")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build", help="folder for the table and the SVG")
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: PyTorch is not installed (pip install torch==2.13.0 numpy)")
        return 77
    if args.device == "cuda" and not torch.cuda.is_available():
        print("skipped: this PyTorch sees no GPU")
        return 77
    names = [n for n in NAMES if n not in args.without]
    for module in ("jax", "optax"):
        if "optax" in names and importlib.util.find_spec(module) is None:
            print(f"left out: optax, for {module} is not installed", file=sys.stderr)
            names.remove("optax")
    for module in PACKAGE:
        if module in names and not any(PYTHON.glob("stepfuse/_core*")):
            print(f"left out: {module}, for stepfuse_core is not built into {PYTHON}", file=sys.stderr)
            names.remove(module)
    others = os.getloadavg()[0]
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    what = torch.cuda.get_device_name() if args.device == "cuda" else f"{args.threads} threads, {cpu}"
    heading = (f"PyTorch {torch.__version__}, {what}; medians of {args.rounds} alternated rounds; share: relative to "
               "32 bytes per parameter at the in-run stream's speed.\n\n")
    busy = f"\nOther programs were running when it began (load {others:.1f}): only ratios mean something.\n" if others > 0.5 else ""
    results = []
    for name, sizes in layouts(args.layouts):
        with tempfile.TemporaryDirectory() as caches:
            results.append(compare(name, sizes, args.rounds, args.threads, names, args.device, caches, args.first_step,
                                   not args.at_once))
        save(args.out, heading + table(results, names) + busy, {"machine": what, "results": results})
    print(heading + table(results, names) + busy)
    return 0


def save(folder, text, found):
    """Writes the layouts that are done, so that a run that is cut off leaves them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compare_torch.md").write_text(text)
    (folder / "compare_torch.svg").write_text(charts.compare_torch(found))
    (folder / "compare_torch.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
