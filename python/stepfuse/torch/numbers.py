"""Converts the numbers that a step keeps from and to their bits. Knows torch only."""

from __future__ import annotations

import struct
from typing import Any

import torch

NUMBERS = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool}


def to_bits(value: Any, dtype: str) -> int:
    if dtype == "f32":
        return struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.unpack("<q", struct.pack("<d", value))[0] if dtype == "f64" else int(value)


def from_bits(bits: int, dtype: str) -> float | int:
    if dtype == "f32":
        return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0]
    return struct.unpack("<d", struct.pack("<q", bits))[0] if dtype == "f64" else bits
