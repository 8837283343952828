"""Optimizers for JAX whose step is one XLA custom call: clip, update, low-bit state and loss scale in one kernel, in place.

    tx = stepfuse.jax.adamw(lr=schedule, max_norm=1.0, moments="fp8")
    state = tx.init(params)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def train(params, state, batch):
        grads = jax.grad(loss)(params, batch)
        return tx.step(params, state, grads)

Every built-in optimizer is a function here; `optimizer` takes a name or the text of a formula.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _core
from . import library
from .checkpoint import load_checkpoint, save_checkpoint
from .optimizer import LossScale, Optimizer, adam, adamw, lion, optimizer, sgd
from .state import State

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LossScale", "Optimizer", "State", "adam", "adamw", "lion", "load_checkpoint", "optimizer", "save_checkpoint", "sgd"]

if library.FILE.exists():
    library.load()  # so that a program that jax.export has made runs after this import

_NOT_OPTIMIZERS = ("accumulate", "loss_scale_update", "muon_momentum", "muon_update")


def __getattr__(name: str) -> Callable[..., Optimizer]:
    if name not in _core.recipes() or name in _NOT_OPTIMIZERS:
        raise AttributeError(f"stepfuse.jax has no '{name}'; stepfuse.jax.optimizer takes the text of a formula")

    def make(**keywords: object) -> Optimizer:
        return optimizer(name, **keywords)  # type: ignore[arg-type]

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{_core.recipes()[name]}. The arguments are those of stepfuse.jax.optimizer."
    return make


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in _core.recipes() if name not in _NOT_OPTIMIZERS)})
