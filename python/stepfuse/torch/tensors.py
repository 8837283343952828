"""Facts about one tensor: its memory layout, and its part on this rank. Knows torch only."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import private


def type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def on_host(values: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    """Returns a tensor in the host's memory, whatever torch's default device and dtype are."""
    return torch.tensor(values, dtype=dtype, device="cpu")


DRAWN_TOGETHER = 4  # elements whose random bits are one result of the generator


class Position(NamedTuple):
    """The position of a tensor within a longer one, equal on all ranks."""

    id: int  # its random numbers follow from it
    offset: int
    full_size: int
    columns: int  # elements per row, if it has several dimensions; else 0


def row_count(p: Tensor, columns: int) -> int:
    return 0 if p.numel() == 0 else p.numel() // columns if columns else 1


def column_count(p: Tensor, columns: int) -> int:
    return 0 if p.numel() == 0 else columns or p.numel()


def columns_of(p: Tensor) -> int:
    return p.numel() // p.shape[0] if p.ndim > 1 and p.shape[0] else 0


def cuts_of(p: Tensor) -> list[tuple[int, Any]]:
    """Returns the dimensions of a DTensor's mesh that cut it, with their placements."""
    return [(d, placement) for d, placement in enumerate(p.placements) if not placement.is_replicate() and p.device_mesh.size(d) > 1]


def cut_dimension(p: Tensor) -> int | None:
    """The mesh dimension that cuts a DTensor's rows; None unless there is just one, and nothing else is cut."""
    cuts = cuts_of(p)
    if len(cuts) != 1 or type(cuts[0][1]).__name__ != "Shard" or not cuts[0][1].is_shard(0):
        return None
    return cuts[0][0]


def has_whole_rows(p: Tensor, position: Position) -> bool:
    """Returns whether no row is divided between ranks of its mesh. A tensor with one dimension is one row."""
    if is_distributed(p):
        return all(placement.is_shard(0) and p.ndim > 1 for _, placement in cuts_of(p))
    columns = position.columns or position.full_size
    return position.full_size == p.numel() or position.offset % columns == p.numel() % columns == 0


def is_distributed(value: Any) -> bool:
    """Returns whether a value is a DTensor. There are none unless their module was imported."""
    return any(isinstance(value, kind) for kind in private.dtensor_types())


def local(value: Tensor) -> Tensor:
    """Returns the part of a tensor that is on this rank."""
    return private.local_tensor(value) if is_distributed(value) else value


def gradient_dtype(p: Tensor) -> torch.dtype:
    """Returns the dtype of a parameter's gradients: its own, unless `grad_dtype` (torch >= 2.10) differs."""
    return p.grad.dtype if p.grad is not None else getattr(p, "grad_dtype", None) or p.dtype


def largest_cut(p: Tensor) -> int:
    """Returns how many elements of a DTensor's last dimension the first rank has. No rank has more."""
    size = p.shape[-1]
    for d, placement in enumerate(p.placements):
        if placement.is_shard(p.ndim - 1):
            size = -(-size // p.device_mesh.size(d))
    return size


def is_first_copy(p: Tensor) -> bool:
    """Returns whether this rank is the first of its mesh with these elements."""
    return not is_distributed(p) or not any(
        placement.is_replicate() and place for placement, place in zip(p.placements, p.device_mesh.get_coordinate() or ()))


def part_number(p: Tensor) -> int:
    """Returns the index of a parameter's part on this rank; 0 if the parameter is whole."""
    number = 0
    for d, placement in enumerate(p.placements if is_distributed(p) else ()):
        if not placement.is_replicate():
            number = number * p.device_mesh.size(d) + (p.device_mesh.get_coordinate() or [0] * p.device_mesh.ndim)[d]
    return number


class Span(NamedTuple):
    """Elements of a tensor, in the order of memory."""

    begin: int
    end: int


def span_at(p: Tensor, coordinate: tuple[int, ...]) -> Span:
    """Returns the elements of a DTensor, cut along its first dimension, that the rank at a coordinate of the mesh has."""
    begin, end = 0, p.shape[0]
    for d, placement in enumerate(p.placements):
        if placement.is_shard():
            chunk = -(-(end - begin) // p.device_mesh.size(d))
            low = min(begin + coordinate[d] * chunk, end)
            begin, end = low, min(low + chunk, end)
    row = p.numel() // max(p.shape[0], 1)
    return Span(begin * row, end * row)


def first_element(p: Tensor) -> int | None:
    """Returns the position in the full tensor at which this rank's elements begin; None if they are not one range of it."""
    if not is_distributed(p):
        return 0
    if any(type(placement).__name__ not in ("Shard", "Replicate") or placement.is_shard() and not placement.is_shard(0) for placement in p.placements):
        return None
    return span_at(p, tuple(p.device_mesh.get_coordinate() or ())).begin


def own_part(p: Tensor, values: Tensor) -> Tensor:
    """Returns this rank's part of a whole tensor like a DTensor whose mesh cuts it between rows."""
    mine = local(p)
    begin = first_element(p) or 0
    return values.reshape(-1)[begin:begin + mine.numel()].view(mine.shape)


def rows_are_blocks(p: Tensor, block: int) -> bool:
    """Whether each row consists of whole blocks, so that cuts between rows cut no block. Only a DTensor's full shape decides."""
    return columns_of(p) > 0 and columns_of(p) % block == 0


def cuts_within_blocks(p: Tensor, block: int) -> bool:
    """Whether the mesh of a DTensor with such rows cuts the last dimension within a block."""
    within_rows = any(not placement.is_replicate() and not placement.is_shard(0) for placement in p.placements)
    return within_rows and bool(p.shape[-1] % block or largest_cut(p) % block)


def cuts_between_squares(p: Tensor, side: int) -> bool:
    """Whether a DTensor's mesh cuts it only between squares of `side` rows; rows are all dimensions but the last."""
    if not cuts_of(p):
        return True
    if (dimension := cut_dimension(p)) is None or p.ndim < 2:
        return False
    each = -(-p.shape[0] // p.device_mesh.size(dimension))
    return each >= p.shape[0] or each * p.shape[1:-1].numel() % side == 0


def draws_by_element(p: Tensor) -> bool:
    """Whether each element of a DTensor can draw its own random bits on any mesh. Only the full shape decides: cuts lie between
    rows, and four elements draw together.
    """
    return not is_distributed(p) or rows_are_blocks(p, DRAWN_TOGETHER)


def random_id(number: int, part: int) -> int:
    """Returns the 32-bit id of a part's random numbers: the parameter's and the part's index, hashed if they do not fit."""
    if number < 1 << 20 and part < 1 << 12:
        return number | part << 20
    return int.from_bytes(hashlib.sha256(f"{number} {part}".encode()).digest()[:4], "little")


def block_grid(shape: torch.Size, full: torch.Size, block: int) -> torch.Size:
    """Returns the shape of per-block values for a part with `shape` of a tensor with shape `full`, which decides: the tensor's shape
    with the blocks of a row in the last dimension. A dimension that is not a multiple of the block is joined with those before it.
    """
    if full[-1] % block == 0:
        return torch.Size([*shape[:-1], shape[-1] // block])
    return torch.Size([shape[0], full[1:].numel() // block])


def like_parameter(p: Tensor, array: Tensor, block: int = 1) -> Tensor:
    """Returns an array of a parameter's state as what the parameter is: a DTensor with the same shards and one value per block."""
    if not is_distributed(p):
        return array
    shape, stride = p.shape, p.stride()
    if block > 1:
        shape = block_grid(p.shape, p.shape, block)
        stride = torch.empty(shape, device="meta").stride()
        array = array.reshape(block_grid(local(p).shape, p.shape, block))
    return type(p.data).from_local(array, p.device_mesh, p.placements, run_check=False, shape=shape, stride=stride)


def zeros_like(like: Tensor, dtype: torch.dtype) -> Tensor:
    """torch.zeros_like, also if torch cannot fill 8-bit floats (torch 2.4)."""
    if dtype.is_floating_point and dtype.itemsize == 1:
        return torch.zeros_like(like, dtype=torch.uint8).view(dtype)
    return torch.zeros_like(like, dtype=dtype)


def same_layout(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and all(
        n == 1 or x == y for n, x, y in zip(a.shape, a.stride(), b.stride())) or a.numel() == b.numel() == 0


def span_bytes(t: Tensor) -> int:
    """Returns the number of bytes from its first to the end of its last element in memory."""
    return (sum((n - 1) * stride for n, stride in zip(t.shape, t.stride())) + 1) * t.element_size() if t.numel() else 0


def has_memory(t: Tensor) -> bool:
    """Returns whether all its elements are within its storage, which may have been made smaller."""
    return t.numel() == 0 or t.storage_offset() * t.element_size() + span_bytes(t) <= t.untyped_storage().nbytes()


def lies_by_rows(p: Tensor) -> bool:
    """Returns whether its first dimension is the outermost one in memory."""
    return (p.is_contiguous() or not is_dense(p) or p.shape[0] == 1 or
            p.stride(0) == max(s for s, n in zip(p.stride(), p.shape) if n > 1))


def is_dense(p: Tensor) -> bool:
    return same_layout(torch.empty_like(p, device="meta"), p)


def matrix_shape(p: Tensor) -> tuple[int, int]:
    """Returns the numbers of rows and columns in the order of memory: the last dimension is a row, and those before it count rows."""
    sizes = list(p.shape)
    if not is_distributed(p) and is_dense(p) and not p.is_contiguous():
        sizes = [n for _, n in sorted(((s, n) for s, n in zip(p.stride(), p.shape) if n > 1), reverse=True)]
    columns = sizes.pop() if sizes else 1
    return torch.Size(sizes).numel(), columns


def overlaps_itself(p: Tensor) -> bool:
    """Returns whether two elements may share memory; exact for every result of slicing and transposing."""
    reach = 0
    for stride, n in sorted((s, n) for s, n in zip(p.stride(), p.shape) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (n - 1)
    return False
