"""The state of an optimizer as a pytree of arrays; knows what a program declares."""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp

from .. import _core

if TYPE_CHECKING:
    from collections.abc import Sequence

    import jax

DTYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "f8e4m3": jnp.float8_e4m3fn,
          "f8e5m2": jnp.float8_e5m2, "u8": jnp.uint8, "i8": jnp.int8, "i16": jnp.int16, "i32": jnp.int32, "bool": jnp.bool_}
NAMES = {jnp.dtype(dtype): name for name, dtype in DTYPES.items()}
PER_STEP, PER_GROUP, PER_TENSOR, PER_ROW, PER_COLUMN = range(5)
PIECE = 16384  # elements that the language reduces at once


class State(NamedTuple):
    """Arrays only, so that everything that saves pytrees saves it."""

    count: jax.Array  # type: ignore[assignment]  # calls of step() so far, which schedules are given
    arrays: dict[str, Any]  # by name; each is a pytree like the parameters, with None if a parameter has no such array
    values: dict[str, jax.Array]  # one number per step, group, tensor, row or column: counts, loss scale, reports


class Buffer(NamedTuple):
    """A kind of array of a program."""

    name: str
    dtype: str
    block: int  # elements that share a value
    least: int  # elements of a full tensor that has it, and
    below: int  # the first count of one that does not

    def exists_for(self, tensor: Tensor) -> bool:
        return self.least <= tensor.elements * tensor.shards < self.below

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        return tensor.shape if self.block == 1 else (-(-tensor.elements // self.block),)


class Value(NamedTuple):
    """A state of a program."""

    name: str
    dtype: str
    granularity: int

    def shape(self, tensors: Sequence[Tensor], groups: int) -> tuple[int, ...]:
        counts = {PER_GROUP: groups, PER_TENSOR: len(tensors), PER_ROW: sum(t.rows for t in tensors),
                  PER_COLUMN: sum(t.columns for t in tensors)}
        shape = (counts[self.granularity],) if self.granularity != PER_STEP else ()
        return (*shape, 2) if self.dtype == "f64" else shape

    def jax_dtype(self) -> Any:
        # JAX has no 64-bit types unless it is told to: a count has 32 bits there, and an f64 is two words.
        return {"i64": jnp.int32, "f64": jnp.uint32}.get(self.dtype) or DTYPES[self.dtype]

    def operand_shape(self, tensors: Sequence[Tensor], groups: int) -> tuple[int, ...]:
        """The shape with which a custom call gets and returns it: a count is two words as well."""
        shape = self.shape(tensors, groups)
        return (*shape, 2) if self.dtype == "i64" else shape

    def to_operand(self, array: jax.Array) -> jax.Array:
        return jnp.stack([array, array >> 31], -1) if self.dtype == "i64" else array

    def from_operand(self, array: jax.Array) -> jax.Array:
        return array[..., 0] if self.dtype == "i64" else array


class Tensor(NamedTuple):
    """A parameter, or one device's shard of it."""

    name: str  # its path in the pytree
    shape: tuple[int, ...]
    dtype: str
    gradient: str  # its gradient's dtype
    group: int
    shards: int = 1  # devices that its rows are cut for

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def pieces(self) -> int:
        """Results that a reduction leaves of the full parameter, before they are folded."""
        return -(-self.elements // PIECE) * self.shards

    @property
    def rows(self) -> int:
        return 0 if self.elements == 0 else self.shape[0] if len(self.shape) > 1 else 1

    @property
    def columns(self) -> int:
        return 0 if self.elements == 0 else self.elements // self.rows


class Program(NamedTuple):
    """The input of a compiled step, and its declarations."""

    text: str
    weight: Buffer
    gradient: Buffer
    buffers: tuple[Buffer, ...]  # the others
    values: tuple[Value, ...]
    args: dict[str, float | None]  # defaults, by name in the order of their indices
    arg_types: dict[str, str]  # storage types
    native: Any  # _core.Program

    def reductions(self) -> tuple[tuple[str, ...], bool]:
        """Names of those over all elements, and whether there are others for which a device needs whole parameters."""
        types = dict(re.findall(r"^  %(\S+) = .* : (\S+)$", self.text, re.MULTILINE))
        found = [(name, types[name]) for name, operand in re.findall(r"^  %(\S+) = reduce_\w+ %(\S+) : ", self.text, re.MULTILINE)
                 if types[operand].startswith("[")]
        whole = any(type[0] in "<{" and not re.search(r"/\d+>$", type) for _, type in found)
        return tuple(name for name, type in found if type[0] not in "<{"), whole


def name_argument(message: str) -> str:
    """Returns the library's message with its first option as the argument of that name: ".moments: …" or "--store: …" begin with it."""
    return re.sub(r"^(?:--|\.)([a-z_-]+)", lambda found: found[1].replace("-", "_"), message)


@functools.lru_cache(maxsize=256)
def make_program(formula: str, options: tuple[str, ...]) -> Program:
    try:
        made = _core.Program(formula, options)
    except _core.Error as error:
        raise _core.Error(name_argument(str(error))) from None
    declared = made.buffers()
    buffers = {name: Buffer(name, dtype, block, least, below) for name, (_, dtype, block, _, least, below, *_) in declared.items()}
    missing = {"grad", "weight"} - set(buffers)
    if missing:
        raise _core.Error(f"stepfuse.jax: the step has no buffer '{missing.pop()}'; it needs gradients and weights")
    if declared["grad"][3]:
        raise _core.Error("stepfuse.jax: the step writes its gradients, which other operations may read in JAX: leave out 'zero-grad'")
    others = tuple(b for name, b in buffers.items() if name not in ("grad", "weight"))
    values = tuple(Value(name, dtype, granularity) for name, (dtype, granularity, _, _) in made.states().items())
    text = made.text()
    arg_types = dict(re.findall(r"^  arg %(\S+) : [{<]?(\w+)", text, re.MULTILINE))
    return Program(text, buffers["weight"], buffers["grad"], others, values, made.args(), arg_types, made)
