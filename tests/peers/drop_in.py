"""A pytest plugin (-p drop_in): torch.optim's AdamW, Adam and SGD are ours, for tests that know nothing of it."""

import torch

import stepfuse.torch
from stepfuse.torch.fused import Fused

for name in ("AdamW", "Adam", "SGD"):
    setattr(torch.optim, name, getattr(stepfuse.torch, name))

steps = 0
real = Fused.step


def counted(self, *args, **kwargs):
    global steps
    steps += 1
    return real(self, *args, **kwargs)


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{steps} steps were ours")


Fused.step = counted
