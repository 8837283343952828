"""Programs of compiled steps by recipe and options, each made once. Knows the C library's programs."""

from __future__ import annotations

import functools
import re
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


@functools.lru_cache(maxsize=256)
def has_pieces_of_rows(recipe: str, options: tuple[str, ...]) -> bool:
    """Returns whether that step folds each row on its own, because it has values of rows, columns or squares."""
    return re.search(r"/(row|column|\d+x\d+)>", program(recipe, options).text()) is not None
