#!/usr/bin/env python3
"""Times the host's part of step() at many small parameters: stepfuse.torch in turns with torch.optim, in one process.

    ninja -C build stepfuse_core && PYTHONPATH=build/python tools/host_time.py [--parameters 300 10000]
    PYTHONPATH=build/python tools/host_time.py --dtensors --parameters 10 300 2000

Parameters are so small that their arithmetic is negligible compared with the calls. Gradients are new at every step, as
backward() leaves them, and are made while the clock is stopped; then 64 MiB are
written, so that each row starts with equally cold caches. One thread. With --dtensors, parameters and gradients
are DTensors as FSDP2 makes them, sharded over a mesh of one process (gloo), and rows of plain tensors come first.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time

ELEMENTS = 4


class Row:
    def __init__(self, torch, name, count, make, mesh=None):
        self.name = name
        self.mesh = mesh
        self.params = [torch.nn.Parameter(self.tensor(torch, 1.0)) for _ in range(count)]
        self.step = make(self.params)
        self.seconds = []

    def tensor(self, torch, value, like=None):
        plain = torch.full((ELEMENTS,), value)
        if self.mesh is None:
            return plain
        from torch.distributed.tensor import DTensor, Shard

        made = DTensor.from_local(plain, self.mesh, [Shard(0)], run_check=False)
        if like is not None:
            made._spec = like._spec  # the one object that FSDP2 gives a parameter and its gradients
        return made

    def turn(self, torch, cache):
        gradients = [self.tensor(torch, 0.5, p) for p in self.params]
        for p, grad in zip(self.params, gradients):
            p.grad = grad
        del gradients, grad
        cache.add_(1)  # what backward() would leave in the caches, whatever made the gradients
        began = time.perf_counter()
        self.step()
        self.seconds.append(time.perf_counter() - began)


def ways(torch, ours):
    """Name and what makes a step of parameters; the rows of one block do the same work."""
    def plain(cls, **kw):
        return lambda params: cls(params, **kw).step

    def classic(cls, scaler, clip, **kw):
        def make(params):
            optimizer = cls(params, **kw)
            scaler.scale(torch.ones(()))

            def step():
                scaler.unscale_(optimizer)
                clip(params, 1.0)
                scaler.step(optimizer)
                scaler.update()
            return step
        return make

    never = {"init_scale": 1.0, "growth_interval": 1 << 30}
    yield "step alone", [
        ("torch fused", plain(torch.optim.AdamW, fused=True)), ("torch foreach", plain(torch.optim.AdamW, foreach=True)),
        ("stepfuse", plain(ours.AdamW))]
    yield "unscale, clip, step, update", [
        ("torch fused", classic(torch.optim.AdamW, torch.amp.GradScaler("cpu", **never), torch.nn.utils.clip_grad_norm_,
                                fused=True)),
        ("stepfuse native", lambda params: ours.AdamW(params, max_norm=1.0, scaler=ours.LossScaler(**never)).step),
        ("stepfuse deferred", classic(ours.AdamW, ours.GradScaler("cpu", **never, defer_unscale=True), ours.clip_grad_norm_))]


def sharded_ways(torch, ours):
    """The same for DTensors; whether a row's parameters are DTensors stands last."""
    def clipped(cls, **kw):
        def make(params):
            optimizer = cls(params, **kw)

            def step():
                torch.nn.utils.clip_grad_norm_(params, 1.0)
                optimizer.step()
            return step
        return make

    def plain(cls, **kw):
        return lambda params: cls(params, **kw).step

    fused, foreach = {"fused": True}, {"foreach": True}
    yield "step alone", [
        ("torch fused", plain(torch.optim.AdamW, **fused), True), ("torch foreach", plain(torch.optim.AdamW, **foreach), True),
        ("torch fused, plain", plain(torch.optim.AdamW, **fused), False),
        ("stepfuse, plain", plain(ours.AdamW), False), ("stepfuse", plain(ours.AdamW), True)]
    yield "clip, step", [
        ("torch fused", clipped(torch.optim.AdamW, **fused), True), ("torch foreach", clipped(torch.optim.AdamW, **foreach), True),
        ("stepfuse, plain", plain(ours.AdamW, max_norm=1.0), False), ("stepfuse", plain(ours.AdamW, max_norm=1.0), True)]


def one_process_mesh(torch):
    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(tempfile.mkstemp()[1], 1), rank=0, world_size=1)
    return torch.distributed.device_mesh.init_device_mesh("cpu", (1,))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=int, nargs="*", default=[300, 10_000])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--dtensors", action="store_true", help="parameters are DTensors on a mesh of one process")
    options = parser.parse_args()
    try:
        import torch

        import stepfuse.torch as ours
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    torch.set_num_threads(1)
    mesh = one_process_mesh(torch) if options.dtensors else None
    print(f"PyTorch {torch.__version__}, one thread, medians of {options.rounds} turns, microseconds; load {os.getloadavg()[0]:.1f}\n")
    print("| parameters | work | way | host time | of torch fused |\n|---|---|---|---|---|")
    for count in options.parameters:
        for work, made in (ways if mesh is None else sharded_ways)(torch, ours):
            rows = [Row(torch, name, count, make, mesh if any(distributed) else None) for name, make, *distributed in made]
            cache = torch.zeros(16 << 20)
            for i in range(options.rounds + 3):
                for row in rows:
                    row.turn(torch, cache)
                    if i < 3:
                        row.seconds.clear()
            base = statistics.median(rows[0].seconds)
            for row in rows:
                median = statistics.median(row.seconds)
                print(f"| {count:,} | {work} | {row.name} | {median * 1e6:,.0f} | {median / base:.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
