"""Converts state of torchao's low-bit optimizers from and to this package's. Knows torch; torchao only to make its tensors.

Its fp8 moments are format fp8 bit for bit. Its 8-bit moments are dyn8, or dyn8u if unsigned, and its 4-bit ones dyn4 and lin4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .arguments import count_words
from .options import KEPT

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCKS = {"fp8": 256, "dyn8": 256, "dyn8u": 256, "dyn4": 128, "lin4": 128}  # elements that share a scale
ROLES = ("code", "first", "second", "scale")


def _form_of(value: Any) -> str | None:
    """Returns the format of a tensor of torchao's; None if the library does not have that format."""
    signed = getattr(value, "signed", True)
    forms = {"OptimStateFp8": "fp8", "OptimState8bit": "dyn8" if signed else "dyn8u", "OptimState4bit": "dyn4" if signed else "lin4"}
    form = forms.get(type(value).__name__)
    return form if form and value.block_size == BLOCKS[form] else None


def _parts_of(form: str, value: Any) -> dict[str, torch.Tensor]:
    """Returns the parts of a format for a tensor of torchao's."""
    if BLOCKS[form] == 256:
        return {"code": value.codes.view(value.shape), "scale": value.scale}
    words = value.codes.view(-1, 2, 4)  # for 16 elements, two times the bytes of 8
    return {**{part: words[:, i].contiguous().view(torch.int32).flatten() for i, part in enumerate(("first", "second"))},
            "scale": value.scale}


def _tensor_of(form: str, parts: dict[str, torch.Tensor], shape: torch.Size) -> torch.Tensor:
    """Returns torchao's tensor for a format's parts. It holds copies, because torchao writes to them."""
    from torchao.optim import subclass_4bit, subclass_8bit, subclass_fp8

    scale, signed = parts["scale"].clone(), form in ("dyn8", "dyn4")
    if form == "fp8":
        return subclass_fp8.OptimStateFp8(parts["code"].contiguous().clone(), scale)
    module = subclass_8bit if form in ("dyn8", "dyn8u") else subclass_4bit
    table = torch.tensor(module.get_qmap_signed() if signed else module.get_qmap_unsigned(), dtype=torch.float32, device=scale.device)
    if module is subclass_8bit:
        return module.OptimState8bit(parts["code"].contiguous().clone(), scale, table, signed)
    codes = torch.stack([parts[part].view(torch.uint8).view(-1, 4) for part in ("first", "second")], 1).flatten()
    return module.OptimState4bit(codes, scale, table, signed, shape)


def unwrapped(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Returns a state_dict with this package's arrays instead of torchao's tensors; unchanged if it has no such tensors."""
    state = {}
    for index, values in state_dict["state"].items():
        state[index] = made = {}
        for name, value in values.items() if isinstance(values, dict) else ():
            if type(value).__module__.partition(".")[0] != "torchao":
                made[name] = value
                continue
            form = _form_of(value)
            if form is None:
                raise TypeError(f"state '{name}' of parameter {index} is torchao's {type(value).__name__} in blocks of "
                                f"{value.block_size}, for which there is no format; load it into torchao's optimizer, and save its "
                                "dequantized state")
            made.update((f"{name}.{form}.{part}", array) for part, array in _parts_of(form, value).items())
    return {**state_dict, "state": state}


def to_torchao(state_dict: dict[str, Any], params: Sequence[torch.Tensor] = ()) -> dict[str, Any]:
    """Returns a state_dict that torchao loads: fp8 moments as AdamWFp8, dyn8 and dyn8u as AdamW8bit, dyn4 and lin4 as AdamW4bit. Its
    tensors have the same codes and scales.

    torchao keeps parameters in f32 that have fewer than 4096 elements or are not a multiple of a block, and so must the optimizer
    with this state; otherwise torchao refuses it. `params` are the parameters, in order; their shapes are needed for 4 bits.
    """
    shapes = dict(zip((i for g in state_dict["param_groups"] for i in g["params"]), (p.shape for p in params)))
    state = {}
    for index, values in state_dict["state"].items():
        state[index] = made = {}
        for name, value in values.items():
            moment, _, part = name.partition(".")
            form, _, role = part.partition(".")
            if not part:
                made[name] = value
            elif form not in BLOCKS:
                raise ValueError(f"state '{name}' of parameter {index} has a format that torchao does not have; torchao has {', '.join(BLOCKS)}")
            elif role == "scale":
                parts = {role: values[f"{moment}.{form}.{role}"] for role in ROLES if f"{moment}.{form}.{role}" in values}
                shape = parts["code"].shape if "code" in parts else shapes.get(index)
                if shape is None:
                    raise ValueError(f"state '{moment}' of parameter {index} has 4 bits, and its shape is unknown; pass the parameters: "
                                     "to_torchao(state_dict, params)")
                if shape.numel() % BLOCKS[form]:
                    raise ValueError(f"state '{moment}' of parameter {index} has {count_words(shape.numel(), 'element')}, but torchao needs a "
                                     f"multiple of its block size {BLOCKS[form]}; keep it in f32 in its own group with moments='f32'")
                made[moment] = _tensor_of(form, parts, shape)
    # Its optimizers need a learning rate that is a tensor.
    groups = [{**{k: v for k, v in g.items() if k not in KEPT}, "lr": torch.as_tensor(g["lr"], dtype=torch.float32, device="cpu")}
              for g in state_dict["param_groups"]]
    return {**state_dict, "state": state, "param_groups": groups}


__all__ = ["to_torchao"]
