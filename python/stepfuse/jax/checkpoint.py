"""Checkpoints in stepfuse's own file, which the C++ API and tools/torch_checkpoint.py read and write, too; knows numpy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _core
from .call import Plan, make_plan
from .state import DTYPES, State

if TYPE_CHECKING:
    from .optimizer import Optimizer

INTERPRETER = 1  # a device for which nothing is compiled


def words(dtype: str, value: np.ndarray) -> list[int]:
    """The bits of a state's values in words of 64."""
    if dtype == "i64":
        return value.reshape(-1).astype(np.int64).tolist()
    if dtype == "f64":
        return value.reshape(-1).view(np.int64).tolist()
    return value.reshape(-1).view(f"u{value.dtype.itemsize}").tolist()


def from_words(dtype: str, found: list[int], shape: tuple[int, ...]) -> np.ndarray:
    """The inverse, as JAX keeps them."""
    bits = np.array(found, np.int64)
    if dtype == "i64":
        return bits.astype(np.int32).reshape(shape)
    if dtype == "f64":
        return bits.view(np.uint32).reshape(shape)
    numpy = np.dtype(DTYPES[dtype])
    return bits.astype(f"u{numpy.itemsize}").view(numpy).reshape(shape)


def make_step(plan: Plan, tx: Optimizer, arrays: dict[str, list[np.ndarray | None]]) -> Any:
    """A step of the C API over host arrays, which saves and loads and never runs."""
    tensors = [(t.name, t.elements, t.group, False, i, 0, 0, t.columns if len(t.shape) > 1 else 0) for i, t in enumerate(plan.tensors)]
    scaler = _core.Scaler(tx.init_scale, 0.0, 0.0, 0) if tx.init_scale else None
    step = _core.Step(plan.program.native, tensors, INTERPRETER, 0, 1, scaler, False)
    for name, list_of in arrays.items():
        step.bind(name, [0 if a is None or a.size == 0 else a.ctypes.data for a in list_of])
    step.adopt_state()
    return step


def save_checkpoint(path: str | os.PathLike[str], tx: Optimizer, params: Any, state: State) -> None:
    """Writes the state to a file. The parameters are not in it, unless as masters; `state.count` is not, either."""
    plan, leaves, _ = make_plan(tx._replace(specs=None), params)
    plan.operands(state)  # checks
    arrays: dict[str, list[np.ndarray | None]] = {"weight": [np.array(leaf, order="C") for leaf in leaves]}
    for b in plan.program.buffers:
        found = plan.tree.flatten_up_to(state.arrays[b.name])
        arrays[b.name] = [np.array(a, order="C") if b.exists_for(t) else None for t, a in zip(plan.tensors, found)]
    step = make_step(plan, tx, arrays)
    for v in plan.program.values:
        value = np.asarray(state.values[v.name])
        if value.size:
            step.write_state(v.name, words(v.dtype, value))
    step.save(os.fspath(path))


def load_checkpoint(path: str | os.PathLike[str], tx: Optimizer, params: Any, count: int | None = None) -> State:
    """The state in a file, for these parameters. `count` is what schedules are given next; None: the steps that were counted."""
    plan, leaves, _ = make_plan(tx._replace(specs=None), params)
    arrays: dict[str, list[np.ndarray | None]] = {"weight": [np.array(leaf, order="C") for leaf in leaves]}
    for b in plan.program.buffers:
        arrays[b.name] = [np.zeros(b.shape(t), np.dtype(DTYPES[b.dtype])) if b.exists_for(t) else None for t in plan.tensors]
    step = make_step(plan, tx, arrays)
    step.load(os.fspath(path))
    values = {v.name: from_words(v.dtype, step.read_state(v.name), v.shape(plan.tensors, len(plan.groups))) for v in plan.program.values}
    if count is None:
        count = int(values["step"].max(initial=0)) if "step" in values else 0
    kept = [*values.values(), *(a for b in plan.program.buffers for a in arrays[b.name] if a is not None)]
    return plan.make_state(jnp.asarray(count, jnp.int32), jax.tree.map(jnp.asarray, kept))
