"""torch.optim.Optimizer without importing torch._dynamo: the import takes about 1.5 seconds, and only torch.compile needs it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch


def _method(name: str) -> Callable[..., Any]:
    """Returns a method that calls torch.optim.Optimizer's, without its decorator until torch._dynamo is imported.

    The decorator excludes the method from compilation, and imports torch._dynamo to do so. Until then nothing compiles.
    """
    decorated = getattr(torch.optim.Optimizer, name)
    plain = getattr(decorated, "__wrapped__", decorated)

    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kw: Any) -> Any:
        current = getattr(torch.optim.Optimizer, name)  # a program may have replaced it
        if current is decorated and "torch._dynamo" not in sys.modules:
            current = plain
        return current(self, *args, **kw)

    return method


class Optimizer(torch.optim.Optimizer):
    """The base class of the package's optimizers."""

    add_param_group = _method("add_param_group")
    load_state_dict = _method("load_state_dict")
    state_dict = _method("state_dict")
    zero_grad = _method("zero_grad")
