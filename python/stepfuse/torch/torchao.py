"""State of torchao's low-bit optimizers from and to this package's. Knows torch; torchao only where its tensors are made.

Its fp8 moments are format fp8 to the bit, those of 8 bits dyn8, or dyn8u where they have no sign.
"""

from __future__ import annotations

from typing import Any

import torch

BLOCK = 256  # elements that share a scale, in all of these


def _form_of(value: Any) -> str | None:
    """The format that a tensor of torchao's is; None where it is none of ours."""
    forms = {"OptimStateFp8": "fp8", "OptimState8bit": "dyn8" if getattr(value, "signed", True) else "dyn8u"}
    return forms.get(type(value).__name__) if value.block_size == BLOCK else None


def _tensor_of(form: str, code: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The tensor of torchao's that a format's parts are, around copies of them: it writes to them."""
    from torchao.optim import subclass_8bit, subclass_fp8

    parts = code.contiguous().clone(), scale.clone()
    if form == "fp8":
        return subclass_fp8.OptimStateFp8(*parts)
    signed = form == "dyn8"
    table = subclass_8bit.get_qmap_signed() if signed else subclass_8bit.get_qmap_unsigned()
    return subclass_8bit.OptimState8bit(*parts, torch.tensor(table, device=code.device), signed)


def unwrapped(state_dict: dict[str, Any]) -> dict[str, Any]:
    """A state_dict whose torchao tensors are this package's arrays; as it is where there are none."""
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
                                f"{value.block_size}, for which there is no format: load it into torchao's optimizer, and save its "
                                "dequantized state")
            made[f"{name}.{form}.code"] = value.codes.view(value.shape)
            made[f"{name}.{form}.scale"] = value.scale
    return {**state_dict, "state": state}


def to_torchao(state_dict: dict[str, Any]) -> dict[str, Any]:
    """A state_dict of moments in fp8 as torchao's AdamWFp8 loads it, of dyn8 and dyn8u as its AdamW8bit does: tensors of its own
    around the same codes and scales.

    torchao keeps parameters of fewer than 4096 elements, or of no whole number of blocks, in f32: so must the optimizer that
    the state is from; others it refuses when it loads.
    """
    state = {}
    for index, values in state_dict["state"].items():
        state[index] = made = {}
        for name, value in values.items():
            moment, _, part = name.partition(".")
            form, _, role = part.partition(".")
            if not part:
                made[name] = value
            elif form not in ("fp8", "dyn8", "dyn8u"):
                raise ValueError(f"state '{name}' of parameter {index} is none of formats fp8, dyn8 and dyn8u, which are torchao's")
            elif role == "code":
                if value.numel() % BLOCK:
                    raise ValueError(f"state '{moment}' of parameter {index} has {value.numel()} elements, of which torchao makes no "
                                     f"whole blocks of {BLOCK}: keep it in f32 by a group of its own with moments='f32'")
                made[moment] = _tensor_of(form, value, values[f"{moment}.{form}.scale"])
    groups = [{k: v for k, v in g.items() if k not in ("moments", "moments_min", "master")} for g in state_dict["param_groups"]]
    return {**state_dict, "state": state, "param_groups": groups}


__all__ = ["to_torchao"]
