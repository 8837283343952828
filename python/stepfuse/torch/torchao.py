"""State of torchao's low-bit optimizers from and to this package's. Knows torch; torchao only where its tensors are made.

Its fp8 moments are format fp8 to the bit.
"""

from __future__ import annotations

from typing import Any

import torch

FORMATS = {"OptimStateFp8": "fp8"}  # torchao's tensor, and the format that it is


def unwrapped(state_dict: dict[str, Any]) -> dict[str, Any]:
    """A state_dict whose torchao tensors are this package's arrays; as it is where there are none."""
    state = {}
    for index, values in state_dict["state"].items():
        state[index] = made = {}
        for name, value in values.items() if isinstance(values, dict) else ():
            if type(value).__module__.partition(".")[0] != "torchao":
                made[name] = value
                continue
            form = FORMATS.get(type(value).__name__)
            if form is None:
                raise TypeError(f"state '{name}' of parameter {index} is torchao's {type(value).__name__}, for which there is no "
                                "format: load it into torchao's optimizer, and save its dequantized state")
            made[f"{name}.{form}.code"] = value.codes.view(value.shape)
            made[f"{name}.{form}.scale"] = value.scale
    return {**state_dict, "state": state}


def to_torchao(state_dict: dict[str, Any]) -> dict[str, Any]:
    """A state_dict of moments in fp8 as torchao's AdamWFp8 loads it: tensors of its own around the same codes and scales.

    torchao keeps parameters of fewer than 4096 elements, or of no whole number of blocks, in f32: so must the optimizer that
    the state is from; others it refuses when it loads.
    """
    from torchao.optim.subclass_fp8 import OptimStateFp8

    state = {}
    for index, values in state_dict["state"].items():
        state[index] = made = {}
        for name, value in values.items():
            moment, _, part = name.partition(".")
            if part == "fp8.code":
                scale = values[f"{moment}.fp8.scale"]
                if value.numel() % 256:
                    raise ValueError(f"state '{moment}' of parameter {index} has {value.numel()} elements, of which torchao makes no "
                                     "whole blocks of 256: keep it in f32 by a group of its own with moments='f32'")
                made[moment] = OptimStateFp8(value.contiguous().clone(), scale.clone())  # it writes to them
            elif not part:
                made[name] = value
            elif not part.startswith("fp8."):
                raise ValueError(f"state '{name}' of parameter {index} is none of format fp8, which is torchao's")
    groups = [{k: v for k, v in g.items() if k not in ("moments", "moments_min")} for g in state_dict["param_groups"]]
    return {**state_dict, "state": state, "param_groups": groups}


__all__ = ["to_torchao"]
