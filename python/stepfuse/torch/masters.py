"""What parameters below f32 keep to be f32: the whole numbers as state `master`, or what the parameter lacks of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import copies, formats
from .tensors import is_dense, like_parameter, local, same_layout

FORMS = {"master": "f32", "remainder": "remainder", "correction": "ecc24"}  # by the state's name


def find_name(state: dict[str, Any]) -> str | None:
    """The name of what a parameter's state keeps of it."""
    return next((name for name in FORMS if state.get(name) is not None), None)


def to_f32(state: dict[str, Any], p: Tensor) -> Tensor:
    """The parameter in f32: the master itself, or what it is with what it lacks; of one that keeps nothing, itself."""
    name = find_name(state)
    if name is None or name == "master":
        return state[name] if name else copies.dequantize(state, p) if copies.find_scales(state) else p
    weight = local(p).detach()
    weight = weight if is_dense(weight) else weight.contiguous()
    rest = local(state[name]).to(weight.device)
    if not same_layout(rest, weight):
        rest = torch.empty_like(weight, dtype=rest.dtype).copy_(rest.reshape(weight.shape))
    form = FORMS[name]
    arrays = {f".{form}.weight": weight, f".{form}.{name}": rest}
    return like_parameter(p, formats.decode(arrays, "", form, weight, "a parameter"))


@torch.no_grad()
def store(state: dict[str, Any], p: Tensor, new: Tensor, way: str | None = None) -> None:
    """Makes the parameter and what it keeps these values, which may be what to_f32() gave, changed in place; `way`: its copy_scale."""
    name = find_name(state)
    new = local(new)
    if way is not None:
        copies.quantize_into(state, p, new, way)
        if name is not None and state[name] is not new:
            state[name].copy_(new)
        return
    if name is None or name == "master":
        targets = {"weight": local(p), **({} if name is None else {"master": local(state[name])})}
        made = dict.fromkeys(targets, new)
    else:
        targets = {"weight": local(p), name: local(state[name])}
        form = FORMS[name]
        made = {key.removeprefix(f".{form}."): part for key, part in formats.encode(new, form).items()}
    for key, target in targets.items():
        if made[key] is not target:
            target.copy_(made[key])


@torch.no_grad()
def take_writes(state: dict[str, Any], p: Tensor) -> None:
    """Takes into the master what somebody wrote to the parameter: each element that is not its master rounded."""
    if copies.find_scales(state):
        return copies.take_writes(state, p)
    master, weight = local(state["master"]), local(p).detach()
    bits = torch.int8 if weight.element_size() == 1 else torch.int16
    written = master.to(weight.dtype).view(bits) != weight.view(bits)
    master.copy_(torch.where(written, weight.to(torch.float32), master))


def convert(state: dict[str, Any], name: str, p: Tensor) -> None:
    """Keeps as `name` what the parameter keeps otherwise."""
    new = to_f32(state, p).reshape(p.shape).to(p.device)
    state.pop(find_name(state))
    dtype = torch.float32 if name == "master" else formats.buffers(FORMS[name])[f".{FORMS[name]}.{name}"].torch_dtype()
    state[name] = like_parameter(p, torch.empty_like(local(p), dtype=dtype))
    store(state, p, new)
