"""Converts an optimizer's arrays between stored forms: moments in formats, low-precision weights with their missing bits, scaled 8-bit copies.

A form is a storage type or a format. In a format a buffer is several arrays, its parts: moment exp_avg in fp8 is state
`exp_avg.fp8.code` and `exp_avg.fp8.scale`. A weight's parts are the parameter itself and state of the part's name: `remainder`,
`correction`, `weight_scale`, `copy_scale_inv`; state `master` is the weight in f32. The library's conversions choose scales and
encode. Only the multiplication by scales in a forward pass is done here.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .. import _core
from . import parts, private
from .arguments import COPY_BLOCK, COPY_SCALES, IN_SQUARES, check_choice, choice_for_any_shape, count_words
from .checks import DTYPES
from .numbers import from_bits, to_bits
from .scaler import DLPACK
from .tensors import (
    Position, columns_of, cuts_between_squares, first_element, is_dense, is_distributed, like_parameter, local, matrix_shape, on_host, own_part,
    rows_are_blocks, same_layout, zeros_like,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .parts import Part

STORED = {**{name: dtype for dtype, name in DTYPES.items()}, "u8": torch.uint8, "f8e8m0": torch.uint8,
          "i8": torch.int8, "i16": torch.int16, "i32": torch.int32}
# The missing bits of a weight, by their state's name, and their form. correction16 is FlashOptim's, and is converted
# when a step binds it.
RESTS = {"master": "f32", "remainder": "remainder", "correction": "ecc24", "correction16": "ecc24_i16"}
KAHAN = "kahan"  # the state with what rounding took away, by weight_rounding="kahan"
SIDE = 128  # rows and columns of a copy that share a scale in "squares"
ONE = 127  # the exponent of 1
PAST = 15  # steps whose largest weight "delayed" remembers
NAMES = ("copy_scale", "copy_scale_inv", "copy_amax", *(f"amax_{age + 1}" for age in range(PAST)))  # what a step has of scales
STATES = ("copy_scale_inv", "weight_scale", "copy_scale", "amax_history")  # what a parameter's state has


class Buffer(NamedTuple):
    """A program's declaration of a buffer."""

    source: int  # that it begins as a copy of, or -1
    dtype: str
    block: int  # elements along a row that share a value
    is_output: bool  # written, and nothing before
    least: int  # elements of a tensor that has it, and
    below: int  # the first count again of one that has not
    rows: int  # that share a value

    def torch_dtype(self) -> torch.dtype:
        if self.dtype not in STORED:
            raise _core.Error(f"this version of torch has no dtype for arrays of {self.dtype}; choose a different form in moments=")
        return STORED[self.dtype]

    def exists_for(self, position: Position) -> bool:
        return self.least <= position.full_size < self.below

    def count(self, weight: Tensor) -> int:
        if self.rows == 1:
            return -(-weight.numel() // self.block)
        rows, columns = matrix_shape(weight)
        return -(-rows // self.rows) * -(-columns // self.block) if weight.numel() else 0


# --- forms and their conversions


@functools.lru_cache(maxsize=64)
def conversion(source: str, target: str) -> Any:
    return _core.conversion(source, target)


def buffers(form: str) -> dict[str, Buffer]:
    """The parts of a format, with the names that a moment without a name would give them."""
    return {name.removeprefix("to"): Buffer(*b) for name, b in conversion("f32", form).buffers().items() if name != "from"}


def run_conversion(program: Any, arrays: dict[str, Tensor], weight: Tensor, states: dict[str, float] | None = None) -> dict[str, float]:
    """Runs a conversion over arrays of a tensor like `weight`, and returns the program's states after it, by their last names.

    The step has only addresses, so the arrays are checked here.
    """
    for name, declared in program.buffers().items():
        buffer, array = Buffer(*declared), arrays[name]
        if array.dtype != buffer.torch_dtype() or array.numel() != buffer.count(weight) or not is_dense(array):
            raise ValueError(f"array '{name}' of a conversion: expected {count_words(buffer.count(weight), 'value')} in {buffer.torch_dtype()} without "
                             f"gaps; got {array.numel()} in {array.dtype} with strides {array.stride()}")
    kept = {name: from_bits(bits, dtype) for name, (dtype, _, _, bits) in program.states().items()}
    if weight.numel() > 0:
        device, size = next(iter(arrays.values())).device, weight.numel()
        layout = [("array", size, 0, False, 0, 0, size, matrix_shape(weight)[1])]
        step = _core.Step(program, layout, *parts.core_device(device), None, False, parts.allocator(device))
        for name, array in arrays.items():
            step.bind(name, [array.data_ptr()])
        if program.states():
            step.adopt_state()
        for name, (dtype, *_) in program.states().items():
            if (value := (states or {}).get(name.rpartition(".")[2])) is not None:
                step.write_state(name, [to_bits(value, dtype)])
        step.run(None, 0, parts.current_stream(device))
        kept = {name: from_bits(step.read_state(name)[0], dtype) for name, (dtype, *_) in program.states().items()}
    return {name.rpartition(".")[2]: value for name, value in kept.items()}


def decode(arrays: dict[str, Tensor], moment: str, form: str, weight: Tensor, label: str) -> Tensor:
    """The values in f32, in the order in memory of the codes."""
    bound, like = {}, weight
    for part, buffer in buffers(form).items():
        array = arrays.get(moment + part)
        if array is None:
            raise ValueError(f"state '{moment}' of {label} has no '{moment + part}'; the checkpoint is incomplete, or has a different version of "
                             f"format {form}")
        if array.dtype != buffer.torch_dtype() or array.numel() != buffer.count(weight):
            raise ValueError(f"state '{moment + part}' of {label} has {count_words(array.numel(), 'value')} in {array.dtype}; for a parameter of "
                             f"shape {tuple(weight.shape)} format {form} has {buffer.count(weight)} in {buffer.torch_dtype()}")
        array = array if is_dense(array) else array.contiguous()
        bound["from" + part] = array
        if buffer.block == 1 and array.shape == weight.shape:
            like = array
    bound["to"] = torch.empty_like(like, dtype=torch.float32)
    run_conversion(conversion(form, "f32"), bound, weight)
    return bound["to"]


def zeros(form: str, weight: Tensor) -> dict[str, Tensor]:
    """By the names of its parts: parts of zeros are zeros."""
    return {part: (zeros_like(weight, buffer.torch_dtype()) if buffer.block == 1 else
                   torch.zeros(buffer.count(weight), dtype=buffer.torch_dtype(), device=weight.device))
            for part, buffer in buffers(form).items()}


def encode(values: Tensor, form: str) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Parts and states of any values, which are converted to f32 and laid out without gaps first."""
    values = values.float()
    values = values if is_dense(values) else values.contiguous()
    made = zeros(form, values)
    states = run_conversion(conversion("f32", form), {"from": values, **{"to" + part: array for part, array in made.items()}}, values)
    return made, states


# --- moments


def split_name(name: str) -> tuple[str, str]:
    """The moment of an array's name, and its format, which is empty where it has none."""
    moment, _, part = name.partition(".")
    return moment, part.partition(".")[0]


def block_size(name: str) -> int:
    """Returns how many elements share a value of that array."""
    moment, form = split_name(name)
    buffer = buffers(form).get(name.removeprefix(moment)) if form else None
    return buffer.block if buffer else 1


def largest_block(moments: str | None) -> int:
    """Returns the size of the largest block in a choice of formats. Smaller blocks divide larger ones."""
    forms = {choice.rpartition("=")[2] for choice in re.split("[|,]", moments or "")} - {"", *DTYPES.values()}
    return max((part.block for form in forms for part in buffers(form).values()), default=1)


def fits_rows(moments: str | None, position: Position) -> bool:
    """Returns whether rows consist of whole blocks of a choice of formats, as steps with per-row values need."""
    return position.columns in (0, position.full_size) or position.columns % largest_block(moments) == 0


def fits_shards(moments: str | None, p: Tensor) -> bool:
    """Returns whether a DTensor's moments are in blocks. Its rows must consist of whole blocks, so that no mesh cuts one. Its full
    shape decides, and not this mesh, so that every mesh has the same state.
    """
    return rows_are_blocks(p, largest_block(moments))


def find_arrays(state: dict[str, Any], moment: str) -> list[str]:
    """Returns the names of the arrays that store a moment."""
    return [name for name, value in state.items() if value is not None and split_name(name)[0] == moment]


def pop_arrays(state: dict[str, Any], moment: str) -> dict[str, Any]:
    """Removes a moment's arrays from the state and returns them."""
    return {name: state.pop(name) for name in find_arrays(state, moment)}


def convert(arrays: dict[str, Tensor], moment: str, form: str, weight: Tensor, label: str, initial: float) -> dict[str, Tensor]:
    """The arrays of a moment in a form, laid out as the weight, from those of any form, or from none: its first values.

    Values that are in the form already keep their bits, unless the weight's elements are in a different order in memory.
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
            raise ValueError(f"state '{moment}' of {label} has shape {tuple(values.shape)}, but the parameter has {tuple(weight.shape)}")
        made.copy_(values.reshape(weight.shape))
    return {moment + part: array for part, array in encode(made, form)[0].items()} if form else {moment: made}


# --- weights below f32


def find_rest(state: dict[str, Any]) -> str | None:
    """The name of the state that has a parameter's missing bits."""
    return next((name for name in RESTS if state.get(name) is not None), None)


def to_f32(state: dict[str, Any], p: Tensor) -> Tensor:
    """The parameter in f32: the master itself, or the parameter with its missing bits; without these, the parameter."""
    name = find_rest(state)
    if name is None or name == "master":
        return state[name] if name else dequantize(state, p) if find_scales(state) else p
    weight = local(p).detach()
    weight = weight if is_dense(weight) else weight.contiguous()
    rest = local(state[name]).to(weight.device)
    if not same_layout(rest, weight):
        rest = torch.empty_like(weight, dtype=rest.dtype).copy_(rest.reshape(weight.shape))
    form = RESTS[name]
    arrays = dict(zip(buffers(form), (weight, rest)))
    return like_parameter(p, decode(arrays, "", form, weight, "a parameter"))


@torch.no_grad()
def store(state: dict[str, Any], p: Tensor, new: Tensor, mode: str | None = None) -> None:
    """Makes the parameter and what it keeps these values, which may be what to_f32() gave, changed in place; `mode`: its copy_scale.

    Of a scaled DTensor, call it on all ranks: scales may follow from values of all of them.
    """
    name = find_rest(state)
    if mode is not None:
        quantize_into(state, p, new, mode)
        if name is not None and state[name] is not new:
            local(state[name]).copy_(local(new))
        return
    new = local(new)
    targets = {"weight": local(p), **({} if name is None else {name: local(state[name])})}
    made = dict.fromkeys(targets, new) if name in (None, "master") else {
        part.rpartition(".")[2]: array for part, array in encode(new, RESTS[name])[0].items()}
    for key, target in targets.items():
        if made[key] is not target:
            target.copy_(made[key])
            if name is None and p.dtype.itemsize < 4 and state.get(KAHAN) is not None:  # it belongs to the old values
                local(state[KAHAN]).copy_(torch.empty_like(target, dtype=torch.float32).copy_(new) - target)


def convert_rest(state: dict[str, Any], name: str, p: Tensor) -> None:
    """Keeps as `name` what the parameter keeps otherwise."""
    new = to_f32(state, p).reshape(p.shape).to(p.device)
    state.pop(find_rest(state))
    dtype = torch.float32 if name == "master" else buffers(RESTS[name])[f".{RESTS[name]}.{name}"].torch_dtype()
    state[name] = like_parameter(p, torch.empty_like(local(p), dtype=dtype))
    store(state, p, new)


@torch.no_grad()
def take_writes(state: dict[str, Any], p: Tensor) -> None:
    """Takes into the master what somebody wrote to the parameter: each element that is not its master rounded.

    A scaled step multiplies by a scale and keeps only the inverse, so a code of either side of a quotient is its own.
    """
    master, weight = local(state["master"]), local(p).detach()
    if find_scales(state):
        weight = weight if is_dense(weight) else weight.contiguous()
        most = torch.finfo(p.dtype).max
        scales = state[find_scales(state)]
        quotient = master / (factors_of(p, scales) if is_distributed(p) else expand_scales(scales, master))
        near = [(quotient * (1 + side * 2.0**-21)).clamp(-most, most).to(p.dtype).float() for side in (-1, 1)]
        codes = weight.float()
        own = (codes >= torch.minimum(*near)) & (codes <= torch.maximum(*near)) | codes.isnan() & quotient.isnan()
        master.copy_(torch.where(own, master, local(dequantize(state, p))))
        return
    bits = torch.int8 if weight.element_size() == 1 else torch.int16
    written = master.to(weight.dtype).view(bits) != weight.view(bits)
    master.copy_(torch.where(written, weight.to(torch.float32), master))


# --- scaled 8-bit copies


def scale_mode(group: dict[str, Any], p: Tensor) -> str | None:
    """Returns the value of copy_scale= that applies to a parameter of that group."""
    mode = group.get("copy_scale") if p.dtype.itemsize == 1 else None
    check_choice("copy_scale", mode, COPY_SCALES)
    return mode


def scales_name(mode: str) -> str:
    return "copy_scale_inv" if COPY_SCALES[mode] == "number" else "weight_scale"


def find_scales(state: dict[str, Any]) -> str | None:
    """Returns the name of the scales in a parameter's state."""
    return next((name for name in ("copy_scale_inv", "weight_scale") if state.get(name) is not None), None)


def find_form(state: dict[str, Any]) -> str | None:
    """Returns the form of the scales in a parameter's state; None without scales."""
    name = find_scales(state)
    return name and ("number" if name == "copy_scale_inv" else "blocks" if state[name].dtype == torch.uint8 else "squares")


def has_own_scales(p: Tensor, mode: str) -> bool:
    """Whether shards of a DTensor have their own scales: those of 32 elements, if each row is whole blocks. Otherwise all ranks
    have the whole parameter's scales.
    """
    return is_distributed(p) and COPY_SCALES[mode] == "blocks" and rows_are_blocks(p, COPY_BLOCK)


def with_matrix_columns(position: Position, mode: str | None, p: Tensor, name: str, has_rows: Callable[[], bool]) -> Position:
    """Returns the position with the row length that squares count by. `has_rows` tells whether the step has per-row values."""
    if mode not in IN_SQUARES or p.numel() == 0 or p.ndim < 2:
        return position
    columns = matrix_shape(p)[1]
    if columns != columns_of(p) and has_rows():
        raise TypeError(f"copy_scale={mode!r} has blocks of {name} along the dimension that is innermost in memory, but the step has values of "
                        f"slices along the first dimension; give it its own group with copy_scale={choice_for_any_shape(mode)!r}, or leave out "
                        "clip_factor= if that is the reason")
    return position._replace(columns=columns)


def is_transposed(p: Tensor) -> bool:
    """Returns whether a matrix is stored by columns. Its squares are then transposed, too."""
    return p.ndim == 2 and not is_distributed(p) and is_dense(p) and not p.is_contiguous()


def shape_scales(scales: Tensor, p: Tensor) -> Tensor:
    """Returns scales in the shape that a state has: scales of squares are a matrix, transposed if the parameter is."""
    if scales.dtype == torch.uint8:
        return scales
    scales = scales.reshape([-(-n // SIDE) for n in matrix_shape(p)])
    return scales.t() if is_transposed(p) else scales


def initial_scales(mode: str, p: Tensor) -> Tensor:
    """Returns the scales of a plain cast."""
    if COPY_SCALES[mode] == "blocks":
        is_own = has_own_scales(p, mode)
        made = torch.full((-(-(local(p) if is_own else p).numel() // COPY_BLOCK),), ONE, dtype=torch.uint8, device=p.device)
        return like_parameter(p, made, COPY_BLOCK) if is_own else made
    if COPY_SCALES[mode] == "number":
        return torch.ones((), dtype=torch.float32, device=p.device)
    return shape_scales(torch.ones([-(-n // SIDE) for n in matrix_shape(p)], dtype=torch.float32, device=p.device), p)


def is_alike(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.device == b.device and is_distributed(a) == is_distributed(b) and same_layout(a, b)


def persistent_scales(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor, mode: str) -> Tensor:
    """A parameter's scales, always the same tensor, with the values that its state has of that form, if any."""
    value = state[scales_name(mode)] if find_form(state) == COPY_SCALES[mode] else None
    mine, start = known.get(p), initial_scales(mode, p)
    if value is not None and (value.numel() != start.numel() or start.ndim == 2 and value.shape != start.shape):
        raise ValueError(f"state '{scales_name(mode)}' of a parameter of shape {tuple(p.shape)} has "
                         + (f"shape {tuple(value.shape)}, not {tuple(start.shape)}" if start.ndim == 2 else
                            f"{count_words(value.numel(), 'value')}, not {start.numel()}"))
    if mine is None and value is not None and is_alike(value, start):  # of a copy or a file, which has the model, too
        mine = known[p] = value
    elif mine is None or not is_alike(mine, start):
        mine = known[p] = start
    if value is not None and value is not mine:
        local(mine).copy_(own_scales(p, value, mode).reshape(local(mine).shape))
    return mine


def own_scales(p: Tensor, scales: Tensor, mode: str) -> Tensor:
    """Returns this rank's part of scales, also of a whole parameter's scales if shards have their own."""
    if is_distributed(scales) or not has_own_scales(p, mode):
        return local(scales)
    begin = (first_element(p) or 0) // COPY_BLOCK
    return scales.reshape(-1)[begin:begin + local(p).numel() // COPY_BLOCK]


def current_scales(known: dict[Tensor, Tensor], state: dict[str, Any] | None, p: Tensor, mode: str) -> Tensor:
    """A parameter's scales as they are to be: at once where nothing has changed, as at each forward pass."""
    if not state:
        return persistent_scales(known, {}, p, mode)
    scales, master = state.get(scales_name(mode)), state.get("master")
    if (scales is None or master is None or scales is not known.get(p) or find_form(state) != COPY_SCALES[mode]
            or scales.device != p.device or not same_layout(master, p)):
        convert_scales(known, state, p, mode)
    return state[scales_name(mode)]


def load_scales(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor) -> None:
    """Copies loaded scales into the tensors that a model may hold."""
    name = find_scales(state)
    if name is not None and (state[name].shape, state[name].dtype) == (known[p].shape, known[p].dtype):
        local(known[p]).copy_(local(state[name]))
        state[name] = known[p]


def to_visible_scales(scales: Tensor, p: Tensor) -> Tensor:
    """Returns scales as users see them: those of blocks along rows in the parameter's shape, and in torch's dtype for exponents."""
    if scales.dtype != torch.uint8:
        return scales
    if is_distributed(scales):
        mine = local(scales).view(getattr(torch, "float8_e8m0fnu", torch.uint8))
        return type(p.data).from_local(mine, p.device_mesh, p.placements, run_check=False, shape=scales.shape, stride=scales.stride())
    if hasattr(torch, "float8_e8m0fnu"):
        scales = scales.view(torch.float8_e8m0fnu)
    along = p.ndim > 0 and p.shape[-1] % COPY_BLOCK == 0 and p.is_contiguous()
    return scales.view(*p.shape[:-1], p.shape[-1] // COPY_BLOCK) if along else scales


def expand_scales(scales: Tensor, like: Tensor) -> Tensor:
    """Returns the factor of each element's code, in the memory layout of `like`."""
    if scales.ndim == 0:
        return scales
    if scales.dtype == torch.uint8:
        exponents = scales.int()
        powers = torch.where(exponents == 0, 1 << 22, exponents << 23).view(torch.float32)  # exponent 0 is 2^-127
        each = torch.where(exponents == 255, torch.nan, powers).repeat_interleave(COPY_BLOCK)[:like.numel()]
    else:
        rows, columns = matrix_shape(like)
        scales = scales.t() if is_transposed(like) else scales
        each = scales.repeat_interleave(SIDE, 0)[:rows].repeat_interleave(SIDE, 1)[:, :columns].reshape(-1)
    return torch.empty_like(like, dtype=torch.float32).as_strided((like.numel(),), (1,)).copy_(each).as_strided(
        like.shape, like.stride())


def factors_of(p: Tensor, scales: Tensor) -> Tensor:
    """Returns the factor of each element of a parameter without gaps, or of this rank's elements of a DTensor."""
    if not is_distributed(p) or scales.ndim == 0:
        return expand_scales(scales, p)
    if is_distributed(scales):
        return expand_scales(local(scales).reshape(-1), local(p))
    return own_part(p, expand_scales(scales, torch.empty(p.shape, dtype=p.dtype, device=p.device)))


def multiply_by_scales(p: Tensor, scales: Tensor) -> Tensor:
    dense = p if is_distributed(p) or is_dense(p) else p.contiguous()
    return like_parameter(dense, local(dense).float() * factors_of(dense, scales))


def dequantize(state: dict[str, Any], p: Tensor) -> Tensor:
    """Returns the value of a parameter's scaled copy, in f32."""
    return multiply_by_scales(p.detach(), state[find_scales(state)])


class Dequantized(torch.autograd.Function):
    """A parameter times its scales; the gradient of that is the master's."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
        return multiply_by_scales(p, scales).to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad, None, None


def dense_like(p: Tensor, device: torch.device | None = None) -> Tensor:
    """An f32 array that lies as the step has the parameter, which without gaps lies as it does."""
    return (torch.empty_like(p, dtype=torch.float32, device=device) if is_dense(p) else
            torch.empty(p.shape, dtype=torch.float32, device=device or p.device))


def quantize_into(state: dict[str, Any], p: Tensor, values: Tensor, mode: str) -> dict[str, float]:
    """Makes the parameter, and its scales in place, a copy of f32 values with scales of their own; returns the form's other states.

    Of a DTensor each rank gathers the values, unless its scales follow from its own values: call it on all ranks.
    """
    p, form = p.detach(), f"{mode}_{DTYPES[p.dtype]}".replace("-", "_")
    follows_alone = has_own_scales(p, mode) and (mode not in IN_SQUARES or cuts_between_squares(p, COPY_BLOCK))
    if follows_alone:
        values = own_values(p, values)
    elif is_distributed(p):
        values = (values.full_tensor() if is_distributed(values) else values).float().contiguous()
    else:
        values = dense_like(p).copy_(values)
    made, states = encode(values, form)
    codes, scales = made[f".{form}.weight"], made.get(f".{form}.weight_scale")
    local(p).copy_(own_part(p, codes) if is_distributed(p) and not follows_alone else codes)
    kept = local(state[scales_name(mode)])
    if scales is not None and not follows_alone:
        scales = own_scales(p, scales, mode)
    kept.copy_(on_host(states["copy_scale_inv"]) if scales is None else shape_scales(scales, values).reshape(kept.shape))
    return states


def own_values(p: Tensor, values: Tensor) -> Tensor:
    """Returns this rank's f32 elements of a DTensor, from values that may be those of the whole parameter."""
    return (local(values) if is_distributed(values) else own_part(p, values)).to(local(p).device, torch.float32).contiguous()


def start_from(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor, mode: str, values: Tensor) -> None:
    """Makes the parameter, its scales and its master these values, and forgets larger ones that have been."""
    for name in STATES:
        state.pop(name, None)
    state[scales_name(mode)] = persistent_scales(known, {}, p, mode)
    states = quantize_into(state, p, values, mode)
    state["master"] = like_parameter(p, own_values(p, values).clone()) if is_distributed(p) else dense_like(p).copy_(values)
    if mode == "delayed":
        state["copy_scale"] = on_host(states["copy_scale"])
        state["amax_history"] = on_host([0.0] * PAST)
        state["amax_history"][0] = states["amax_1"]


def convert_scales(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor, mode: str | None) -> None:
    """Makes what a parameter's state has of scales what `mode` has; if the state had another form, the copy is made again."""
    found = find_form(state)
    if mode is None and found is None:
        return
    made, master = dict(state), state.get("master")  # the state keeps what it has where this refuses
    other = found is not None and (mode is None or found != COPY_SCALES[mode])
    if (found in ("blocks", "squares") and master is not None and not is_distributed(p)
            and not same_layout(master, dense_like(p, torch.device("meta")))):
        other = True  # they lay otherwise
    if other:
        if master is not None and master.numel() != p.numel():
            raise ValueError(f"state 'master' of a parameter of shape {tuple(p.shape)} has shape {tuple(master.shape)}")
        new = dequantize(state, p) if master is None else master
        new = new if is_distributed(new) else new.reshape(p.shape).to(p.device)
    for name in STATES if other else ("copy_scale", "amax_history") if mode != "delayed" else ():
        made.pop(name, None)
    if mode is not None:
        made[scales_name(mode)] = persistent_scales(known, made, p, mode)
    if other:
        local(p).detach().copy_(local(new)) if mode is None else quantize_into(made, p, new, mode)
    state.clear()
    state.update(made)


def bind_scales(part: Part, state: dict[Tensor, dict[str, Any]]) -> None:
    """Gives a step what the parameters' state has of their scales; where the step writes them, publish_scales() takes them."""
    part.shown = part.written = []
    if "copy_scale_inv" not in part.states:
        return
    mine = [state[p] for p in part.params]
    inverses = [s["copy_scale_inv"] for s in mine]
    now = {"copy_scale_inv": torch.stack(inverses).cpu()}
    if "copy_scale" in part.states:
        scales = now["copy_scale"] = torch.stack([s.get("copy_scale", 1 / s["copy_scale_inv"]).cpu().float() for s in mine])
        history = torch.stack([s.get("amax_history", on_host([0.0] * PAST)).cpu().float() for s in mine])
        now.update((f"amax_{age + 1}", history[:, age]) for age in range(PAST))
        for s, scale, past in zip(mine, scales, history):
            s.update(copy_scale=scale, amax_history=past)
    for name, numbers in now.items():
        part.step.write_state(name, [to_bits(x, "f32") for x in numbers.tolist()])
        if name != "copy_scale_inv":
            part.kept[name] = numbers
    part.shown = inverses
    part.written = list(torch.utils.dlpack.from_dlpack(
        part.step.numbers("copy_scale_inv", DLPACK[part.device.type], part.device.index or 0)).unbind())


def shared_numbers(part: Part) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yields each parameter that one rank has whole while it steps, with a number of its step and the number that all ranks keep."""
    steps = {name: list(torch.utils.dlpack.from_dlpack(part.step.numbers(name, DLPACK[part.device.type], part.device.index or 0)).unbind())
             for name in NAMES if name in part.states and name != "copy_scale_inv"} if any(part.gathered) else {}
    for slot, (p, is_gathered) in enumerate(zip(part.params, part.gathered)):
        if is_gathered and part.shown:
            yield p, part.written[slot], part.shown[slot]
            for numbers in steps.values():
                yield p, numbers[slot], numbers[slot]


def publish_scales(part: Part) -> None:
    """After a step: what its copies are to be multiplied by, where everybody looks for it."""
    if part.shown:
        private.copy_all(part.shown, part.written)
