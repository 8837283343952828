"""Adaptive gradient clipping of shards: rows that are whole on a rank are clipped as on one device, others are refused."""

import pytest
import torch
from processes import good, run
from test_agc import gradients
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from stepfuse.torch import AdamW, LossScaler, ZeroRedundancyOptimizer


def on_shards(rank, world, way):
    torch.manual_seed(2)
    shapes = ((64, 1024), (33, 7), (2, 3, 5)) if way == "FSDP" else ((64, 1024), (33, 7), (300,))
    values = [torch.randn(s) for s in shapes]
    alone = [torch.nn.Parameter(v.clone()) for v in values]
    one = AdamW(alone, lr=0.01, clip_factor=0.02, scaler=LossScaler(init_scale=2.0))
    if way == "FSDP":
        mesh = init_device_mesh("cpu", (world,))
        params = [torch.nn.Parameter(distribute_tensor(v, mesh, [Shard(0)])) for v in values]
        many = AdamW(params, lr=0.01, clip_factor=0.02, scaler=LossScaler(init_scale=2.0))
    else:
        params = [torch.nn.Parameter(v.clone()) for v in values]
        many = ZeroRedundancyOptimizer(params, AdamW, exact=way == "exact", reduce_gradients=False, lr=0.01, clip_factor=0.02,
                                       scaler=LossScaler(init_scale=2.0))
    for i in range(4):
        gradients(alone, i)
        for p, q in zip(alone, params):
            if i == 2:
                p.grad.view(-1)[5] = float("inf")
            q.grad = distribute_tensor(p.grad.clone(), q.device_mesh, [Shard(0)]) if isinstance(q, DTensor) else p.grad.clone()
        one.step()
        many.step()
        assert many.stats()["skipped"] == one.stats()["skipped"] == (i == 2)
        for p, q in zip(alone, params):
            assert torch.equal(p, q.full_tensor() if isinstance(q, DTensor) else q)


@pytest.mark.parametrize("way", ["FSDP", "ZeRO", "exact"])
@pytest.mark.parametrize("world", [1, 2, 3])
def test_shards_of_whole_rows_have_the_bits_of_one_device(world, way):
    good(run(world, on_shards, way))


def in_parts(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    p = torch.nn.Parameter(distribute_tensor(torch.ones(6, 40), mesh, [Shard(1)]))
    p.grad = distribute_tensor(torch.ones(6, 40), mesh, [Shard(1)])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="AdamW: rows of parameter 0 of group 0 are divided between ranks, .* clip_factor=None"):
            AdamW([p], clip_factor=0.01).step()
    with pytest.raises(ValueError, match="a row of parameter 0 of group 0, of 50000 elements, is divided between two ranks"):
        ZeroRedundancyOptimizer([torch.nn.Parameter(torch.ones(2, 50000))], AdamW, clip_factor=0.01)


def test_rows_in_parts_are_refused():
    good(run(2, in_parts))
