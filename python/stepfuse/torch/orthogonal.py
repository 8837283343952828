"""Makes matrices orthogonal: batches of equal shape, also of matrices whose parts are on several ranks.

A rank owns some of the matrices. It receives their parts from all ranks, makes each whole, orthogonalizes batches of equal
shape, and sends the parts back. On a CPU each matrix's result depends on the matrix only, so any number of ranks gives the
same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from .exchange import part_sizes, swap
from .tensors import cuts_of, is_distributed, like_parameter, local

if TYPE_CHECKING:
    from .ranks import Ranks

Orthogonalize = Callable[[Tensor], Tensor]


class Iteration(NamedTuple):
    """Newton and Schulz's iteration, as torch.optim.Muon rounds it; for a batch of matrices."""

    coefficients: tuple[float, float, float]
    steps: int
    eps: float

    def __call__(self, matrices: Tensor) -> Tensor:
        made = matrices.bfloat16()
        if made.is_cuda:
            return self.iterate(made)
        # On some CPUs a product in a batch is rounded differently than torch.optim.Muon's product of two matrices.
        return torch.stack([self.iterate(matrix) for matrix in made])

    def iterate(self, made: Tensor) -> Tensor:
        """Makes a matrix orthogonal, or each matrix of a batch."""
        is_matrix = made.ndim == 2
        add_product = torch.addmm if is_matrix else torch.baddbmm
        a, b, c = self.coefficients
        is_tall = made.size(-2) > made.size(-1)
        made = made.mT if is_tall else made
        norm = made.norm() if is_matrix else torch.linalg.vector_norm(made, dim=(-2, -1), keepdim=True)
        made = made / norm.clamp(min=self.eps)
        for _ in range(self.steps):
            gram = made @ made.mT
            made = add_product(made, add_product(gram, gram, gram, beta=b, alpha=c), made, beta=a)
        return made.mT if is_tall else made


class Update(NamedTuple):
    """The matrices of a parameter that are to be made orthogonal, as this rank has them."""

    param: Tensor
    values: Tensor  # as the parameter's local part
    way: Orthogonalize


def orthogonalize(updates: list[Update], ranks_of: Callable[[Tensor], Ranks]) -> list[Tensor]:
    """Returns for each update this rank's part of the orthogonal matrices."""
    results: list[Tensor | None] = [None] * len(updates)
    together: dict[Any, list[int]] = {}
    for i, update in enumerate(updates):
        cut = find_cut(update.param)
        if cut is None:
            results[i] = make_whole(update)
        else:
            together.setdefault((update.param.device_mesh if cut.is_cut else None, cut), []).append(i)
    for (mesh, cut), members in together.items():
        mine = [updates[i] for i in members]
        made = in_batches(mine) if mesh is None else exchange(mine, cut, mesh, ranks_of(mine[0].param))
        for i, result in zip(members, made):
            results[i] = result
    return results


class Cut(NamedTuple):
    """The dimensions along which a mesh cuts matrices."""

    mesh_dimension: int
    dimension: int  # of the parameter, from its end; 0 if every rank has whole matrices

    @property
    def is_cut(self) -> bool:
        return self.dimension != 0


WHOLE = Cut(0, 0)


def find_cut(p: Tensor) -> Cut | None:
    """Returns how a parameter's matrices are cut; None if two dimensions of a mesh cut them, or parts are not consecutive."""
    if not is_distributed(p):
        return WHOLE
    cuts = cuts_of(p)
    if any(type(placement).__name__ != "Shard" for _, placement in cuts):
        return None
    within = [Cut(d, placement.dim % p.ndim - p.ndim) for d, placement in cuts if placement.dim % p.ndim >= p.ndim - 2]
    return WHOLE if not within else within[0] if len(cuts) == 1 else None


def in_batches(updates: list[Update]) -> list[Tensor]:
    """Makes whole matrices orthogonal: those with the same shape and function are one batch."""
    batches: dict[Any, list[int]] = {}
    for i, update in enumerate(updates):
        if update.values.numel() > 0:
            batches.setdefault((update.values.shape[-2:], update.values.dtype, update.values.device, update.way), []).append(i)
    results = [update.values for update in updates]
    for (shape, _, _, way), members in batches.items():
        stacked = torch.cat([updates[i].values.reshape(-1, *shape) for i in members])
        made = way(stacked) if isinstance(way, Iteration) else call_function(way, stacked)
        counts = [updates[i].values.numel() // (shape[0] * shape[1]) for i in members]
        for i, part in zip(members, made.split(counts)):
            results[i] = part.reshape(updates[i].values.shape)
    return results


def call_function(way: Orthogonalize, matrices: Tensor) -> Tensor:
    """Calls the user's function, which gets zeros for a matrix with NaN: such a matrix stays NaN, as a skipped step needs."""
    is_spoiled = matrices.isnan().any(-1).any(-1)[:, None, None]
    made = way(matrices.masked_fill(is_spoiled, 0.0))
    if made.shape != matrices.shape:
        raise ValueError(f"orthogonalize= was given a batch of shape {tuple(matrices.shape)} and returned {tuple(made.shape)}; return the same shape")
    return made.masked_fill(is_spoiled, torch.nan)


def make_whole(update: Update) -> Tensor:
    """Makes a matrix orthogonal that several dimensions of a mesh cut: every rank gathers all of it."""
    p = update.param
    everything = like_parameter(p, update.values).full_tensor()
    made = in_batches([update._replace(values=everything)])[0]
    replicated = type(p.data).from_local(made.contiguous(), p.device_mesh, [whole_placement()] * p.device_mesh.ndim, run_check=False)
    return local(replicated.redistribute(placements=p.placements))


def whole_placement() -> Any:
    from torch.distributed.tensor import Replicate

    return Replicate()


def exchange(updates: list[Update], cut: Cut, mesh: Any, ranks: Ranks) -> list[Tensor]:
    """Makes matrices orthogonal that one dimension of a mesh cuts along one of their dimensions."""
    group = mesh.get_group(cut.mesh_dimension)
    world, me = dist.get_world_size(group), dist.get_rank(group)
    owners = deal(updates, world)
    sizes = [part_sizes(update.param.shape[cut.dimension], world) for update in updates]
    mine = [i for i, owner in enumerate(owners) if owner == me]

    def parts_of(i: int) -> list[torch.Size]:
        """Returns the shape of a matrix's part on each rank."""
        shape = list(updates[i].values.shape)
        return [torch.Size([*shape[:cut.dimension], size, *shape[cut.dimension:][1:]]) for size in sizes[i]]

    dtype, what = updates[0].values.dtype, "the exchange of matrices"
    sent = [[updates[i].values for i, owner in enumerate(owners) if owner == rank] for rank in range(world)]
    received = swap(what, ranks, group, sent, [[(parts_of(i)[rank], dtype) for i in mine] for rank in range(world)])
    wholes = [updates[i]._replace(values=torch.cat([received[rank][n] for rank in range(world)], dim=cut.dimension)) for n, i in enumerate(mine)]
    made = [result.split(sizes[i], dim=cut.dimension) for i, result in zip(mine, in_batches(wholes))]
    back = swap(what, ranks, group, [[parts[rank].to(dtype) for parts in made] for rank in range(world)],
                [[(updates[i].values.shape, dtype) for i, owner in enumerate(owners) if owner == rank] for rank in range(world)])
    results = [iter(of_rank) for of_rank in back]
    return [next(results[owner]) for owner in owners]


def deal(updates: list[Update], world: int) -> list[int]:
    """Returns the owner of each matrix. Matrices of one shape are dealt in turn, so that batches are large and ranks share the work."""
    order = sorted(range(len(updates)), key=lambda i: (-updates[i].param.numel(), tuple(updates[i].param.shape), i))
    owners = [0] * len(updates)
    for turn, i in enumerate(order):
        owners[i] = turn % world
    return owners
