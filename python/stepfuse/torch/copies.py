"""8-bit parameters as scaled copies of their f32 masters (copy_scale=): what they are to be multiplied by, and how they are made.

With "delayed" and "current" that is one number, state `copy_scale_inv`, with "mx" a power of two for 32 elements as they lie in
memory, state `weight_scale`, as biased exponents in bytes (e8m0). These tensors stay the same ones, so that a model may have them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import formats
from .checks import DTYPES
from .numbers import to_bits
from .scaler import DLPACK
from .tensors import is_dense, same_layout

if TYPE_CHECKING:
    from .parts import Part

BLOCK = 32  # elements, of "mx"
ONE = 127  # the exponent of 1
PAST = 15  # steps of which "delayed" remembers the largest weight
NAMES = ("copy_scale", "copy_scale_inv", *(f"amax_{age + 1}" for age in range(PAST)))  # what a step has of them
STATES = ("copy_scale_inv", "weight_scale", "copy_scale", "amax_history")  # what a parameter's state has


def how(group: dict[str, Any], p: Tensor) -> str | None:
    """How a parameter of that group is scaled."""
    return group.get("copy_scale") if p.dtype.itemsize == 1 else None


def name_of(way: str) -> str:
    return "weight_scale" if way == "mx" else "copy_scale_inv"


def find(state: dict[str, Any]) -> str | None:
    """The name of the scales in a parameter's state."""
    return next((name for name in ("copy_scale_inv", "weight_scale") if state.get(name) is not None), None)


def first(way: str, p: Tensor) -> Tensor:
    """The scales of a plain cast."""
    if way == "mx":
        return torch.full((-(-p.numel() // BLOCK),), ONE, dtype=torch.uint8, device=p.device)
    return torch.ones((), device=p.device)


def live(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor, way: str) -> Tensor:
    """A parameter's scales, always the same tensor, with the values that its state has, if any."""
    value, mine = state.get(name_of(way)), known.get(p)
    start = first(way, p)
    if value is not None and value.numel() != start.numel():
        raise ValueError(f"state '{name_of(way)}' of a parameter of shape {tuple(p.shape)} has {value.numel()} values, not {start.numel()}")
    if mine is None or (mine.shape, mine.dtype, mine.device) != (start.shape, start.dtype, start.device):
        mine = known[p] = start
    if value is not None and value is not mine:
        mine.copy_(value.reshape(mine.shape))
    return mine


def take_over(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor) -> None:
    """What was loaded into the tensors that a model may have."""
    name = find(state)
    if name is not None and state[name].shape == known[p].shape:
        state[name] = known[p].copy_(state[name])


def shaped(scales: Tensor, p: Tensor) -> Tensor:
    """As one sees them: of blocks that lie along rows with the parameter's shape, and in torch's type for such exponents."""
    if scales.dtype == torch.uint8 and hasattr(torch, "float8_e8m0fnu"):
        scales = scales.view(torch.float8_e8m0fnu)
    along = scales.ndim > 0 and p.ndim > 0 and p.shape[-1] % BLOCK == 0 and p.is_contiguous()
    return scales.view(*p.shape[:-1], p.shape[-1] // BLOCK) if along else scales


def factors(scales: Tensor, like: Tensor) -> Tensor:
    """For each element, as `like` lies in memory, what its code is multiplied by."""
    if scales.ndim == 0:
        return scales
    exponents = scales.int()
    powers = torch.where(exponents == 0, 1 << 22, exponents << 23).view(torch.float32)  # of 0: 2^-127
    powers = torch.where(exponents == 255, torch.nan, powers).repeat_interleave(BLOCK)[:like.numel()]
    return torch.empty_like(like, dtype=torch.float32).as_strided((like.numel(),), (1,)).copy_(powers).as_strided(
        like.shape, like.stride())


def values(state: dict[str, Any], p: Tensor) -> Tensor:
    """What the parameter's copy says that it is, in f32."""
    return times(p.detach(), state[find(state)])


def times(p: Tensor, scales: Tensor) -> Tensor:
    dense = p if is_dense(p) else p.contiguous()
    return dense.float() * factors(scales, dense)


class Dequantized(torch.autograd.Function):
    """A parameter times its scales; the gradient of that is the master's."""

    @staticmethod
    def forward(ctx: Any, p: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
        return times(p, scales).to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return grad, None, None


def largest(values: Tensor) -> Tensor:
    return values.abs().amax() if values.numel() else values.new_zeros(())


def scale_for(widest: Tensor, dtype: torch.dtype) -> Tensor:
    """What takes the largest value to the type's largest number; 1 where there is no such number, as the step has it."""
    scale = (torch.full_like(widest, torch.finfo(dtype).max) / widest).clamp(max=torch.finfo(torch.float32).max)
    return torch.where(widest.isfinite() & (widest > 0), scale, torch.ones_like(widest))


def show(state: dict[str, Any], p: Tensor, values: Tensor) -> Tensor | None:
    """Makes the parameter, and its scales in place, a copy of f32 values with scales of their own; returns what they were multiplied by."""
    p, scales = p.detach(), state[find(state)]
    values = torch.empty_like(p, dtype=torch.float32).copy_(values)
    if scales.ndim == 0:
        scale = scale_for(largest(values), p.dtype)
        scales.copy_(1 / scale)
        p.copy_(values * scale)
        return scale
    dense = values if is_dense(values) else values.contiguous()
    form = f"mx{DTYPES[p.dtype][2:]}"
    made = formats.encode(dense, form)
    p.copy_(made[f".{form}.weight"])
    scales.copy_(made[f".{form}.weight_scale"])
    return None


def begin(state: dict[str, Any], p: Tensor, way: str, values: Tensor) -> None:
    """Makes the parameter, its scales and its master these values, and forgets larger ones that have been."""
    scale = show(state, p, values)
    state["master"] = torch.empty_like(p, dtype=torch.float32).copy_(values)
    forget(state)
    if way == "delayed":
        state["copy_scale"] = scale.cpu()
        state["amax_history"] = torch.zeros(PAST)
        state["amax_history"][0] = largest(values)


def forget(state: dict[str, Any]) -> None:
    for name in ("copy_scale", "amax_history"):
        state.pop(name, None)


def adopt(known: dict[Tensor, Tensor], state: dict[str, Any], p: Tensor, way: str | None) -> None:
    """Makes what a parameter's state has of scales what `way` has; where that was another way, the copy is made anew."""
    found = find(state)
    if way is None and found is None:
        return
    master = state.get("master")
    other = found is not None and (way is None or found != name_of(way))
    if found == "weight_scale" and master is not None and not same_layout(master, torch.empty_like(p, device="meta")):
        other = True  # its blocks lay otherwise
    if other:
        new = (values(state, p) if master is None else master).reshape(p.shape).to(p.device)
        for name in STATES:
            state.pop(name, None)
    if way != "delayed":
        forget(state)
    if way is not None:
        state[name_of(way)] = live(known, state, p, way)
    if other:
        p.detach().copy_(new) if way is None else show(state, p, new)


def bind(part: Part, state: dict[Tensor, dict[str, Any]]) -> None:
    """Gives a step what the parameters' state has of their scales; where the step writes them, publish() takes them."""
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


def publish(part: Part) -> None:
    """After a step: what its copies are to be multiplied by, where everybody looks for it."""
    if part.shown:
        torch._foreach_copy_(part.shown, part.written)
