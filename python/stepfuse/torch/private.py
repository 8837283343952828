"""Contains all uses of torch that torch does not document. Each has a replacement, for a torch that lacks it.

No other file names such a function. STEPFUSE_PLAIN_TORCH=1 makes the package use the replacements, which are slower.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import profiler

IS_PLAIN = os.environ.get("STEPFUSE_PLAIN_TORCH") == "1"
_MISSING = object()
_DTENSORS = ("torch.distributed.tensor", "torch.distributed._tensor")  # modules that have the class; only the second in torch 2.4


def _find(path: str, otherwise: Any) -> Any:
    """torch's attribute at a dotted path, or the replacement."""
    if IS_PLAIN:
        return otherwise
    found: Any = torch
    known = "torch"
    for name in path.split("."):
        known += f".{name}"
        found = sys.modules.get(known) or getattr(found, name, _MISSING)  # torch.optim deletes names of its modules
        if found is _MISSING:
            return otherwise
    return found


# --- autograd

# As functions both set the mode until they are called again, without Python's cost of a context manager.
set_grad_enabled: Callable[[bool], Any] = _find("_C._set_grad_enabled", torch.set_grad_enabled)


def _increment_each(tensors: list[Tensor]) -> None:
    for tensor in tensors:
        torch.autograd.graph.increment_version(tensor)


def _increment_all() -> Callable[[list[Tensor]], None]:
    """Tells autograd that tensors were written to, all at once where torch can (torch >= 2.6)."""
    together = _find("_C._increment_version", _increment_each)
    try:
        together([])
    except (TypeError, RuntimeError):
        return _increment_each
    return together


increment_versions = _increment_all()


# --- calls of step()

def _record(name: str) -> Any:
    return profiler.record_function(name)


record: Callable[[str], Any] = _find("_C._profiler._RecordFunctionFast", _record)
_UNKNOWN = {"somebody": None}
_global_pre_hooks = _find("optim.optimizer._global_optimizer_pre_hooks", _UNKNOWN)
_global_post_hooks = _find("optim.optimizer._global_optimizer_post_hooks", _UNKNOWN)


def is_step_watched(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a hook or the profiler wants to know of the optimizer's step; True where torch does not say."""
    try:
        return bool(profiler._is_profiler_enabled or optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks
                    or _global_pre_hooks or _global_post_hooks)
    except AttributeError:
        return True


# --- tensors

# By which C++ reads tensors (torch >= 2.10); without it C++ asks the methods of each.
EXCHANGE: Any = None if IS_PLAIN else getattr(Tensor, "__dlpack_c_exchange_api__", None)


def dtensor_types() -> list[type]:
    """DTensor, if anybody has imported it."""
    kinds = (getattr(sys.modules.get(name), "DTensor", None) for name in _DTENSORS)
    return [kind for kind in kinds if kind is not None]


def _to_local(value: Any) -> Tensor:
    with torch.no_grad():
        return value.to_local()


def _local_tensor(value: Any) -> Tensor:
    return value._local_tensor


local_tensor: Callable[[Any], Tensor] = _to_local if IS_PLAIN else _local_tensor


def _copy_each(targets: list[Tensor], sources: list[Tensor]) -> None:
    for target, source in zip(targets, sources):
        target.copy_(source)


copy_all: Callable[[list[Tensor], list[Tensor]], Any] = _find("_foreach_copy_", _copy_each)


def _norm_each(tensors: list[Tensor], order: float) -> list[Tensor]:
    return [torch.linalg.vector_norm(t, order) for t in tensors]


_norms: Callable[[list[Tensor], float], Sequence[Tensor]] = _find("_foreach_norm", _norm_each)


def find_largest(tensors: list[Tensor]) -> Sequence[Tensor]:
    """Returns the largest magnitude of each tensor; NaN if it has a NaN. None may be empty."""
    return _norms(tensors, float("inf"))


# --- subclasses

def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if not isinstance(tree, (list, tuple)):
        yield tree
        return
    for value in tree:
        yield from _leaves(value)


tree_leaves: Callable[[Any], Any] = _find("utils._pytree.tree_leaves", _leaves)


# --- processes

def default_store() -> Any:
    """The store that the default process group was made with, or one of this process alone."""
    import torch.distributed as dist

    found = getattr(getattr(dist, "distributed_c10d", None), "_get_default_store", None)
    if found is None or IS_PLAIN:
        return _own_store()
    return found()


_stores: list[Any] = []


def _own_store() -> Any:
    import torch.distributed as dist

    if not _stores:
        _stores.append(dist.HashStore())
    return _stores[0]


# --- GradScaler

OptState: Any = _find("amp.grad_scaler.OptState", None)
_SCALER = ("_check_scale_growth_tracker", "_maybe_opt_step")


def can_defer_unscale() -> bool:
    """Whether a GradScaler's unscaling can be left to the step; otherwise torch's GradScaler does it."""
    return OptState is not None and all(hasattr(torch.amp.GradScaler, name) for name in _SCALER)
