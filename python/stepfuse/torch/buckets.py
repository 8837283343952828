"""Places parameters in flat buckets that are cut into equal chunks, one per rank, at borders of pieces.

Knows torch only. A piece is the unit of the language's reductions (ranks.PIECE): shards of whole pieces give the same partial
sums as one device.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .ranks import PIECE

ALIGN = 64  # elements, so that every tensor starts at a cache line


class Slice(NamedTuple):
    """A rank's part of a parameter."""

    param: int  # index in the order of the groups
    offset: int
    size: int
    begin: int  # position in the rank's chunk


def assign_offsets(sizes: list[int], ranks: int) -> tuple[list[int], int]:
    """Returns where tensors start in a flat buffer, and the length of each rank's chunk of it.

    A chunk ends between two tensors, or at a border of pieces within one.
    """
    if ranks == 1:
        chunk = 1 << 62
    else:
        chunk = max(1, -(-sum(sizes) // (ranks * PIECE))) * PIECE
    while True:
        begins, at = [], 0
        for size in sizes:
            at = -(-at // ALIGN) * ALIGN
            if at // chunk != (at + max(size, 1) - 1) // chunk:  # a cut goes through the tensor
                at = -(-at // PIECE) * PIECE
            begins.append(at)
            at += size
        if ranks == 1:
            return begins, max(1, at)
        if at <= ranks * chunk:
            return begins, chunk
        chunk += PIECE


class Bucket:
    """Some parameters of one dtype, and their gradients, in flat memory."""

    def __init__(self, params: list[tuple[int, Tensor]], ranks: int, me: int, with_gradients: bool, ordered: bool) -> None:
        params = sorted(params, key=lambda entry: -entry[1].numel())  # small ones fit anywhere
        self.indices = [i for i, _ in params]
        self.params = [p for _, p in params]
        begins, self.chunk = assign_offsets([p.numel() for p in self.params], ranks)
        self.slices = [[self.cut(i, begin, p.numel(), rank) for i, begin, p in zip(self.indices, begins, self.params)]
                       for rank in range(ranks)]
        self.slices = [[s for s in of_rank if s is not None] for of_rank in self.slices]
        first = self.params[0]
        self.weights = torch.zeros(ranks * self.chunk, dtype=first.dtype, device=first.device)
        self.homes = [self.weights.as_strided(p.shape, p.stride(), begin) for p, begin in zip(self.params, begins)]
        for p, home in zip(self.params, self.homes):
            home.copy_(p.detach())
            p.data = home
        self.own_weights = self.weights[me * self.chunk:(me + 1) * self.chunk]
        self.own_gradients = self.weights.new_zeros(self.chunk) if with_gradients else None
        self.gathering: Any = None  # the collective that sends its weights
        self.gradients: Tensor | None = None
        self.received: Tensor | None = None
        if with_gradients:
            self.gradients = self.own_gradients if ranks == 1 else torch.zeros_like(self.weights)
            self.received = torch.zeros_like(self.weights) if ordered else None
            self.views = [self.gradients.as_strided(p.shape, p.stride(), begin) for p, begin in zip(self.params, begins)]
        self.clear()

    def clear(self) -> None:
        self.taken = [False] * len(self.params)
        self.sent = False
        self.work = None
        self.done = False

    def cut(self, index: int, begin: int, size: int, rank: int) -> Slice | None:
        low, high = max(begin, rank * self.chunk), min(begin + size, (rank + 1) * self.chunk)
        return Slice(index, low - begin, high - low, low - rank * self.chunk) if low < high else None


def divide(params: list[Tensor], limit: int) -> list[list[tuple[int, Tensor]]]:
    """Divides parameters into lists of one dtype and about `limit` bytes, last parameter first, as backward() makes gradients."""
    lists: list[list[tuple[int, Tensor]]] = []
    open_: dict[torch.dtype, tuple[list[tuple[int, Tensor]], int]] = {}
    for i in reversed(range(len(params))):
        p = params[i]
        entries, size = open_.get(p.dtype, ([], 0))
        if not entries:
            lists.append(entries)
        entries.append((i, p))
        size += p.numel() * p.element_size()
        open_[p.dtype] = (entries, size) if size < limit else ([], 0)
    return lists
