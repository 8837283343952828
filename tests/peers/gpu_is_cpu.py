"""A pytest plugin (-p gpu_is_cpu): of Lightning's tests those that ask for one GPU, on the CPU, fp16 with a real scaler.

SCALER is whose: torch, ours, or deferred, which is ours that unscales within the step.
"""

import os

import lightning.pytorch
from lightning.pytorch.plugins import MixedPrecision

import stepfuse.torch

SCALERS = {
    "torch": lambda: None,
    "ours": lambda: stepfuse.torch.GradScaler("cpu"),
    "deferred": lambda: stepfuse.torch.GradScaler("cpu", defer_unscale=True),
}
trainers = 0
real = lightning.pytorch.Trainer.__init__


def on_cpu(self, *args, **kwargs):
    global trainers
    if kwargs.get("accelerator") in ("gpu", "cuda"):
        kwargs["accelerator"] = "cpu"
        if kwargs.get("precision") == "16-mixed":  # Lightning's own way on a CPU is bf16
            del kwargs["precision"]
            kwargs["plugins"] = [MixedPrecision("16-mixed", "cpu", scaler=SCALERS[os.environ.get("SCALER", "torch")]())]
            trainers += 1
    return real(self, *args, **kwargs)


def asks_for_a_gpu(mark):
    return mark.name == "skipif" and mark.kwargs.get("reason") == "Requires: [GPUs>=1]"


def pytest_collection_modifyitems(items):
    items[:] = [i for i in items if any(map(asks_for_a_gpu, i.own_markers)) and not i.originalname.endswith("_cuda")]
    for item in items:
        item.own_markers = [m for m in item.own_markers if not asks_for_a_gpu(m)]


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{trainers} trainers in fp16")


lightning.pytorch.Trainer.__init__ = on_cpu
