"""Computes the norm of one device, bit for bit, for DTensors on any mesh: assembles one device's pieces from all ranks' shards.

FSDP2 cuts at rows, and a cut may fall into a piece. All ranks with elements of such a piece send these elements. For all
other pieces only the sum is sent. Each rank then folds all pieces in the order of one device.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .pieces import pieces
from .programs import has_pieces_of_rows
from .ranks import PIECE, fold
from .tensors import Position, Span, is_distributed, local, span_at

if TYPE_CHECKING:
    from .binding import Binding
    from .parts import Part


class Shared(NamedTuple):
    """A parameter's pieces on one device, and this rank's contribution to them."""

    count: int
    own: Span  # elements; empty for a copy that a different rank counts
    cut: tuple[int, ...]  # pieces with elements on several ranks, the same on all ranks
    lengths: tuple[int, ...]  # their elements
    row: int  # elements per row if no piece crosses a row, else 0


def share(p: Tensor, counted: bool, position: Position, by_rows: bool) -> Shared:
    if not is_distributed(p):
        raise TypeError("exact=True is for DTensors, and not for parameters that share_norm() adds up; leave out one of them")
    mesh = p.device_mesh
    row = position.columns if by_rows else 0
    count = pieces(p.numel(), row)
    places = itertools.product(*(range(mesh.size(d)) if placement.is_shard() else (0,) for d, placement in enumerate(p.placements)))
    edges = {span.begin for span in (span_at(p, place) for place in places) if span.begin < span.end}
    cut = () if row else tuple(sorted({edge // PIECE for edge in edges if edge % PIECE}))
    own = span_at(p, tuple(mesh.get_coordinate() or ())) if counted else Span(0, 0)
    return Shared(count, own, cut, tuple(min(PIECE, p.numel() - piece * PIECE) for piece in cut), row)


def in_pieces(values: Tensor, row: int) -> Tensor:
    """Arranges values that start at a piece, one piece per row of the result. Missing values at the end count nothing."""
    values = values.reshape(-1, row) if row else values.reshape(1, -1)
    return torch.nn.functional.pad(values, (0, -values.shape[-1] % PIECE)).reshape(-1, PIECE)


def measured(gradient: Tensor, norm: str | None, inverse_scale: Tensor | None) -> Tensor:
    """Returns the value that the step folds for each element: the recipes' stages unscale and norm."""
    values = gradient.reshape(-1).float()
    if inverse_scale is not None:
        values = values * inverse_scale
    return values.abs() if norm in ("l1", "inf") else values * values


class ExactNorm:
    """An exchange that replaces the all-reduce of sums."""

    observes = False

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, list[Shared]]] = {}  # by the part's id: its step, and its parameters

    def check(self, who: str, p: Tensor, name: str) -> None:
        """Refuses a DTensor whose shards are not contiguous in its memory."""
        if not is_distributed(p):
            return
        kinds = {type(placement).__name__ for placement in p.placements}
        if not kinds <= {"Shard", "Replicate"} or any(placement.is_shard() and not placement.is_shard(0) for placement in p.placements):
            raise TypeError(f"{who}: exact=True takes DTensors that are cut along their first dimension, as FSDP2 cuts them; {name} has placements "
                            f"{p.placements}; leave out exact=True")
        if not local(p).is_contiguous():
            raise TypeError(f"{who}: exact=True takes shards that are stored row by row; the shard of {name} has strides {local(p).stride()}; "
                            "make it contiguous, or leave out exact=True")

    def exchange(self, engine: Binding) -> list[dict[str, Tensor]]:
        """Returns, for each part, its sums over all ranks."""
        largest = engine.mode.norm == "inf"
        scaler = engine.mode.scaler
        scale = None if scaler is None else getattr(scaler, "_tensor", None) if hasattr(scaler, "_tensor") else scaler._scale
        inverse = None if scale is None else scale.double().reciprocal().float()
        totals = []
        for part in engine.parts:
            total = dict(part.sums)
            norm = next((name for name in ("sum", "norm") if name in total), None)
            ranks = engine.ranks_of(part)
            words = torch.stack(list(total.values())) if total else torch.zeros(0, dtype=torch.float32, device=ranks.device)
            shares = self.shares(engine, part)
            mine = self.contribution(part, shares, engine.mode.norm, inverse, largest) if norm else words.new_zeros(0)
            everything = torch.cat([words, mine])
            ranks.all_reduce("the exchange of pieces", everything, largest)
            total = dict(zip(total, everything[:len(words)]))
            if norm:
                total[norm] = self.total(shares, everything[len(words):], largest)
            totals.append(total)
        return totals

    def shares(self, engine: Binding, part: Part) -> list[Shared]:
        known = self.known.get(id(part))
        if known is None or known[0] is not part.step:
            if len(self.known) > 64:
                self.known.clear()
            # With copies in 4 bits, one device's step has squares, and this one has none.
            by_rows = part.key.copies is not None or has_pieces_of_rows(engine.optimizer._recipe, part.options)
            found = [share(p, counted, position, by_rows) for p, counted, position in zip(part.params, part.counted, part.positions)]
            known = self.known[id(part)] = (part.step, found)
        return known[1]

    def contribution(self, part: Part, shares: list[Shared], norm: str | None, inverse: Tensor | None, largest: bool) -> Tensor:
        """Returns this rank's pieces of all parameters, and its elements of cut pieces; zeros elsewhere."""
        sums = torch.zeros(sum(s.count for s in shares), dtype=torch.float32, device=part.device)
        elements = torch.zeros(sum(sum(s.lengths) for s in shares), dtype=torch.float32, device=part.device)
        at = edge = 0
        for p, s in zip(part.params, shares):
            gradient = local(p.grad) if p.grad is not None and s.own.begin < s.own.end else None
            if gradient is not None:
                values = measured(gradient, norm, inverse)
                if s.row:
                    first = s.own.begin // s.row * -(-s.row // PIECE)
                    folded = fold(in_pieces(values, s.row), largest)
                    sums[at + first:at + first + len(folded)] = folded
                else:
                    self.add_pieces(values, s, sums[at:at + s.count], elements[edge:edge + sum(s.lengths)], largest)
            at, edge = at + s.count, edge + sum(s.lengths)
        return torch.cat([sums, elements])

    def add_pieces(self, values: Tensor, s: Shared, sums: Tensor, elements: Tensor, largest: bool) -> None:
        for piece, room in zip(s.cut, elements.split(s.lengths) if s.cut else ()):
            low, high = max(s.own.begin, piece * PIECE), min(s.own.end, piece * PIECE + len(room))
            if low < high:
                room[low - piece * PIECE:high - piece * PIECE] = values[low - s.own.begin:high - s.own.begin]
        first = -(-s.own.begin // PIECE)
        last = -(-s.own.end // PIECE)
        if first < last:
            folded = fold(in_pieces(values[first * PIECE - s.own.begin:], 0), largest)
            sums[first:last] = folded
            if last - 1 in s.cut:  # a different rank has its end
                sums[last - 1] = 0.0

    def total(self, shares: list[Shared], everything: Tensor, largest: bool) -> Tensor:
        count = sum(s.count for s in shares)
        sums, elements = everything[:count], everything[count:]
        lengths = [length for s in shares for length in s.lengths]
        begins = itertools.accumulate((s.count for s in shares), initial=0)
        where = [begin + piece for begin, s in zip(begins, shares) for piece in s.cut]
        if where:
            padded = torch.nn.utils.rnn.pad_sequence([*elements.split(lengths), elements.new_zeros(PIECE)], batch_first=True)
            sums[torch.tensor(where, device=sums.device)] = fold(padded[:-1], largest)
        return fold(sums, largest)


