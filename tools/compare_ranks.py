#!/usr/bin/env python3
"""Compares many ranks with one process and with torch's DDP and ZeRO; knows torch, the package and samples/pytorch.

    tools/compare_ranks.py agree [--ranks 4] [--steps 500] [--svg FILE]   runs the GPT sample with overflows; after every
                                 step the digests of all ranks must equal those of one process with the same global batch
    tools/compare_ranks.py time  [--ranks 4] [--steps 30] [--width 256]   times iterations in turns with torch's, and
                                 counts collectives per iteration

Needs stepfuse on PYTHONPATH (build/python). Processes talk by gloo.
"""

import argparse
import hashlib
import importlib.util
import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import stepfuse.torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATE, MAX_NORM, OVERFLOWS = 3e-3, 1.0, (50, 51, 120, 333)


def sample():
    spec = importlib.util.spec_from_file_location("train_gpt", ROOT / "samples" / "pytorch" / "train_gpt.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Data:
    def __init__(self, gpt):
        letters = gpt.TEXT.read_text(encoding="utf-8")
        self.symbols = sorted(set(letters))
        self.text = torch.tensor([self.symbols.index(c) for c in letters])
        self.context = gpt.CONTEXT

    def loss(self, model, step, rank, count):
        draw = torch.Generator().manual_seed(1000 * step + rank)
        starts = torch.randint(len(self.text) - self.context - 1, (count,), generator=draw).tolist()
        batch = torch.stack([self.text[s:s + self.context + 1] for s in starts])
        logits = model(batch[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def digest(model):
    h = hashlib.sha256()
    for p in model.parameters():
        h.update(p.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return h.hexdigest()[:16]


def scaler():
    return stepfuse.torch.LossScaler(init_scale=1024.0, growth_interval=60)


def seconds_of(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def join(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", world), rank=rank, world_size=world)


# --- agreement


def train_share(rank, world, folder, steps):
    join(rank, world, folder)
    gpt = sample()
    data = Data(gpt)
    torch.manual_seed(1)
    model = gpt.Gpt(len(data.symbols))
    optimizer = stepfuse.torch.ZeroRedundancyOptimizer(gpt.groups(model), stepfuse.torch.AdamW, lr=RATE, fused=True, exact=True,
                                                       max_norm=MAX_NORM, scaler=scaler(), bucket_bytes=200_000)
    lines = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = data.loss(model, step, rank, 4)
        # One rank's loss overflows, in a few steps.
        optimizer.scale(loss * (float("inf") if step in OVERFLOWS and rank == world - 1 else 1.0)).backward()
        optimizer.step()
        lines.append((digest(model), loss.item(), optimizer.stats()["skipped"]))
    torch.save(lines, f"{folder}/rank{rank}")
    dist.barrier()
    dist.destroy_process_group()


def train_alone(world, steps):
    gpt = sample()
    data = Data(gpt)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = gpt.Gpt(len(data.symbols))
    own = scaler()
    optimizer = stepfuse.torch.AdamW(gpt.groups(model), lr=RATE, fused=True, max_norm=MAX_NORM, scaler=own)
    lines = []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for rank in range(world):
            loss = data.loss(model, step, rank, 4)
            own.scale(loss * (float("inf") if step in OVERFLOWS and rank == world - 1 else 1.0) / world).backward()
            total += loss.item() / world
        optimizer.step()
        lines.append((digest(model), total, optimizer.stats()["skipped"]))
    return lines


def picture(curves, path):
    width, height, top = 640, 320, max(max(values) for _, values, _ in curves)
    lines = []
    for i, (name, values, style) in enumerate(curves):
        points = " ".join(f"{40 + x * (width - 60) / len(values):.1f},{height - 30 - y / top * (height - 60):.1f}"
                          for x, y in enumerate(values))
        lines.append(f'<polyline points="{points}" fill="none" {style}/>'
                     f'<text x="{width - 260}" y="{24 + 18 * i}">{name}</text>')
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
                    f'font-size="13"><rect width="100%" height="100%" fill="white"/><text x="40" y="24">loss, '
                    f'{len(curves[0][1])} steps</text>{"".join(lines)}</svg>\n', encoding="utf-8")


def agree(options):
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train_share, (options.ranks, folder, options.steps), nprocs=options.ranks)
        ranks = [torch.load(f"{folder}/rank{r}", weights_only=True) for r in range(options.ranks)]
    alone = train_alone(options.ranks, options.steps)
    together = sum(len({rank[i][0] for rank in ranks}) == 1 for i in range(options.steps))
    same = sum(ranks[0][i][0] == alone[i][0] for i in range(options.steps))
    skipped = [i for i, line in enumerate(alone) if line[2]]
    means = [sum(rank[i][1] for rank in ranks) / options.ranks for i in range(options.steps)]
    print(f"{options.ranks} ranks, {options.steps} steps, skipped {skipped}\n"
          f"digests equal on all ranks after {together} steps, equal to one process with the same batch after {same}\n"
          f"loss {means[0]:.4f} to {means[-1]:.4f}; alone {alone[0][1]:.4f} to {alone[-1][1]:.4f}")
    picture([("one process, the same batch", [line[1] for line in alone], 'stroke="#d62728" stroke-width="4"'),
             (f"{options.ranks} ranks", means, 'stroke="#1f77b4" stroke-width="1.5"')], options.svg)
    return 0 if together == same == options.steps else 1


# --- time


class Way:
    """A model, its optimizer and one iteration of training."""

    def __init__(self, name, model, optimizer, data, own=None):
        self.name, self.model, self.optimizer, self.data, self.own = name, model, optimizer, data, own
        self.theirs = torch.amp.GradScaler("cpu", init_scale=1024.0) if own is None else None

    def iteration(self, step, rank):
        self.optimizer.zero_grad()
        loss = self.data.loss(self.model, step, rank, 2)
        if self.own is not None:
            self.own.scale(loss).backward()
            return seconds_of(self.optimizer.step)
        self.theirs.scale(loss).backward()
        return seconds_of(self.classic)

    def classic(self):
        self.theirs.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)
        self.theirs.step(self.optimizer)
        self.theirs.update()


def ways(gpt, data):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def model():
        torch.manual_seed(1)
        return gpt.Gpt(len(data.symbols))

    plain = model()
    ddp = DistributedDataParallel(plain)
    yield Way("torch: DDP, fused AdamW, clip, GradScaler", ddp, torch.optim.AdamW(gpt.groups(plain), lr=RATE, fused=True), data)
    plain, own = model(), scaler()
    ddp = DistributedDataParallel(plain)
    yield Way("DDP, stepfuse AdamW", ddp, stepfuse.torch.AdamW(
        gpt.groups(plain), lr=RATE, fused=True, max_norm=MAX_NORM, scaler=own), data, own)
    plain = model()
    ddp = DistributedDataParallel(plain)
    yield Way("torch: ZeroRedundancyOptimizer", ddp, ZeroRedundancyOptimizer(
        gpt.groups(plain), torch.optim.AdamW, lr=RATE, fused=True, parameters_as_bucket_view=True), data)
    for more in ({}, {"exact": True}, {"bucket_bytes": 4 << 20}, {"bucket_bytes": 4 << 20, "overlap_gather": True}):
        plain, own = model(), scaler()
        yield Way(", ".join(["stepfuse ZeroRedundancyOptimizer", *(f"{k}={v}" for k, v in more.items())]), plain,
                  stepfuse.torch.ZeroRedundancyOptimizer(gpt.groups(plain), stepfuse.torch.AdamW, lr=RATE, fused=True,
                                                         max_norm=MAX_NORM, scaler=own, **more), data, own)


def collectives(way, step, rank):
    """Returns the collectives of one iteration, as the profiler sees them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        way.iteration(step, rank)
        if hasattr(way.optimizer, "wait"):
            way.optimizer.wait()
    return sum(e.count for e in profile.key_averages() if e.key.startswith("gloo:"))


def time_share(rank, world, folder, options):
    join(rank, world, folder)
    gpt = sample()
    gpt.WIDTH, gpt.LAYERS = options.width, 4
    data = Data(gpt)
    every = list(ways(gpt, data))
    whole, steps = {way.name: [] for way in every}, {way.name: [] for way in every}
    for i in range(options.steps + 3):
        for way in every:
            dist.barrier()
            began = time.perf_counter()
            step = way.iteration(i, rank)
            if i >= 3:
                whole[way.name].append(time.perf_counter() - began)
                steps[way.name].append(step)
    counts = {way.name: collectives(way, options.steps + 3, rank) for way in every}
    if rank == 0:
        count = sum(p.numel() for p in every[0].model.parameters())
        load = "/".join(f"{x:.1f}" for x in os.getloadavg())
        print(f"{world} gloo processes with one thread each on {os.cpu_count()} processors, load {load}; {count:,} parameters, "
              f"{options.steps} iterations interleaved\n\n| | iteration, median ms | of it step() | fastest | collectives |\n|---|---|---|---|---|")
        for name in whole:
            print(f"| {name} | {1e3 * statistics.median(whole[name]):.1f} | {1e3 * statistics.median(steps[name]):.1f} | "
                  f"{1e3 * min(whole[name]):.1f} | {counts[name]} |")
        sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("agree", "time"))
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--svg", type=pathlib.Path, default=pathlib.Path("ranks.svg"))
    options = parser.parse_args()
    options.steps = options.steps or {"agree": 500, "time": 30}[options.what]
    if options.what == "agree":
        return agree(options)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(time_share, (options.ranks, folder, options), nprocs=options.ranks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
