"""Sends lists of tensors between the ranks of a group, as bytes, in one collective. Knows torch.distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

if TYPE_CHECKING:
    from .ranks import Ranks


def part_sizes(length: int, count: int) -> list[int]:
    """The lengths of the parts of a dimension that is cut among `count` ranks."""
    chunk = -(-length // count)
    return [max(0, min(chunk, length - rank * chunk)) for rank in range(count)]


def to_bytes(tensors: list[Tensor], device: torch.device) -> Tensor:
    made = [t.detach().contiguous().view(-1).view(torch.uint8) for t in tensors if t.numel()]
    return torch.cat(made) if made else torch.empty(0, dtype=torch.uint8, device=device)


def swap(what: str, ranks: Ranks, group: Any, given: list[list[Tensor]], wanted: list[list[tuple[torch.Size, torch.dtype]]]) -> list[list[Tensor]]:
    """Gives each rank its list of tensors; returns what each rank gave here, in the shapes and types that are `wanted`."""
    sent = [to_bytes(of_rank, ranks.device) for of_rank in given]
    lengths = [[shape.numel() * dtype.itemsize for shape, dtype in of_rank] for of_rank in wanted]
    room = torch.empty(sum(map(sum, lengths)), dtype=torch.uint8, device=ranks.device)
    ranks.wait(what, ranks.begin(what, dist.all_to_all_single, room, torch.cat(sent), output_split_sizes=[sum(each) for each in lengths],
                                 input_split_sizes=[len(part) for part in sent], group=group))
    # A type's bytes begin at multiples of its size only in a copy.
    return [[part.clone().view(dtype).view(shape) for part, (shape, dtype) in zip(of_rank.split(each), shapes)]
            for of_rank, each, shapes in zip(room.split([sum(each) for each in lengths]), lengths, wanted)]
