"""Computes the norm of one device on any number of ranks: all ranks' pieces, folded in one device's order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .programs import has_rows
from .ranks import PIECE, fold
from .tensors import columns_of

if TYPE_CHECKING:
    from .binding import Binding
    from .owner import Sharded
    from .parts import Key


def pieces(size: int, columns: int) -> int:
    """Returns the number of pieces. If the step has per-row values, no piece crosses a row."""
    return size // columns * -(-columns // PIECE) if columns else -(-size // PIECE)


class Pieces:
    """Shards are cut at borders of pieces, so that each piece's partial result is the same on a rank as on one device."""

    observes = True

    def __init__(self, zero: Sharded) -> None:
        self.zero = zero
        self.orders: dict[Key, tuple[Tensor, int]] = {}

    def check(self, who: str, p: Tensor, name: str) -> None:
        """The shards are this package's own, so they fit."""

    def exchange(self, engine: Binding) -> list[dict[str, Tensor]]:
        """Returns, for each part, its sums over all ranks."""
        totals = []
        for part in engine.parts:
            order, width = self.order(engine, part.key)
            own = torch.stack(list(part.pieces.values()))
            padded = own.new_zeros((len(own), width))
            padded[:, :own.shape[1]] = own
            gathered = self.zero._comm.all_gather("the exchange of pieces", padded)
            pieces = gathered.permute(1, 0, 2).reshape(len(own), -1).index_select(1, order)
            totals.append(dict(zip(part.pieces, fold(pieces, engine.mode.norm == "inf"))))
        return totals

    def order(self, engine: Binding, key: Key) -> tuple[Tensor, int]:
        """Returns the position of each of one device's pieces among those of all ranks, and the largest number on any rank."""
        if key not in self.orders:
            zero = self.zero
            members, at = [], 0
            for outer in zero.param_groups:
                members += [at + i for i, p in enumerate(outer["params"]) if engine.key(outer, p) == key]
                at += len(outer["params"])
            by_rank = [{s.param: s for bucket in zero._buckets for s in bucket.slices[rank]} for rank in range(zero._world)]
            by_rows = has_rows(engine.optimizer._recipe, key.kind)
            counts = [[pieces(by_rank[r][i].size, columns_of(zero._all[i]) if by_rows else 0) if i in by_rank[r] else 0 for i in members]
                      for r in range(zero._world)]
            width = max(sum(c) for c in counts)
            nexts = [r * width for r in range(zero._world)]
            order: list[int] = []
            for m in range(len(members)):
                for r in range(zero._world):  # a parameter's slices are in the order of ranks
                    order += range(nexts[r], nexts[r] + counts[r][m])
                    nexts[r] += counts[r][m]
            self.orders[key] = (torch.tensor(order, dtype=torch.int64, device=zero._comm.device), width)
        return self.orders[key]
