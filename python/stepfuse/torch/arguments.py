"""What constructors, groups and properties are given, checked before anything is made of it; in Python's words."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

from torch import Tensor

from .scaler import LossScaler

NORMS = {1.0: "l1", 2.0: "l2", math.inf: "inf"}
ROUNDINGS = ("nearest", "stochastic", "kahan")
MASTERS = ("f32", "remainder", "ecc24")
SEEDS = 1 << 63


def refuse(name: str, value: Any, rule: str) -> None:
    raise ValueError(f"{name}={value!r}: {rule}")


def as_number(value: Any) -> float:
    """NaN where it is none."""
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 else math.nan
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan


def check_number(name: str, value: Any, what: str, least: float = 0.0, most: float = math.inf) -> None:
    if not least <= as_number(value) <= most:
        refuse(name, value, f"{what} is a number from {least:g} {f'to {most:g}' if most < math.inf else 'on'}")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise ValueError(f"{name} is one of {', '.join(choices)}, or None, not {value!r}")


def check_integer(name: str, value: Any, what: str, least: int, below: int) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= value < below:
        refuse(name, value, f"{what} is an integer {'that fits into 64 bits' if least < 0 else f'from {least} on' if below == SEEDS else f'from {least} to {below - 1}'}")


def check_max_norm(value: Any) -> None:
    check_number("max_norm", value, "the norm that gradients are clipped to")


def check_step(max_norm: Any, norm_type: Any, external_norm: Any, scaler: Any) -> None:
    """What all groups share."""
    if max_norm is not None:
        check_max_norm(max_norm)
    if as_number(norm_type) not in NORMS:
        raise ValueError(f"norm_type is 1, 2 or inf, not {norm_type!r}")
    if max_norm is None and as_number(norm_type) != 2.0:
        refuse("norm_type", norm_type, "the norm that is clipped by max_norm=, which is missing: give both or none")
    if not isinstance(external_norm, bool):
        refuse("external_norm", external_norm, "True where step(norm=…) is given the norm, else False")
    if external_norm and max_norm is None:
        raise ValueError("external_norm=True needs max_norm")
    if scaler is not None and not isinstance(scaler, LossScaler):
        refuse("scaler", scaler, "a stepfuse.torch.LossScaler, or None; torch's GradScaler stays outside, around backward() and step()")


def is_number(value: Any) -> bool:
    return value.numel() == 1 if isinstance(value, Tensor) else isinstance(value, numbers.Real)


def check_kind(name: str, value: Any, default: Any) -> None:
    """Checks that a value is a number, or several numbers, if the default is."""
    if isinstance(default, tuple) and any(map(is_number, default)):
        if not isinstance(value, (tuple, list, Tensor)) or len(value) != len(default):
            refuse(name, value, f"it must be a sequence of {len(default)} numbers")
        for i, (item, its_default) in enumerate(zip(value, default)):
            if item is not None or its_default is not None:
                check_kind(f"{name}[{i}]", item, 0.0)
    elif is_number(default) and not isinstance(default, bool) and not is_number(value):
        refuse(name, value, "it must be a number")


def check_args(made: Any, group: dict[str, Any], source: Callable[[str], tuple[str, int]]) -> None:
    """Checks the numbers that a group has for a program's arguments, by the library's rules."""
    for index, name in enumerate(made.args()):
        key, place = source(name)
        if key in group:
            value = group[key] if place < 0 else group[key][place]
            if value is not None and (rule := made.rule_for(index, float(value))) is not None:
                refuse(key if place < 0 else f"{key}[{place}]", value, f"it must be {rule}")


def check_factors(key: str, factors: Any, count: int) -> None:
    """Checks that each parameter of a group has a factor on a hyperparameter."""
    if not isinstance(factors, (tuple, list)) or len(factors) != count:
        refuse(key, factors, f"it must be a sequence of {count} numbers, one per parameter of the group; set_scale() and move() keep it so")
    for i, factor in enumerate(factors):
        check_number(f"{key}[{i}]", factor, "a factor")


def check_group(group: dict[str, Any]) -> None:
    """What a group may have of its own, or has of the constructor's."""
    if "lr" in group:
        check_number("lr", group["lr"], "a learning rate")
    if group.get("ema_decay") is not None:
        check_number("ema_decay", group["ema_decay"], "the decay of an average", most=1.0)
    if group.get("clip_factor") is not None and not as_number(group["clip_factor"]) > 0:
        refuse("clip_factor", group["clip_factor"], "a number above 0, or None for no clipping by weights")
    if "clip_eps" in group and not as_number(group["clip_eps"]) > 0:
        refuse("clip_eps", group["clip_eps"], "a number above 0")
    if "seed" in group:
        check_integer("seed", group["seed"], "a seed", -SEEDS, SEEDS)
    if "moments_min" in group:
        check_integer("moments_min", group["moments_min"], "a count of elements", 0, SEEDS)
    if group.get("moments") is not None and not isinstance(group["moments"], str):
        refuse("moments", group["moments"], "the name of a storage type or of a format, such as 'bf16' or 'fp8', or None")
    check_choice("weight_rounding", group.get("weight_rounding"), ROUNDINGS)
    check_choice("master", group.get("master"), MASTERS)
