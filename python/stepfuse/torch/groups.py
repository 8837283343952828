"""Keys of a group of parameters in addition to torch's: a factor per parameter on lr or weight_decay.

Groups are torch's dicts, so state_dict() contains these keys. Knows torch only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from .arguments import check_number

SCALES = {"lr": "lr_scales", "weight_decay": "weight_decay_scales"}  # hyperparameter, and the group's key


def scaled(group: dict[str, Any]) -> tuple[str, ...]:
    """Returns the hyperparameters that have a factor per parameter in the group."""
    return tuple(name for name, key in SCALES.items() if key in group)


def names_of(group: dict[str, Any], index: int) -> list[str]:
    """Returns the names of a group's parameters in messages."""
    given = group.get("param_names") or ()
    return [given[i] if i < len(given) else f"parameter {i} of group {index}" for i in range(len(group["params"]))]


def find(groups: list[dict[str, Any]], param: Tensor | str) -> tuple[dict[str, Any], int]:
    """Returns a parameter's group and its index there, given the parameter or its name."""
    for group in groups:
        if isinstance(param, str):
            if param in group.get("param_names", ()):
                return group, group["param_names"].index(param)
        else:
            for i, p in enumerate(group["params"]):
                if p is param:
                    return group, i
    if isinstance(param, str):
        raise KeyError(f"the optimizer has no parameter named {param!r}; it knows names if it was given model.named_parameters()")
    raise ValueError(f"the optimizer does not have this parameter of shape {tuple(param.shape)}")


def set_scales(groups: list[dict[str, Any]], params: Tensor | str | Iterable[Tensor | str], factors: dict[str, float]) -> None:
    for name, factor in factors.items():
        check_number(name, factor)
    for param in [params] if isinstance(params, (Tensor, str)) else list(params):
        group, place = find(groups, param)
        for name, factor in factors.items():
            if name not in SCALES or name not in group:
                raise TypeError(f"set_scale() has no argument {name!r} for this group; it has {' and '.join(n for n in SCALES if n in group)}")
            every = list(group.get(SCALES[name], (1.0,) * len(group["params"])))
            every[place] = float(factor)
            group[SCALES[name]] = tuple(every)


def move(groups: list[dict[str, Any]], param: Tensor | str, target: int) -> None:
    source, place = find(groups, param)
    group = groups[target]
    if source is group:
        return
    if ("param_names" in source) != ("param_names" in group):
        raise ValueError(f"group {target} {'has' if 'param_names' in group else 'has no'} parameter names, unlike the parameter's group; give all groups "
                         "names, or none")
    for key in SCALES.values():
        if key in source or key in group:
            here, there = (list(g.get(key, (1.0,) * len(g["params"]))) for g in (source, group))
            group[key] = (*there, here.pop(place))
            if key in source:
                source[key] = tuple(here)
    for key in ("params", "param_names"):
        if key in source:
            group[key].append(source[key].pop(place))
