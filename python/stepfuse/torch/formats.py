"""How moments are kept: in a storage type, or in a format's parts, arrays of codes and of scales, all named by the library.

Moment exp_avg in a storage type is state `exp_avg`; in format fp8 it is `exp_avg.fp8.code` and `exp_avg.fp8.scale`. Blocks
are of elements as they lie in memory.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .. import _core
from . import parts
from .checks import DTYPES
from .tensors import columns_of, is_dense, same_layout, zeros_like

if TYPE_CHECKING:
    from .tensors import Place

STORED = {**{name: dtype for dtype, name in DTYPES.items()}, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32}


class Buffer(NamedTuple):
    """What a program says of a buffer."""

    source: int  # that it begins as a copy of, or -1
    dtype: str
    block: int  # so many elements share a value
    is_output: bool  # written, and nothing before
    least: int  # elements of a tensor that has it, and
    below: int  # the first count again of one that has not

    def torch_dtype(self) -> torch.dtype:
        if self.dtype not in STORED:
            raise _core.Error(f"this torch has no type for arrays of {self.dtype}; choose another of the optimizer's moments=…")
        return STORED[self.dtype]

    def is_of(self, place: Place) -> bool:
        return self.least <= place.full_size < self.below

    def count(self, weight: Tensor) -> int:
        return -(-weight.numel() // self.block)


def split_name(name: str) -> tuple[str, str]:
    """The moment of an array's name, and its format, which is empty where it has none."""
    moment, _, part = name.partition(".")
    return moment, part.partition(".")[0]


def block_size(name: str) -> int:
    """How many elements share a value of that array."""
    moment, form = split_name(name)
    parts = buffers(form) if form else {}
    part = name.removeprefix(moment)
    return parts[part].block if part in parts else 1


def largest_block(kept: str | None) -> int:
    """How many elements share a value, at most, in a choice of formats. Smaller blocks divide larger ones."""
    forms = {choice.rpartition("=")[2] for choice in re.split("[|,]", kept or "")} - {"", *DTYPES.values()}
    return max((part.block for form in forms for part in buffers(form).values()), default=1)


def fits_rows(kept: str | None, place: Place) -> bool:
    """Whether rows are of whole blocks of a choice of formats, as where rows have values of their own."""
    return place.columns in (0, place.full_size) or place.columns % largest_block(kept) == 0


def fits_shards(kept: str | None, p: Tensor) -> bool:
    """Whether a DTensor's moments have blocks: if its rows are whole blocks, so that no mesh cuts one. Its full shape decides, and
    not where this mesh cuts, so that every mesh has the same state.
    """
    columns = columns_of(p)
    return columns > 0 and columns % largest_block(kept) == 0


def find_arrays(state: dict[str, Any], moment: str) -> list[str]:
    """The names of the arrays that a moment is kept in."""
    return [name for name, value in state.items() if value is not None and split_name(name)[0] == moment]


def pop_arrays(state: dict[str, Any], moment: str) -> dict[str, Any]:
    """Takes them out of the state."""
    return {name: state.pop(name) for name in find_arrays(state, moment)}


@functools.lru_cache(maxsize=64)
def conversion(source: str, target: str) -> Any:
    return _core.conversion(source, target)


def buffers(form: str) -> dict[str, Buffer]:
    """The parts of a format, as of a moment without a name."""
    return {name.removeprefix("to"): Buffer(*b) for name, b in conversion("f32", form).buffers().items() if name != "from"}


def run_conversion(program: Any, arrays: dict[str, Tensor], size: int) -> None:
    """Runs a conversion over arrays of a tensor of `size` elements; the step has only their addresses, so they are checked here."""
    for name, declared in program.buffers().items():
        buffer, array = Buffer(*declared), arrays[name]
        count = -(-size // buffer.block)
        if array.dtype != buffer.torch_dtype() or array.numel() != count or not is_dense(array):
            raise ValueError(f"array '{name}' of a conversion has {array.numel()} values in {array.dtype} with strides {array.stride()}; it "
                             f"needs {count} in {buffer.torch_dtype()} without gaps: convert it before")
    if size == 0:
        return
    device = next(iter(arrays.values())).device
    step = _core.Step(program, [("moment", size, 0, False, 0)], *parts.place(device), None, False, parts.allocator(device))
    for name, array in arrays.items():
        step.bind(name, [array.data_ptr()])
    step.run(None, 0, parts.current_stream(device))


def decode(arrays: dict[str, Tensor], moment: str, form: str, weight: Tensor, label: str) -> Tensor:
    """The values in f32, in the order in memory of the codes."""
    bound, like = {}, weight
    for part, buffer in buffers(form).items():
        array = arrays.get(moment + part)
        if array is None:
            raise ValueError(f"state '{moment}' of {label} has no '{moment + part}': the checkpoint is of another version of "
                             f"format {form}, or was cut")
        if array.dtype != buffer.torch_dtype() or array.numel() != buffer.count(weight):
            raise ValueError(f"state '{moment + part}' of {label} has {array.numel()} values in {array.dtype}; of a parameter of "
                             f"shape {tuple(weight.shape)} format {form} has {buffer.count(weight)} in {buffer.torch_dtype()}")
        array = array if is_dense(array) else array.contiguous()
        bound["from" + part] = array
        if buffer.block == 1 and array.shape == weight.shape:
            like = array
    bound["to"] = torch.empty_like(like, dtype=torch.float32)
    run_conversion(conversion(form, "f32"), bound, weight.numel())
    return bound["to"]


def zeros(form: str, weight: Tensor) -> dict[str, Tensor]:
    """By the names of its parts: parts of zeros are zeros."""
    return {part: (zeros_like(weight, buffer.torch_dtype()) if buffer.block == 1 else
                   torch.zeros(buffer.count(weight), dtype=buffer.torch_dtype(), device=weight.device))
            for part, buffer in buffers(form).items()}


def encode(values: Tensor, form: str) -> dict[str, Tensor]:
    """The parts of any values, which are converted to f32 and laid out without gaps first."""
    values = values.float()
    values = values if is_dense(values) else values.contiguous()
    made = zeros(form, values)
    run_conversion(conversion("f32", form), {"from": values, **{"to" + part: array for part, array in made.items()}}, values.numel())
    return made


def convert(arrays: dict[str, Tensor], moment: str, form: str, weight: Tensor, label: str, initial: float) -> dict[str, Tensor]:
    """The arrays of a moment in a form, laid out as the weight, from those of any form, or from none: its first values.

    What is in the form already keeps its bits, unless the weight's elements lie in another order.
    """
    if form and not arrays and initial == 0:
        return {moment + part: array for part, array in zeros(form, weight).items()}
    made = torch.full_like(weight, initial, dtype=torch.float32)
    if arrays:
        found = split_name(next(iter(arrays)))[1]
        values = decode(arrays, moment, found, weight, label) if found else arrays[moment]
        if found == form and same_layout(values, weight):
            return {name: array.reshape(-1) if block_size(name) > 1 else array for name, array in arrays.items()}
        if values.numel() != weight.numel():
            raise ValueError(f"state '{moment}' of {label} has shape {tuple(values.shape)}, the parameter {tuple(weight.shape)}")
        made.copy_(values.reshape(weight.shape))
    return {moment + part: array for part, array in encode(made, form).items()} if form else {moment: made}
