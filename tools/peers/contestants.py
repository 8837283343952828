#!/usr/bin/env python3
"""One contestant of tools/compare_torch.py in a process of its own, on the CPU or on a GPU: answers "run N" on stdin.

Everybody does the same work over the same layout and gradients: unscale, finite check, clip by global norm, AdamW,
scale update, f32. An answer has seconds per step on the device (by CUDA events, or the wall clock on a CPU), and the
host's time per call.
"""

import json
import sys
import time

import torch

BASE = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
MAX_NORM = 1.0
NEVER = 1 << 30  # growth_interval
COPY_ELEMENTS = 1 << 28

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


class Contestant:
    """The base class of contestants: gradients of one seed, and a clock of the device."""

    def __init__(self, sizes, device):
        self.device = device
        self.grads = [torch.randn(n).to(device) for n in sizes]

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def mark(self):
        if self.device != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin, end):
        if self.device != "cuda":
            return end - begin
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def launches(self):
        """Kernels and copies on the device per step; None where nobody counts them."""
        if self.device != "cuda":
            return None
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            self.step()
            self.wait()
        # torch marks the time of a step() there as well.
        return sum(1 for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA and not e.name.startswith("Optimizer.step"))


class Ours(Contestant):
    """Times the step, and in turns the stream: on the CPU it reads four arrays and writes three in place, on a GPU it is a copy."""

    def __init__(self, sizes, threads, device):
        from bridge import Scaler, Step
        super().__init__(sizes, device)
        backend = f"cpu:fused:host:{threads}" if device == "cpu" else "cuda"
        self.arrays = {n: [torch.zeros(s, device=device) for s in sizes] for n in ("weight", "exp_avg", "exp_avg_sq")}
        self.make_stream(Step, sizes, backend)
        self.wait()
        start = time.perf_counter()
        self.scaler = Scaler(1.0)
        self.step_ = Step("adamw", "loss-scale clip", backend, self.scaler)
        self.step_.bind([0] * len(sizes), **self.arrays)
        self.step_.set(lr=BASE["lr"], weight_decay=BASE["weight_decay"], max_norm=MAX_NORM, growth_interval=NEVER)
        self.pointers = self.step_.pointers(self.grads)
        self.on = torch.cuda.current_stream().cuda_stream if device == "cuda" else None
        self.step()
        self.wait()
        self.first = time.perf_counter() - start

    def make_stream(self, Step, sizes, backend):
        if self.device == "cuda":
            n = min(COPY_ELEMENTS, 4 * sum(sizes))
            source, target = (torch.zeros(n, device="cuda") for _ in range(2))
            self.stream_bytes = 8 * n
            self.stream_step = lambda: target.copy_(source)
            return
        a, b, c = self.arrays.values()
        stream = Step(STREAM, "", backend)
        stream.bind([0] * len(sizes), a=a, b=b, c=c)
        pointers = stream.pointers(self.grads)
        self.stream_bytes = 28 * sum(sizes)
        self.stream_step = lambda: stream.run_pointers(pointers)
        self.stream_step()
        for xs in self.arrays.values():
            for x in xs:
                x.zero_()

    def step(self):
        self.step_.run_pointers(self.pointers, self.on)

    def checksum(self):
        return sum(w.double().abs().sum().item() for w in self.arrays["weight"])


class Torch(Contestant):
    def __init__(self, sizes, threads, device, implementation):
        super().__init__(sizes, device)
        self.parameters = [torch.nn.Parameter(torch.zeros(n, device=device)) for n in sizes]
        for p, g in zip(self.parameters, self.grads):
            p.grad = g
        self.wait()
        start = time.perf_counter()
        how = {"fused": True} if implementation == "fused" else {"foreach": True}
        self.optimizer = torch.optim.AdamW(self.parameters, **BASE, **how)
        self.scaler = torch.amp.GradScaler(device, 1.0, growth_interval=NEVER)
        self.scaler.scale(torch.zeros(1, device=device))
        self.compiled = None
        if implementation == "compile":
            def clip_and_step():
                torch.nn.utils.clip_grad_norm_(self.parameters, MAX_NORM)
                self.optimizer.step()
            self.compiled = torch.compile(clip_and_step)
        self.step()
        self.wait()
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

    def checksum(self):
        return sum(p.detach().double().abs().sum().item() for p in self.parameters)


class Package(Contestant):
    """stepfuse.torch.AdamW: `native`, clip and loss scale its own, or `deferred`, in torch's order of calls."""

    def __init__(self, sizes, threads, device, way):
        import stepfuse.torch
        super().__init__(sizes, device)
        self.parameters = [torch.nn.Parameter(torch.zeros(n, device=device)) for n in sizes]
        for p, g in zip(self.parameters, self.grads):
            p.grad = g
        self.wait()
        start = time.perf_counter()
        if way == "native":
            scaler = stepfuse.torch.LossScaler(1.0, growth_interval=NEVER)
            self.optimizer = stepfuse.torch.AdamW(self.parameters, **BASE, max_norm=MAX_NORM, scaler=scaler)
            self.step = self.optimizer.step
        else:
            self.optimizer = stepfuse.torch.AdamW(self.parameters, **BASE)
            self.scaler = stepfuse.torch.GradScaler(device, 1.0, growth_interval=NEVER, defer_unscale=True)
            self.scaler.scale(torch.zeros(1, device=device))
            self.clip = stepfuse.torch.clip_grad_norm_
            self.step = self.classic
        self.step()
        self.wait()
        self.first = time.perf_counter() - start

    def classic(self):
        self.scaler.unscale_(self.optimizer)
        self.clip(self.parameters, MAX_NORM)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def checksum(self):
        return sum(p.detach().double().abs().sum().item() for p in self.parameters)


class Optax(Contestant):
    """optax under jax.jit, parameters and state donated; the gradients are torch's, through DLPack."""

    def __init__(self, sizes, threads, device):
        super().__init__(sizes, device)
        import jax
        self.jax = jax
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        on = next(d for d in jax.devices() if (d.platform == "cpu") == (device == "cpu"))
        with jax.default_device(on):
            gradients = [jax.dlpack.from_dlpack(g) for g in self.grads]
            parameters = [jax.numpy.zeros(n, jax.numpy.float32) for n in sizes]
            jax.block_until_ready((gradients, parameters))
            start = time.perf_counter()
            self.jitted, state = self.build(parameters)
            self.arguments = (parameters, state, (jax.numpy.float32(1), jax.numpy.int32(0)))
            self.gradients = gradients
            self.step()
            self.wait()
            self.first = time.perf_counter() - start

    def build(self, parameters):
        import optax
        jax, jnp = self.jax, self.jax.numpy
        chain = optax.chain(optax.clip_by_global_norm(MAX_NORM),
                            optax.adamw(BASE["lr"], *BASE["betas"], BASE["eps"], weight_decay=BASE["weight_decay"]))

        def step(parameters, state, scaler, gradients):
            scale, tracker = scaler
            gradients = [g / scale for g in gradients]
            good = jnp.array([jnp.isfinite(g).all() for g in gradients]).all()

            def update(_):
                updates, next_state = chain.update(gradients, state, parameters)
                return optax.apply_updates(parameters, updates), next_state
            parameters, state = jax.lax.cond(good, update, lambda _: (parameters, state), None)
            grown = tracker + 1 == NEVER
            scale = jnp.where(good, jnp.where(grown, scale * 2, scale), scale * 0.5)
            return parameters, state, (scale, jnp.where(good & ~grown, tracker + 1, 0))
        return jax.jit(step, donate_argnums=(0, 1, 2)), chain.init(parameters)

    def step(self):
        self.arguments = self.jitted(*self.arguments, self.gradients)

    def wait(self):
        if hasattr(self, "arguments"):
            self.jax.block_until_ready(self.arguments)

    # Its stream is not torch's: what it has launched is waited for.
    def mark(self):
        self.wait()
        return time.perf_counter()

    def seconds(self, begin, end):
        return end - begin

    def launches(self):
        return None

    def checksum(self):
        import numpy
        return float(sum(numpy.abs(numpy.asarray(w, numpy.float64)).sum() for w in self.arguments[0]))


def timed(contestant, step, repeats):
    for _ in range(2):  # the turns before this one were somebody else's: their data is in the caches
        step()
    contestant.wait()
    host = []
    begin = contestant.mark()
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        host.append(time.perf_counter() - start)
    return contestant.seconds(begin, contestant.mark()) / repeats, host


def make(name, threads, device, sizes):
    if name == "stepfuse":
        return Ours(sizes, threads, device)
    if name in ("native", "deferred"):
        return Package(sizes, threads, device, name)
    return Optax(sizes, threads, device) if name == "optax" else Torch(sizes, threads, device, name)


def main():
    name, threads, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    sizes = json.loads(sys.stdin.readline())
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    contestant = make(name, threads, device, sizes)
    checksum = contestant.checksum()  # after one step: everybody's is the same but for rounding
    print(json.dumps({"first": contestant.first, "checksum": checksum, "launches": contestant.launches()}), flush=True)
    for line in sys.stdin:
        repeats = int(line.split()[1])
        step, host = timed(contestant, contestant.step, repeats)
        answer = {"step": step, "host": host}
        if name == "stepfuse":
            answer["stream"] = timed(contestant, contestant.stream_step, repeats)[0]
            answer["stream_bytes"] = contestant.stream_bytes
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
