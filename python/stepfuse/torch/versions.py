"""Substitutes for what earlier versions of torch lack. Knows torch only."""

from __future__ import annotations

import inspect
from typing import Any

import torch


def base(name: str, since: str) -> type[torch.optim.Optimizer]:
    """Returns torch.optim's class of that name, or if torch has none, one whose constructor says so."""
    found = getattr(torch.optim, name, None)
    if found is not None:
        return found

    class Absent(torch.optim.Optimizer):
        def __init__(self, *_: Any, **__: Any) -> None:
            raise RuntimeError(f"{name} needs torch {since} or later; this is torch {torch.__version__}")

    return Absent


def takes(made: type, argument: str) -> bool:
    """Returns whether a class's constructor has that argument."""
    return argument in inspect.signature(made.__init__).parameters
