#!/usr/bin/env python3
"""One contestant of tools/compare_torch.py in a process of its own: answers "run N" on stdin with seconds per step.

Everybody does the same work over the same layout: unscale, finite check, clip by global norm, AdamW, scale update, f32.
"""

import json
import sys
import time

import torch

BASE = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
MAX_NORM = 1.0

STREAM = """step @stream {
  buffer @grad : f32 in
  buffer @a : f32 inout
  buffer @b : f32 inout
  buffer @c : f32 inout
  %g = load @grad : [f32]
  %x = load @a : [f32]
  %y = load @b : [f32]
  %z = load @c : [f32]
  %x1 = add %x, %g : [f32]
  %y1 = add %y, %g : [f32]
  %z1 = add %z, %g : [f32]
  store @a, %x1
  store @b, %y1
  store @c, %z1
}
"""


class Ours:
    """The step, and beside it the stream of the same shape: four arrays read, three written in place."""

    def __init__(self, sizes, threads):
        from bridge import Scaler, Step
        self.grads = [torch.randn(n) for n in sizes]
        arrays = {n: [torch.zeros(s) for s in sizes] for n in ("weight", "exp_avg", "exp_avg_sq")}
        backend = f"cpu:fused:host:{threads}"
        self.stream = Step(STREAM, "", backend)
        self.stream.bind([0] * len(sizes), a=arrays["weight"], b=arrays["exp_avg"], c=arrays["exp_avg_sq"])
        self.stream_pointers = self.stream.pointers(self.grads)
        for xs in arrays.values():
            for x in xs:
                x.zero_()
        start = time.perf_counter()
        self.scaler = Scaler(1.0)
        self.step_ = Step("adamw", "loss-scale clip", backend, self.scaler)
        self.step_.bind([0] * len(sizes), **arrays)
        self.step_.set(lr=BASE["lr"], weight_decay=BASE["weight_decay"], max_norm=MAX_NORM, growth_interval=1 << 30)
        self.pointers = self.step_.pointers(self.grads)
        self.step()
        self.first = time.perf_counter() - start
        self.arrays = arrays

    def step(self):
        self.step_.lib.sf_run(self.step_.handle, self.pointers)

    def stream_step(self):
        self.stream.lib.sf_run(self.stream.handle, self.stream_pointers)


class Torch:
    def __init__(self, sizes, threads, implementation):
        self.parameters = [torch.nn.Parameter(torch.zeros(n)) for n in sizes]
        for p in self.parameters:
            p.grad = torch.randn(p.shape)
        start = time.perf_counter()
        how = {"fused": True} if implementation == "fused" else {"foreach": True}
        self.optimizer = torch.optim.AdamW(self.parameters, **BASE, **how)
        self.scaler = torch.amp.GradScaler("cpu", 1.0, growth_interval=1 << 30)
        self.scaler.scale(torch.zeros(1))
        self.compiled = None
        if implementation == "compile":
            def clip_and_step():
                torch.nn.utils.clip_grad_norm_(self.parameters, MAX_NORM)
                self.optimizer.step()
            self.compiled = torch.compile(clip_and_step)
        self.step()
        self.first = time.perf_counter() - start

    def step(self):
        self.scaler.unscale_(self.optimizer)
        if self.compiled is None:
            torch.nn.utils.clip_grad_norm_(self.parameters, MAX_NORM)
            self.scaler.step(self.optimizer)
        else:
            # As GradScaler.step decides, with clip and step in one compiled function.
            state = self.scaler._per_optimizer_states[id(self.optimizer)]
            if not sum(v.item() for v in state["found_inf_per_device"].values()):
                self.compiled()
        self.scaler.update()


def timed(step, repeats):
    for _ in range(2):  # the turns before this one were somebody else's: their data is in the caches
        step()
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - start) / repeats


def main():
    name, threads, sizes = sys.argv[1], int(sys.argv[2]), json.loads(sys.stdin.readline())
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    contestant = Ours(sizes, threads) if name == "stepfuse" else Torch(sizes, threads, name)
    print(json.dumps({"first": contestant.first}), flush=True)
    for line in sys.stdin:
        repeats = int(line.split()[1])
        answer = {"step": timed(contestant.step, repeats)}
        if name == "stepfuse":
            answer["stream"] = timed(contestant.stream_step, repeats)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
