"""Programs of compiled steps by recipe and options, each made once. Knows the C library's programs."""

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
    """Returns whether that step has per-row values. Blocks of a format must then not cross rows."""
    return "/row>" in program(recipe, options).text()
