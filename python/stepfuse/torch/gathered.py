"""DTensors whose step reduces over all of a parameter: one rank has each of them whole while it steps.

Before the kernel each rank sends its rows of weights, gradients and state to the parameter's owner, and behind it the owner
sends the new rows back. Between steps weights and state are shards as ever. Numbers that a step keeps per row, column or
parameter stay with the owner; share_kept() gives them to the other ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from .exchange import part_sizes, swap
from .tensors import cut_dimension, is_distributed, local

if TYPE_CHECKING:
    from .parts import Part
    from .ranks import Ranks


class Whole:
    """One such parameter: its owner, and the arrays that are whole there."""

    def __init__(self, p: Tensor, name: str, owner: int, dimension: int) -> None:
        self.param, self.name, self.owner = p, name, owner
        self.group = p.device_mesh.get_group(dimension)
        self.me = dist.get_rank(self.group)
        self.is_mine = owner == self.me
        row = p.shape[1:].numel()
        self.sizes = [rows * row for rows in part_sizes(p.shape[0], dist.get_world_size(self.group))]
        shape = p.shape if self.is_mine else torch.Size([0, *p.shape[1:]])
        self.weight = torch.empty(shape, dtype=p.dtype, device=p.device)
        self.gradient: Tensor | None = None
        self.arrays: list[tuple[Tensor, Tensor]] = []  # this rank's shard, and all of it if it is the owner's
        self.shared: list[tuple[Tensor, Tensor]] = []  # what the owner's step writes for all ranks, and where a rank keeps it
        self.index = -1  # in the walk

    def bind(self, shard: Tensor | None, block: int) -> Tensor | None:
        """Returns the whole array of a shard of state with a value per block, which steps read and write."""
        if shard is None:
            return None
        made = torch.empty(sum(self.sizes) // block if self.is_mine else 0, dtype=shard.dtype, device=shard.device)
        self.arrays.append((shard, made))
        return made

    def bind_shared(self, kept: Tensor) -> Tensor | None:
        """Returns an array that all ranks keep whole, if this rank's step writes it."""
        self.shared.append((kept, kept))
        return kept if self.is_mine else None

    def shard(self) -> Tensor:
        return local(self.param).data

    def counts(self, of_rank: int, shard_of_owner: Tensor) -> int:
        """Returns how many of an array's values a rank has."""
        return self.sizes[of_rank] * shard_of_owner.numel() // sum(self.sizes)


class Gathered:
    """All such parameters of an optimizer."""

    def __init__(self) -> None:
        self.wholes: list[Whole] = []
        self.by_id: dict[int, Whole] = {}
        self.loads: dict[Any, list[int]] = {}
        self.ranks: dict[Any, Ranks] = {}

    def add(self, p: Tensor, name: str) -> Whole:
        """Gives a parameter to the rank that has the least so far, the same on all ranks."""
        dimension = cut_dimension(p)
        group = p.device_mesh.get_group(dimension)
        loads = self.loads.setdefault(group, [0] * dist.get_world_size(group))
        owner = loads.index(min(loads))
        loads[owner] += p.numel()
        if group not in self.ranks:
            from .ranks import Ranks

            self.ranks[group] = Ranks([group], local(p).device)
        made = Whole(p, name, owner, dimension)
        self.wholes.append(made)
        self.by_id[id(p)] = made
        return made

    def each_group(self) -> list[tuple[Ranks, list[Whole]]]:
        return [(ranks, [w for w in self.wholes if w.group == group]) for group, ranks in self.ranks.items()]

    def gather(self, walk: Any, dtypes: list[torch.dtype]) -> None:
        """All rows to the owners; the walk then reads whole gradients."""
        for ranks, wholes in self.each_group():
            world = len(wholes[0].sizes)
            for w in wholes:
                if w.gradient is None or w.gradient.dtype != dtypes[w.index]:
                    w.gradient = torch.empty_like(w.weight, dtype=dtypes[w.index])
            sent = [[t for w in wholes if w.owner == rank for t in (w.shard(), self.gradient_of(w), *(shard for shard, _ in w.arrays))]
                    for rank in range(world)]
            mine = [(w, target) for w in wholes if w.is_mine for target in (w.weight, w.gradient, *(all_of_it for _, all_of_it in w.arrays))]
            wanted = [[(torch.Size([w.counts(rank, target)]), target.dtype) for w, target in mine] for rank in range(world)]
            received = swap("the gathering of whole parameters", ranks, wholes[0].group, sent, wanted)
            for n, (_, target) in enumerate(mine):
                torch.cat([of_rank[n] for of_rank in received], out=target.view(-1))
            for w in wholes:
                if w.param.grad is not None:
                    walk.set(w.index, w.gradient.data_ptr())

    def gradient_of(self, w: Whole) -> Tensor:
        if w.param.grad is None:
            return torch.zeros(w.sizes[w.me], dtype=w.gradient.dtype, device=w.weight.device)
        return local(w.param.grad)

    def scatter(self) -> None:
        """The new rows back from the owners."""
        for ranks, wholes in self.each_group():
            world = len(wholes[0].sizes)
            sent: list[list[Tensor]] = [[] for _ in range(world)]
            for w in wholes:
                for whole in (w.weight, *(all_of_it for _, all_of_it in w.arrays)) if w.is_mine else ():
                    for rank, part in enumerate(whole.view(-1).split([w.counts(rank, whole) for rank in range(world)])):
                        sent[rank].append(part)
                for rank in range(world) if w.is_mine else ():
                    sent[rank] += [made for made, _ in w.shared]
            targets = [[t for w in wholes if w.owner == rank for t in (w.shard(), *(shard for shard, _ in w.arrays), *(kept for _, kept in w.shared))]
                       for rank in range(world)]
            wanted = [[(t.shape, t.dtype) for t in of_rank] for of_rank in targets]
            received = swap("the scattering of whole parameters", ranks, wholes[0].group, sent, wanted)
            for of_rank, parts in zip(targets, received):
                for target, part in zip(of_rank, parts):
                    target.data.copy_(part)  # autograd has been told of the step's write

    def share_kept(self, parts: list[Part], state: dict[Tensor, dict[str, Any]]) -> None:
        """Sends the owners' per-row, per-column and per-parameter values to all ranks of the mesh dimension."""
        for part in parts:
            for p in part.params:
                w = self.by_id.get(id(p))
                for name in part.kept if w is not None and not part.shown else ():  # with scales all ranks have the numbers
                    value = state[p][name]
                    ranks = self.ranks[w.group]
                    what = "the broadcast of a parameter's state"
                    ranks.wait(what, ranks.begin(what, dist.broadcast, value, src=dist.get_global_rank(w.group, w.owner), group=w.group))


def can_gather(p: Tensor) -> bool:
    return is_distributed(p) and p.numel() > 0 and cut_dimension(p) is not None
