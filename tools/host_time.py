#!/usr/bin/env python3
"""What step() costs the host at many small parameters: stepfuse.torch beside torch.optim, taking turns in one process.

    ninja -C build stepfuse_core && PYTHONPATH=build/python tools/host_time.py [--parameters 300 10000]

Parameters are so small that their arithmetic is nothing beside the calls; gradients are new at every step, as
backward() leaves them, and made outside of the clock. One thread.
"""

import argparse
import os
import statistics
import sys
import time

ELEMENTS = 4


class Row:
    def __init__(self, torch, name, count, make):
        self.name = name
        self.params = [torch.nn.Parameter(torch.ones(ELEMENTS)) for _ in range(count)]
        self.step = make(self.params)
        self.seconds = []

    def turn(self, torch):
        for p in self.params:
            p.grad = torch.full((ELEMENTS,), 0.5)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=int, nargs="*", default=[300, 10_000])
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    try:
        import torch

        import stepfuse.torch as ours
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, one thread, medians of {options.rounds} turns, microseconds; load {os.getloadavg()[0]:.1f}\n")
    print("| parameters | work | way | host time | of torch fused |\n|---|---|---|---|---|")
    for count in options.parameters:
        for work, made in ways(torch, ours):
            rows = [Row(torch, name, count, make) for name, make in made]
            for i in range(options.rounds + 3):
                for row in rows:
                    row.turn(torch)
                    if i < 3:
                        row.seconds.clear()
            base = statistics.median(rows[0].seconds)
            for row in rows:
                median = statistics.median(row.seconds)
                print(f"| {count:,} | {work} | {row.name} | {median * 1e6:,.0f} | {median / base:.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
