"""Muon over DTensors: matrices are gathered, made orthogonal and scattered, with the bits of one process on any mesh."""

import tempfile

import pytest
import torch
import torch.distributed.checkpoint as dcp
from processes import good, run, run_each
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from stepfuse.torch import LossScaler, Muon

if not hasattr(torch.optim, "Muon"):
    pytest.skip("torch < 2.9 has no Muon", allow_module_level=True)

# Batches of equal shapes, fewer rows than ranks, tall and wide ones, and experts in three dimensions.
SHAPES = [(24, 16), (24, 16), (3, 8), (16, 40), (24, 16), (5, 12, 8), (40, 9)]
MESHES = {"rows": ((4,), [Shard(0)]), "columns": ((2,), [Shard(1)]), "hybrid": ((2, 2), [Replicate(), Shard(0)]),
          "both": ((2, 2), [Shard(0), Shard(1)]), "three": ((3,), [Shard(0)]), "one": ((1,), [Shard(0)])}
CASES = [{}, {"adjust_lr_fn": "match_rms_adamw", "nesterov": False}, {"max_norm": 0.5, "skip_norm": 1e6}]


def values(seed):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw) for shape in SHAPES]


def train(params, optimizer, steps, mesh=None, placements=(), bad=()):
    for step in steps:
        gradients = values(step + 1)
        if step in bad:
            gradients[2][2, 5] = float("nan")  # on one rank's shard
        for i, (p, g) in enumerate(zip(params, gradients)):
            p.grad = None if step == 2 and i == 1 else g if mesh is None else distribute_tensor(g, mesh, placements)
        optimizer.step()
    return [(p.full_tensor() if isinstance(p, DTensor) else p).detach().clone() for p in params]


def alone(kw, steps=range(5), bad=()):
    params = [nn.Parameter(w) for w in values(0)]
    return train(params, Muon(params, lr=0.02, **kw), steps, bad=bad)


def sharded(rank, world, kind, kw, bad=()):
    shape, placements = MESHES[kind]
    mesh = init_device_mesh("cpu", shape)
    params = [nn.Parameter(distribute_tensor(w, mesh, placements)) for w in values(0)]
    exact = {"exact": True} if "max_norm" in kw and kind not in ("columns", "both") else {}
    optimizer = Muon(params, lr=0.02, **kw, **exact)
    return train(params, optimizer, range(5), mesh, placements, bad)


@pytest.mark.parametrize("kind", MESHES)
def test_has_one_processs_bits(kind):
    world = torch.Size(MESHES[kind][0]).numel()
    cases = CASES[:2] if kind in ("columns", "both") else CASES  # whose norms' last bits depend on the mesh
    for kw, results in zip(cases, run_each(world, sharded, [(kind, kw) for kw in cases]), strict=True):
        expected = alone(kw)
        for weights in results:
            assert all(torch.equal(p, q) for p, q in zip(weights, expected, strict=True)), kw


def test_all_ranks_skip_what_one_rank_found():
    kw = {"skip_nonfinite": True}
    expected = alone(kw, bad=(1, 3))
    assert all(p.isfinite().all() for p in expected)
    for weights in good(run(4, sharded, "rows", kw, (1, 3))):
        assert all(torch.equal(p, q) for p, q in zip(weights, expected, strict=True))


def test_experts_are_batches_of_matrices():
    experts = nn.Parameter(values(0)[5])
    matrices = [nn.Parameter(m.clone()) for m in experts.detach()]
    for adjust in (None, "match_rms_adamw"):
        pair = [Muon([experts], lr=0.02, adjust_lr_fn=adjust), torch.optim.Muon(matrices, lr=0.02, adjust_lr_fn=adjust)]
        for step in range(3):
            experts.grad = values(step + 1)[5]
            for m, g in zip(matrices, experts.grad):
                m.grad = g.clone()
            for optimizer in pair:
                optimizer.step()
        assert torch.equal(experts, torch.stack([m.detach() for m in matrices]))


def polar(batch):
    """The nearest orthogonal matrices, by singular values."""
    u, _, vh = torch.linalg.svd(batch.float(), full_matrices=False)
    return (u @ vh).to(batch.dtype)


def with_polar(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    params = [nn.Parameter(distribute_tensor(w, mesh, [Shard(0)])) for w in values(0)]
    return train(params, Muon(params, lr=0.02, orthogonalize=polar), range(3), mesh, [Shard(0)])


def test_users_orthogonalize_gets_whole_batches():
    seen = []

    def watched(batch):
        seen.append(tuple(batch.shape))
        return polar(batch)

    params = [nn.Parameter(w) for w in values(0)]
    expected = train(params, Muon(params, lr=0.02, orthogonalize=watched), range(3))
    assert seen[:5] == [(3, 24, 16), (1, 3, 8), (1, 16, 40), (5, 12, 8), (1, 40, 9)]
    for weights in good(run(2, with_polar)):
        # The singular values of a batch may depend on the batch in their last bits.
        assert all(torch.allclose(p, q, atol=1e-3) for p, q in zip(weights, expected, strict=True))


def test_a_wrong_orthogonalize_is_named():
    params = [nn.Parameter(w) for w in values(0)]
    with pytest.raises(ValueError, match=r"orthogonalize= was given a batch of shape \(3, 24, 16\) and returned \(24, 16\)"):
        train(params, Muon(params, orthogonalize=lambda batch: batch[0]), range(1))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.ModuleList([nn.Linear(16, 16, bias=False) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x.square().mean()


def fsdp(rank, world, folder, save):
    model = Net()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    for module in (*model.layers, model):
        module.set_force_sum_reduction_for_comms(True)  # gloo has no other
        module.set_gradient_divide_factor(1.0)
    optimizer = Muon(model.parameters(), lr=0.02, moments="bf16", max_norm=0.01, exact=True, scaler=LossScaler(init_scale=4.0))

    def steps(which):
        for step in which:
            x = torch.randn(4, 16, generator=torch.Generator().manual_seed(step)) * (rank == 0)
            optimizer.zero_grad()
            optimizer.scale(model(x)).backward()
            optimizer.step()

    if save:
        steps(range(3))
        dcp.save({"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}, checkpoint_id=folder)
    else:
        state = {"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}
        dcp.load(state, checkpoint_id=folder)
        model.load_state_dict(state["model"])
        set_optimizer_state_dict(model, optimizer, state["optimizer"])
        optimizer.scaler.load_state_dict({**optimizer.scaler.state_dict(), "scale": 4.0, "_growth_tracker": 3})
    steps(range(3, 6))
    return [p.full_tensor().detach() for p in model.parameters()]


def test_a_checkpoint_goes_on_with_another_number_of_ranks():
    with tempfile.TemporaryDirectory() as folder:
        expected = good(run(4, fsdp, folder, True))[0]
        for world in (1, 2, 3):
            for weights in good(run(world, fsdp, folder, False)):
                assert all(torch.equal(p, q) for p, q in zip(weights, expected, strict=True))
