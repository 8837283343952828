#!/usr/bin/env python3
"""Long runs of the Python package: growth, forked DataLoader workers, processes on one cold cache, a home that cannot be
written to. Prints a line for each; exit code 1 where one fails.

    PYTHONPATH=build/python tools/soak_python.py                       # some minutes
    PYTHONPATH=build/python tools/soak_python.py --steps 2000 --epochs 2 --processes 3
"""

import argparse
import gc
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

GROWTH_KIB = 2048  # of allocators' own making; a leak of 32 bytes per step is more in 100,000
OBJECTS = 200  # that torch keeps for itself


def resident_kib():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def counts():
    gc.collect()
    return {"objects": len(gc.get_objects()), "threads": threading.active_count(),
            "tasks": len(os.listdir("/proc/self/task")), "files": len(os.listdir("/proc/self/fd"))}


def make(way):
    import torch

    from stepfuse.torch import AdamW, GradScaler, LossScaler

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))
    if way == "FSDP2":
        from torch.distributed.fsdp import fully_shard

        if not torch.distributed.is_initialized():
            store = torch.distributed.FileStore(tempfile.mkstemp()[1], 1)
            torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        fully_shard(model, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (1,)))
    if way in ("native", "FSDP2"):
        return model, AdamW(model.parameters(), lr=1e-3, max_norm=1.0, scaler=LossScaler(growth_interval=100)), None
    return model, AdamW(model.parameters(), lr=1e-3), GradScaler("cpu", growth_interval=100, defer_unscale=True)


def train(model, optimizer, scaler, x):
    from stepfuse.torch import clip_grad_norm_

    optimizer.zero_grad()
    loss = model(x).square().mean()
    if scaler is None:
        optimizer.scale(loss).backward()
        optimizer.step()
    else:
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def grow(steps, threads):
    """Checks that memory, objects, threads and files are the same after `steps` steps as after a tenth of them."""
    import torch

    torch.set_num_threads(threads)
    for way in ("native", "deferred", "FSDP2"):
        steps = steps // 5 if way == "FSDP2" else steps  # torch's side of them takes longer
        model, optimizer, scaler = make(way)
        x = torch.randn(4, 32)
        for i in range(steps):
            if i == steps // 10:
                before = counts()  # which makes a long list, and so comes before the memory
                first = resident_kib()
            train(model, optimizer, scaler, x)
            if i % 1000 == 999:
                optimizer.state_dict()
                optimizer.stats()
        grown, after = resident_kib() - first, counts()
        more = after.pop("objects") - before.pop("objects")
        if grown > GROWTH_KIB or more > OBJECTS or after != before:
            raise RuntimeError(f"{way}: {grown} KiB and {more} objects more, {before} became {after}")
        print(f"{steps:,} steps, {way}: after the first tenth {grown} KiB and {more} objects more, threads and files as before", flush=True)


class Data:
    def __len__(self):
        return 16

    def __getitem__(self, i):
        import torch

        return torch.full((32,), float(i))


def workers(epochs, threads):
    """DataLoader's workers are forked again in every epoch, between steps that use threads."""
    import torch

    torch.set_num_threads(threads)
    model, optimizer, scaler = make("native")
    seen = 0
    for _ in range(epochs):
        for x in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2, multiprocessing_context="fork"):
            train(model, optimizer, scaler, x)
            seen += len(x)
    if seen != epochs * 16:
        raise RuntimeError(f"{seen} rows instead of {epochs * 16}")
    print(f"{epochs} epochs with two forked workers each: all rows seen")


def digest():
    import torch

    torch.set_num_threads(1)
    model, optimizer, scaler = make("native")
    for i in range(5):
        train(model, optimizer, scaler, torch.full((4, 32), float(i)))
    print(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())


def digests(count, **environment):
    env = {**os.environ, **environment}
    for name in ("STEPFUSE_CACHE", "STEPFUSE_CACHE_DIR"):
        env.pop(name, None)
    started = [subprocess.Popen([sys.executable, __file__, "--only", "digest"], env=env, stdout=subprocess.PIPE, text=True)
               for _ in range(count)]
    found = {p.communicate(timeout=900)[0].split()[-1] for p in started}
    if any(p.returncode for p in started) or len(found) != 1:
        raise RuntimeError(f"exit codes {[p.returncode for p in started]}, results {found}")
    return found.pop()


def caches(processes):
    """All of them begin with one cache that has nothing; then a home in which nothing can be made."""
    with tempfile.TemporaryDirectory() as folder:
        cold = digests(processes, XDG_CACHE_HOME=folder, HOME=folder)
        kept = sum(1 for p in pathlib.Path(folder).rglob("*") if p.is_file())
        broken = [str(p) for p in pathlib.Path(folder).rglob("*.partial")]
        if not kept or broken:
            raise RuntimeError(f"the cache has {kept} files, and left over {broken}")
        print(f"{processes} processes on one cold cache: one result, {kept} files kept")
    if digests(1, XDG_CACHE_HOME="/proc/self/none", HOME="/proc/self/none") != cold:
        raise RuntimeError("another result where nothing can be cached")
    print("a home that cannot be written to: the same result")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=["grow", "workers", "caches", "digest"])
    options = parser.parse_args()
    if options.only == "digest":
        digest()
        return
    parts = {"grow": lambda: grow(options.steps, options.threads),
             "workers": lambda: workers(options.epochs, options.threads), "caches": lambda: caches(options.processes)}
    for part in [options.only] if options.only else parts:
        parts[part]()


if __name__ == "__main__":
    main()
