"""8-bit parameters as scaled copies of their f32 masters (copy_scale=): what they are to be multiplied by, and how they are made.

With "delayed" and "current" that is one number, state `copy_scale_inv`. Others are state `weight_scale`: a power of two for 32
elements as they lie in memory, as biased exponents in bytes (e8m0), of "mx" and "mx-rceil"; or a number for 128 rows of 128
columns, of "block128" and "block128-f32". These tensors stay the same ones, so that a model may have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import formats
from .arguments import COPY_SCALES, check_choice
from .checks import DTYPES
from .numbers import to_bits
from .scaler import DLPACK
from .tensors import Place, columns_of, is_dense, same_layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from .parts import Part

BLOCK = 32  # elements
SIDE = 128  # rows and columns of a square
ONE = 127  # the exponent of 1
PAST = 15  # steps of which "delayed" remembers the largest weight
NAMES = ("copy_scale", "copy_scale_inv", *(f"amax_{age + 1}" for age in range(PAST)))  # what a step has of them
STATES = ("copy_scale_inv", "weight_scale", "copy_scale", "amax_history")  # what a parameter's state has


def scale_mode(group: dict[str, Any], p: Tensor) -> str | None:
    """How a parameter of that group is scaled."""
    way = group.get("copy_scale") if p.dtype.itemsize == 1 else None
    check_choice("copy_scale", way, COPY_SCALES)
    return way


def scales_name(way: str) -> str:
    return "copy_scale_inv" if COPY_SCALES[way] == "number" else "weight_scale"


def find_scales(state: dict[str, Any]) -> str | None:
    """The name of the scales in a parameter's state."""
    return next((name for name in ("copy_scale_inv", "weight_scale") if state.get(name) is not None), None)


def find_form(state: dict[str, Any]) -> str | None:
    """Which of the forms the scales there have; None where there are none."""
    name = find_scales(state)
    return name and ("number" if name == "copy_scale_inv" else "blocks" if state[name].dtype == torch.uint8 else "squares")


def matrix_shape(p: Tensor) -> tuple[int, int]:
    """Rows and columns as the elements lie in memory: the last dimension is a row, all before it count rows."""
    sizes = list(p.shape)
    if is_dense(p) and not p.is_contiguous():
        sizes = [n for _, n in sorted(((s, n) for s, n in zip(p.stride(), p.shape) if n > 1), reverse=True)]
    columns = sizes.pop() if sizes else 1
    return torch.Size(sizes).numel(), columns


def place_squares(place: Place, way: str | None, p: Tensor, name: str, has_rows: Callable[[], bool]) -> Place:
    """Of a parameter with squares its rows are theirs; `has_rows`: whether the step has values of rows."""
    if way is None or COPY_SCALES[way] != "squares" or p.numel() == 0 or p.ndim < 2:
        return place
    columns = matrix_shape(p)[1]
    if columns != columns_of(p) and has_rows():
        raise TypeError(f"copy_scale={way!r} has blocks of {name} along the dimension that is innermost in memory, the step values of "
                        "slices along its first one: give it a group of its own with copy_scale='current', or with clip_factor=None "
                        "where that is why")
    return place._replace(columns=columns)


def initial_scales(way: str, p: Tensor) -> Tensor:
    """The scales of a plain cast."""
    if COPY_SCALES[way] == "blocks":
        return torch.full((-(-p.numel() // BLOCK),), ONE, dtype=torch.uint8, device=p.device)
    if COPY_SCALES[way] == "number":
        return torch.ones((), device=p.device)
    made = torch.ones([-(-n // SIDE) for n in matrix_shape(p)], device=p.device)
    return made.t() if is_transposed(p) else made


def is_transposed(p: Tensor) -> bool:
    """Of a matrix: then so are its squares."""
    return p.ndim == 2 and is_dense(p) and not p.is_contiguous()


def persistent_scales(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor, way: str) -> Tensor:
    """A parameter's scales, always the same tensor, with the values that its state has of that form, if any."""
    value = state[scales_name(way)] if find_form(state) == COPY_SCALES[way] else None
    mine, start = known.get(p), initial_scales(way, p)
    if value is not None and (value.numel() != start.numel() or start.ndim == 2 and value.shape != start.shape):
        raise ValueError(f"state '{scales_name(way)}' of a parameter of shape {tuple(p.shape)} has "
                         + (f"shape {tuple(value.shape)}, not {tuple(start.shape)}" if start.ndim == 2 else
                            f"{value.numel()} values, not {start.numel()}"))
    if mine is None and value is not None and is_alike(value, start):  # of a copy or a file, which has the model, too
        mine = known[p] = value
    elif mine is None or not is_alike(mine, start):
        mine = known[p] = start
    if value is not None and value is not mine:
        mine.copy_(value.reshape(mine.shape))
    return mine


def current_scales(known: dict[Tensor, Tensor], state: dict[str, Any] | None, p: Tensor, way: str) -> Tensor:
    """A parameter's scales as they are to be: at once where nothing has changed, as at each forward pass."""
    if not state:
        return persistent_scales(known, {}, p, way)
    scales, master = state.get(scales_name(way)), state.get("master")
    if (scales is None or master is None or scales is not known.get(p) or find_form(state) != COPY_SCALES[way]
            or scales.device != p.device or not same_layout(master, p)):
        convert_scales(known, state, p, way)
    return state[scales_name(way)]


def is_alike(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.device == b.device and same_layout(a, b)


def load_scales(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor) -> None:
    """What was loaded into the tensors that a model may have."""
    name = find_scales(state)
    if name is not None and (state[name].shape, state[name].dtype) == (known[p].shape, known[p].dtype):
        state[name] = known[p].copy_(state[name])


def to_visible_scales(scales: Tensor, p: Tensor) -> Tensor:
    """As one sees them: of blocks that lie along rows with the parameter's shape, and in torch's type for such exponents."""
    if scales.dtype != torch.uint8:
        return scales
    if hasattr(torch, "float8_e8m0fnu"):
        scales = scales.view(torch.float8_e8m0fnu)
    along = p.ndim > 0 and p.shape[-1] % BLOCK == 0 and p.is_contiguous()
    return scales.view(*p.shape[:-1], p.shape[-1] // BLOCK) if along else scales


def expand_squares(scales: Tensor, like: Tensor) -> Tensor:
    """For each element of a matrix as it lies in memory, its square's value."""
    rows, columns = matrix_shape(like)
    scales = scales.t() if is_transposed(like) else scales
    return scales.repeat_interleave(SIDE, 0)[:rows].repeat_interleave(SIDE, 1)[:, :columns]


def expand_scales(scales: Tensor, like: Tensor) -> Tensor:
    """For each element, as `like` lies in memory, what its code is multiplied by."""
    if scales.ndim == 0:
        return scales
    if scales.dtype == torch.uint8:
        exponents = scales.int()
        powers = torch.where(exponents == 0, 1 << 22, exponents << 23).view(torch.float32)  # of 0: 2^-127
        each = torch.where(exponents == 255, torch.nan, powers).repeat_interleave(BLOCK)[:like.numel()]
    else:
        each = expand_squares(scales, like).reshape(-1)
    return torch.empty_like(like, dtype=torch.float32).as_strided((like.numel(),), (1,)).copy_(each).as_strided(
        like.shape, like.stride())


def dequantize(state: dict[str, Any], p: Tensor) -> Tensor:
    """What the parameter's copy says that it is, in f32."""
    return multiply_by_scales(p.detach(), state[find_scales(state)])


def multiply_by_scales(p: Tensor, scales: Tensor) -> Tensor:
    dense = p if is_dense(p) else p.contiguous()
    return dense.float() * expand_scales(scales, dense)


class Dequantized(torch.autograd.Function):
    """A parameter times its scales; the gradient of that is the master's."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
        return multiply_by_scales(p, scales).to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad, None, None


def find_largest(values: Tensor) -> Tensor:
    return values.abs().amax() if values.numel() else values.new_zeros(())


def choose_scale(widest: Tensor, dtype: torch.dtype) -> Tensor:
    """What takes the largest value to the type's largest number; 1 where there is no such number, as the step has it."""
    scale = (torch.full_like(widest, torch.finfo(dtype).max) / widest).clamp(max=torch.finfo(torch.float32).max)
    return torch.where(widest.isfinite() & (widest > 0), scale, torch.ones_like(widest))


def dense_like(p: Tensor, device: torch.device | None = None) -> Tensor:
    """An f32 array that lies as the step has the parameter, which without gaps lies as it does."""
    return (torch.empty_like(p, dtype=torch.float32, device=device) if is_dense(p) else
            torch.empty(p.shape, dtype=torch.float32, device=device or p.device))


def quantize_into(state: dict[str, Any], p: Tensor, values: Tensor, way: str) -> Tensor | None:
    """Makes the parameter, and its scales in place, a copy of f32 values with scales of their own; returns what they were multiplied
    by, where that is one number."""
    p, scales = p.detach(), state[scales_name(way)]
    values = dense_like(p).copy_(values)
    if COPY_SCALES[way] == "blocks":
        form = f"mx{DTYPES[p.dtype][2:]}{'_rceil' if way == 'mx-rceil' else ''}"
        made = formats.encode(values, form)
        p.copy_(made[f".{form}.weight"])
        scales.copy_(made[f".{form}.weight_scale"])
        return None
    if COPY_SCALES[way] == "number":
        scale = choose_scale(find_largest(values), p.dtype)
        scales.copy_(1 / scale)
        p.copy_(values * scale)
        return scale
    if p.numel() == 0:
        return None
    rows, columns = matrix_shape(values)
    matrix = values.as_strided((rows, columns), (columns, 1))
    padded = torch.nn.functional.pad(matrix, (0, -columns % SIDE, 0, -rows % SIDE))
    scale = choose_scale(padded.unflatten(0, (-1, SIDE)).unflatten(2, (-1, SIDE)).abs().amax((1, 3)), p.dtype)
    if way == "block128":
        scale = (scale.view(torch.int32) & -(1 << 23)).view(torch.float32)
    scale = scale.t() if is_transposed(values) else scale
    scales.copy_(1 / scale)
    matrix.mul_(expand_squares(scale, values))
    p.copy_(values)
    return None


def start_from(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor, way: str, values: Tensor) -> None:
    """Makes the parameter, its scales and its master these values, and forgets larger ones that have been."""
    for name in STATES:
        state.pop(name, None)
    state[scales_name(way)] = persistent_scales(known, {}, p, way)
    scale = quantize_into(state, p, values, way)
    state["master"] = dense_like(p).copy_(values)
    if way == "delayed":
        state["copy_scale"] = scale.cpu()
        state["amax_history"] = torch.zeros(PAST)
        state["amax_history"][0] = find_largest(values)


def take_writes(state: dict[str, Any], p: Tensor) -> None:
    """Takes into the master what somebody wrote to its scaled copy: each element whose code is not that of its master.

    The step multiplies by a scale of which only the inverse is kept, so that a code of either side of a quotient is its own.
    """
    master, scales = state["master"], state[find_scales(state)]
    weight = p.detach() if is_dense(p) else p.detach().contiguous()
    most = torch.finfo(p.dtype).max
    quotient = master / expand_scales(scales, master)
    near = [(quotient * (1 + side * 2.0**-21)).clamp(-most, most).to(p.dtype).float() for side in (-1, 1)]
    codes = weight.float()
    own = (codes >= torch.minimum(*near)) & (codes <= torch.maximum(*near)) | codes.isnan() & quotient.isnan()
    master.copy_(torch.where(own, master, multiply_by_scales(p.detach(), scales)))


def drop_history(state: dict[str, Any]) -> None:
    for name in ("copy_scale", "amax_history"):
        state.pop(name, None)


def convert_scales(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor, way: str | None) -> None:
    """Makes what a parameter's state has of scales what `way` has; where that was another way, the copy is made anew."""
    found = find_form(state)
    if way is None and found is None:
        return
    made, master = dict(state), state.get("master")  # the state keeps what it has where this refuses
    other = found is not None and (way is None or found != COPY_SCALES[way])
    if found in ("blocks", "squares") and master is not None and not same_layout(master, dense_like(p, torch.device("meta"))):
        other = True  # they lay otherwise
    if other:
        if master is not None and master.numel() != p.numel():
            raise ValueError(f"state 'master' of a parameter of shape {tuple(p.shape)} has shape {tuple(master.shape)}")
        new = (dequantize(state, p) if master is None else master).reshape(p.shape).to(p.device)
        for name in STATES:
            made.pop(name, None)
    if way != "delayed":
        drop_history(made)
    if way is not None:
        made[scales_name(way)] = persistent_scales(known, made, p, way)
    if other:
        p.detach().copy_(new) if way is None else quantize_into(made, p, new, way)
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
        history = torch.stack([s.get("amax_history", torch.zeros(PAST)).cpu().float() for s in mine])
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


def publish_scales(part: Part) -> None:
    """After a step: what its copies are to be multiplied by, where everybody looks for it."""
    if part.shown:
        torch._foreach_copy_(part.shown, part.written)
