"""Forms of a state_dict: for pickle, and with all values in f32, as torch.optim's classes need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from . import stored
from .options import KEPT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def picklable(values: dict[str, Any]) -> dict[str, Any]:
    """Returns a parameter's state with float8 codes as bytes, because pickle alone, without torch.save, cannot store float8."""
    return {name: value.view(torch.uint8) if "." in name and is_code(value) else value for name, value in values.items()}


def is_code(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.element_size() == 1


def unpickled(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the inverse of picklable()."""
    made = dict(values)
    for name in [name for name in made if "." in name and getattr(made[name], "dtype", None) == torch.uint8]:
        moment, form = stored.split_name(name)
        if buffer := stored.buffers(form).get(name.removeprefix(moment)):
            made[name] = made[name].view(buffer.torch_dtype())
    return made


def plain(state_dict: dict[str, Any], params: Sequence[Tensor]) -> dict[str, Any]:
    """Returns a state_dict with moments and masters in f32."""
    state = dict(state_dict["state"])
    for index, p in zip((i for g in state_dict["param_groups"] for i in g["params"]), params):
        if index not in state:
            continue
        mine = state[index] = dict(state[index])
        for moment in {stored.split_name(name)[0] for name in mine}:
            if any("." in name for name in stored.find_arrays(mine, moment)) or getattr(mine.get(moment), "dtype", None) == torch.bfloat16:
                mine.update(stored.convert(stored.pop_arrays(mine, moment), moment, "", p, f"parameter {index}", 0.0))
        if (rest := stored.find_rest(mine)) not in (None, "master"):
            mine["master"] = stored.to_f32(mine, p)
            del mine[rest]
        for name in [name for name in stored.STATES if name in mine]:
            del mine[name]
    groups = [{k: v for k, v in g.items() if k not in KEPT} for g in state_dict["param_groups"]]
    return {**state_dict, "state": state, "param_groups": groups}
