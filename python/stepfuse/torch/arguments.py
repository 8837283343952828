"""Checks the values given to constructors, groups and properties, with messages in Python's terms. Knows torch only."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

NORMS = {1.0: "l1", 2.0: "l2", math.inf: "inf"}
ROUNDINGS = ("nearest", "stochastic", "kahan")
MASTERS = ("f32", "remainder", "ecc24")
COPY_SCALES = {"delayed": "number", "current": "number", "mx": "blocks", "mx-rceil": "blocks",
               "mxfp8": "blocks", "mxfp8-rceil": "blocks", "block128": "squares", "block128-f32": "squares",
               "nvfp4": "fours", "nvfp4-delayed": "fours"}  # and the form of the scales
IN_SQUARES = ("mxfp8", "mxfp8-rceil", "block128", "block128-f32", "nvfp4", "nvfp4-delayed")  # those whose scales belong to squares
ROW_BLOCKS = {"mxfp8": 32, "mxfp8-rceil": 32, "nvfp4": 16, "nvfp4-delayed": 16}  # the length of a row is a multiple of this
ORIENTATIONS, SCALE_LAYOUTS = ("rowwise", "both"), ("rows", "swizzled")
COPY_BLOCK = 32  # elements that share a scale in "blocks"
SEEDS = 1 << 63


def refuse(name: str, value: Any, expected: str) -> None:
    raise ValueError(f"{name}: expected {expected}; got {value!r}")


def count_words(count: int, noun: str) -> str:
    """Returns "1 number" or "3 numbers"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def as_number(value: Any) -> float:
    """Returns the value as a float; NaN if it is not a number."""
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 else math.nan
    return float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan


def check_number(name: str, value: Any, most: float = math.inf) -> None:
    if not 0 <= as_number(value) <= most:
        refuse(name, value, f"a number >= 0{f' and <= {most:g}' if most < math.inf else ''}")


def check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    if value is not None and value not in choices:
        refuse(name, value, f"one of {', '.join(choices)}, or None")


def check_integer(name: str, value: Any, least: int, below: int) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= value < below:
        refuse(name, value, f"an integer {'of 64 bits' if least < 0 else f'>= {least}' if below == SEEDS else f'from {least} to {below - 1}'}")


def choice_for_any_shape(way: str) -> str | None:
    """Returns the value of copy_scale= for a parameter that has no whole blocks: one scale per tensor; for copies in 4 bits, no copy."""
    return None if COPY_SCALES[way] == "fours" else "current"


def check_flag(name: str, value: Any, expected: str = "True or False") -> None:
    if not isinstance(value, bool):
        refuse(name, value, expected)


def check_above_zero(name: str, value: Any, expected: str = "a number > 0") -> None:
    if not as_number(value) > 0:
        refuse(name, value, expected)


def is_number(value: Any) -> bool:
    return value.numel() == 1 if isinstance(value, Tensor) else isinstance(value, numbers.Real)


def check_kind(name: str, value: Any, default: Any) -> None:
    """Checks that a value is a number, or several numbers if the default has several."""
    if isinstance(default, tuple) and any(map(is_number, default)):
        if not isinstance(value, (tuple, list, Tensor)) or len(value) != len(default):
            refuse(name, value, f"a sequence of {count_words(len(default), 'number')}")
        for i, (item, its_default) in enumerate(zip(value, default)):
            if item is not None or its_default is not None:
                check_kind(f"{name}[{i}]", item, 0.0)
    elif is_number(default) and not isinstance(default, bool) and not is_number(value):
        refuse(name, value, "a number")


def check_args(made: Any, group: dict[str, Any], source: Callable[[str], tuple[str, int]]) -> None:
    """Checks a group's numbers for a program's arguments, by the library's rules."""
    for index, name in enumerate(made.args()):
        key, place = source(name)
        if key in group:
            value = group[key] if place < 0 else group[key][place]
            if value is not None and (rule := made.rule_for(index, float(value))) is not None:
                refuse(key if place < 0 else f"{key}[{place}]", value, rule)


def check_factors(key: str, factors: Any, count: int) -> None:
    """Checks that each parameter of a group has a factor for a hyperparameter."""
    if not isinstance(factors, (tuple, list)) or len(factors) != count:
        raise ValueError(f"{key}: expected a sequence of {count_words(count, 'number')}, one per parameter of the group; got {factors!r}; "
                         "set_scale() and move() keep this order")
    for i, factor in enumerate(factors):
        check_number(f"{key}[{i}]", factor)
