"""Weights without masters as DTensors: each mesh that cuts rows gives the bits of one process, also after a checkpoint."""

import pytest
import torch
from processes import good, run, run_each
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from stepfuse.torch import AdamW, Formula

# Rows of a multiple of four elements, which no cut takes apart; one large enough for several pieces; experts.
SHAPES = [(24, 20), (5, 8), (37, 1024), (6, 3, 4)]
ODD = [(6, 7), (10,)]  # others, which have no random bits on any mesh
NOISE = """optimizer noisy "steps with noise" {
  hyper lr = 1e-3
  w = w - lr * (g + random())
}"""


def values(seed, shapes):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw) for shape in shapes]


def spread(tensors, mesh, placements):
    return [distribute_tensor(t, mesh, placements) for t in tensors] if mesh is not None else tensors


def made(way, shapes, mesh=None, placements=()):
    dtype = torch.float32 if way == "random()" else torch.bfloat16
    params = [nn.Parameter(w) for w in spread([v.to(dtype) for v in values(0, shapes)], mesh, placements)]
    if way == "random()":
        return params, Formula(params, formula=NOISE, seed=7)
    return params, AdamW(params, lr=1e-3, weight_rounding=way, seed=7, max_norm=1.0, exact=mesh is not None)


def train(params, optimizer, shapes, steps, mesh=None, placements=()):
    for step in steps:
        for p, g in zip(params, spread([v.to(p.dtype) for v, p in zip(values(step + 1, shapes), params)], mesh, placements)):
            p.grad = g
        optimizer.step()
    return [(p.full_tensor() if isinstance(p, DTensor) else p).detach().clone() for p in params]


def on_mesh(rank, world, way, shapes, kind):
    mesh = init_device_mesh("cpu", (world,) if kind != "hybrid" else (2, world // 2))
    placements = [Shard(0)] if kind != "hybrid" else [Replicate(), Shard(0)]
    params, optimizer = made(way, shapes, mesh, placements)
    return train(params, optimizer, shapes, range(4), mesh, placements), [sorted(optimizer.state[p]) for p in params]


@pytest.mark.parametrize(("world", "kind"), [(1, "rows"), (2, "rows"), (3, "rows"), (4, "rows"), (4, "hybrid")], ids=str)
def test_every_mesh_draws_one_processs_bits(world, kind):
    ways = ["stochastic", "kahan", "nearest", "random()"]
    alone = {}
    for way, results in zip(ways, run_each(world, on_mesh, [(way, SHAPES, kind) for way in ways]), strict=True):
        params, optimizer = made(way, SHAPES)
        expected = alone[way] = train(params, optimizer, SHAPES, range(4))
        for weights, names in results:
            assert names == [sorted(optimizer.state[p]) for p in params]
            assert all(("kahan" in of_param) == (way == "kahan") for of_param in names)
            for mine, whole in zip(weights, expected, strict=True):
                assert torch.equal(mine, whole), (way, tuple(whole.shape))
    for i, start in enumerate(values(0, SHAPES)):
        different = [alone[way][i] for way in ways[:3]] + [start.bfloat16()]
        assert not any(torch.equal(p, q) for n, p in enumerate(different) for q in different[:n]), "the ways round alike"
        assert not torch.equal(alone["random()"][i], start)


def test_rows_that_a_cut_may_take_apart_are_compensated_on_every_mesh():
    reference = None
    for world in (1, 2, 3):
        for weights, states in good(run(world, on_mesh, "stochastic", ODD, "rows")):
            assert len(states) == len(ODD) and all("kahan" in names for names in states)
            reference = reference or weights
            assert all(torch.equal(p, q) for p, q in zip(weights, reference, strict=True))
    alone, optimizer = made("kahan", ODD)
    assert all(torch.equal(p, q) for p, q in zip(train(alone, optimizer, ODD, range(4)), reference, strict=True))


def columns_cut(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    params, optimizer = made("stochastic", [(8, 64)], mesh, [Shard(1)])
    p = params[0]
    with torch.no_grad():
        p.fill_(1.0)
    p.grad = distribute_tensor(torch.ones(8, 64, dtype=torch.bfloat16), mesh, [Shard(1)])
    optimizer._pieces = None  # which needs cuts between rows
    optimizer.step()
    return p.full_tensor().detach().clone()


def test_cuts_within_rows_draw_bits_of_their_own():
    """A step of 0.001 from 1 to the next smaller number, which is 1/256 below: some elements make it, and not the same ones on each rank."""
    results = good(run(2, columns_cut))
    for whole in results:
        assert torch.equal(whole, results[0])
        assert set(whole.flatten().tolist()) == {1.0, 1.0 - 2.0**-8}
        assert 0.1 < (whole < 1).float().mean() < 0.45
        mine, others = whole.split(32, dim=1)
        assert not torch.equal(mine, others)
