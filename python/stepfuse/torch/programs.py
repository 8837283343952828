"""Compiled steps' programs by recipe and options, each made once; knows the C library's programs."""

from __future__ import annotations

import functools
from typing import Any

from .. import _core

_programs: dict[tuple[str, tuple[str, ...]], Any] = {}


def program(recipe: str, options: tuple[str, ...]) -> Any:
    key = (recipe, options)
    if key not in _programs:
        _programs[key] = _core.Program(recipe, options)
    return _programs[key]


@functools.lru_cache(maxsize=256)
def has_rows(recipe: str, options: tuple[str, ...]) -> bool:
    """Whether that step has values of rows, which blocks of a format must not end in."""
    return "/row>" in program(recipe, options).text()
