"""Times a step in turns with the peers' own steps on this CPU; knows the package stepfuse, torch and the peers."""

import os
import platform
import statistics
import time

import torch
from cases import CASES, VERSIONS, find

SIZES = [(4096, 1024), (1024, 1024), (1024, 4096), (1024,), (4096,)] * 2 + [(1024, 1024)] * 6  # 24 million
ROUNDS = 15
PAUSE_S = 0.02  # before a turn: another one's OpenMP threads spin for a while, on a processor that this one wants
# ours, and each peer's arguments; "compiled" is torch.compile of the peer's foreach step.
CONTESTS = {
    "AdamW": ("adamw", {"foreach": {"foreach": True}, "fused": {"fused": True}, "compiled": {"foreach": True}}),
    "NAdam": ("nadam", {"foreach": {"foreach": True}, "compiled": {"foreach": True}}),
    "Adan": ("adan", {"foreach": {"foreach": True}, "compiled": {"foreach": True}}),
    "LAMB": ("lamb", {"for-loop": {}, "compiled": {}}),
    "AdEMAMix": ("ademamix", {"foreach": {"foreach": True}, "compiled": {"foreach": True}}),
    "StableAdamW": ("stable_adamw", {"foreach": {"foreach": True, "triton": False}}),
}


def params():
    torch.manual_seed(1)
    made = [torch.nn.Parameter(torch.randn(s)) for s in SIZES]
    for p in made:
        p.grad = torch.randn(p.shape)
    return made


def contestants(name, formula, peers):
    import stepfuse.torch
    yield "stepfuse", getattr(stepfuse.torch, name)(params(), lr=1e-4).step
    cls = find(CASES[formula].cls)
    for how, keywords in peers.items():
        step = cls(params(), lr=1e-4, **keywords).step
        yield how, torch.compile(step) if how == "compiled" else step


def milliseconds(name, formula, peers):
    """The median of each, all in turns; None for what does not compile."""
    times = {}
    for how, step in contestants(name, formula, peers):
        try:
            for _ in range(3):
                step()
        except Exception as error:
            print(f"{name}, {how}: {type(error).__name__}: {str(error).splitlines()[0]}")
            step = None
        times[how] = (step, [])
    for _ in range(ROUNDS):
        for step, taken in times.values():
            if step is not None:
                time.sleep(PAUSE_S)
                begun = time.perf_counter()
                step()
                taken.append(1e3 * (time.perf_counter() - begun))
    return {how: statistics.median(taken) if taken else None for how, (_, taken) in times.items()}


def section():
    """Returns the section about times of docs/optimizers.md."""
    load = os.getloadavg()[0]
    rows = []
    for name, (formula, peers) in CONTESTS.items():
        times = milliseconds(name, formula, peers)
        ours = times.pop("stepfuse")
        best = min(t for t in times.values() if t is not None)
        others = ", ".join(f"{how} {t:.1f}" if t is not None else f"{how} –" for how, t in times.items())
        rows.append(f"| {name} | {ours:.1f} | {CASES[formula].peer()} | {others} | {best / ours:.2f}x |\n")
        print(rows[-1], end="", flush=True)
    elements = sum(p.numel() for p in params())
    priority = "real-time" if os.sched_getscheduler(0) == os.SCHED_FIFO else "ordinary"
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
               platform.machine())
    return f"""
## Times

Milliseconds of a step over {elements / 1e6:.1f} million f32 parameters in {len(SIZES)} tensors, medians of {ROUNDS} rounds in turns, {torch.get_num_threads()}
threads at {priority} priority, {cpu}, torch {VERSIONS["torch"]}. The load of the machine before was {load:.1f}. *compiled* is
`torch.compile` of the peer's step. It gives up if the peer counts its steps in Python numbers, and is then as slow as without. The last
column is the fastest peer's time over ours.

| optimizer | stepfuse | peer | its times | ratio |
|---|---|---|---|---|
{"".join(rows)}"""
