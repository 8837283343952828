"""Weights that are still on their way to this rank: the first use of one waits for it. Knows torch only.

Until a parameter has arrived it has a different class, which torch asks before any use from Python. The object, its storage and
references to it stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from . import private

OF_GRADIENTS = {Tensor.grad.__get__, Tensor.grad.__set__, Tensor.grad.__delete__}  # these read no weight


class Late:
    """The class of parameters that have not arrived."""

    _arrive: Callable[[], None]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if torch.compiler.is_compiling():
            raise RuntimeError("weights of a compiled model are still on their way; call the optimizer's wait() before the model")
        if func in OF_GRADIENTS:
            return super().__torch_function__(func, types, args, kwargs or {})
        for value in private.tree_leaves((args, kwargs)):
            if isinstance(value, Late):
                value._arrive()
        return func(*args, **(kwargs or {}))


class LateTensor(Late, Tensor):
    pass


class LateParameter(Late, torch.nn.Parameter):
    pass


CLASSES = {Tensor: LateTensor, torch.nn.Parameter: LateParameter}


def expect(params: Iterable[Tensor], arrive: Callable[[], None]) -> None:
    """Calls `arrive` before the first use of one of the parameters. `arrive` must call welcome() in any case."""
    for p in params:
        p.__class__ = CLASSES[type(p)]
        p._arrive = arrive


def welcome(params: Iterable[Tensor]) -> None:
    """Restores the parameters' original class."""
    for p in params:
        if isinstance(p, Late):
            del p._arrive
            p.__class__ = torch.nn.Parameter if isinstance(p, torch.nn.Parameter) else Tensor
