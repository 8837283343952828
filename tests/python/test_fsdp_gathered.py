"""Formulas that reduce over a parameter, on DTensors: one rank has it whole while it steps, with the bits of one process on any mesh."""

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

import stepfuse
from stepfuse.torch import LAMB, Adafactor, AdamW, Formula

SHAPES = [(24, 16), (7, 5), (33,), (2, 6, 8), (3, 256), (6000,), (1, 256), (2, 512)]
WAYS = {"Adafactor": (Adafactor, {}, torch.float32), "Adafactor, bf16": (Adafactor, {"weight_rounding": "stochastic"}, torch.bfloat16),
        "LAMB": (LAMB, {}, torch.float32), "LAMB, masters": (LAMB, {"master": "remainder", "max_norm": 0.5, "exact": True}, torch.bfloat16),
        "rows": (AdamW, {"clip_factor": 0.01}, torch.float32), "caution": (AdamW, {"caution": True}, torch.float32),
        "update": (AdamW, {"update_clip": "rms", "moments": "dyn8", "moments_min": 0}, torch.float32),
        "adagc": (AdamW, {"clip": "adagc", "clip_warmup": 2, "max_norm": 1.0, "exact": True}, torch.float32)}
MESHES = {"two": ((2,), [Shard(0)]), "three": ((3,), [Shard(0)]), "hybrid": ((2, 2), [Replicate(), Shard(0)])}
SUM = 'optimizer x "" { hyper lr = 1\nw = w - lr * (sum(w, step) + g) }'


def values(seed, dtype):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw).to(dtype) for shape in SHAPES]


def made(way, mesh=None, placements=()):
    cls, kw, dtype = WAYS[way]
    kw = {key: value for key, value in kw.items() if key != "exact" or mesh is not None}
    params = [nn.Parameter(w if mesh is None else distribute_tensor(w, mesh, placements)) for w in values(0, dtype)]
    groups = [{"params": [p]} for p in params]
    for group in groups if mesh is None else ():
        p = group["params"][0]
        row = p[0].numel() if p.ndim > 1 else 0
        if "weight_rounding" in kw and (not row or row % 4):  # which DTensors compensate
            group["weight_rounding"] = "kahan"
        if "moments" in kw and (not row or row % 256):  # which DTensors keep in f32
            group["moments"] = "f32"
    return params, cls(groups, lr=0.01, **kw)


def train(params, optimizer, steps, mesh=None, placements=()):
    for step in steps:
        for p, g in zip(params, values(step + 1, params[0].dtype)):
            p.grad = g if mesh is None else distribute_tensor(g, mesh, placements)
        optimizer.step()
    return [(p.full_tensor() if isinstance(p, DTensor) else p).detach().clone() for p in params]


def on_mesh(rank, world, way, kind):
    shape, placements = MESHES[kind]
    mesh = init_device_mesh("cpu", shape)
    params, optimizer = made(way, mesh, placements)
    weights = train(params, optimizer, range(4), mesh, placements)
    state = optimizer.state_dict()["state"]
    assert all(isinstance(value, DTensor) for s in state.values() for name, value in s.items() if name.startswith(("exp_avg", "remainder")))
    return weights, [{name: value for name, value in s.items() if name in ("row_var", "col_var", "step", "clip_average")} for s in state.values()]


@pytest.mark.parametrize("kind", MESHES)
def test_has_one_processs_bits(kind):
    world = torch.Size(MESHES[kind][0]).numel()
    for way, results in zip(WAYS, run_each(world, on_mesh, [(way, kind) for way in WAYS]), strict=True):
        params, optimizer = made(way)
        expected = train(params, optimizer, range(4))
        state = optimizer.state_dict()["state"]
        for weights, kept in results:
            for mine, whole in zip(weights, expected, strict=True):
                assert torch.equal(mine, whole), (way, tuple(whole.shape))
            for mine, whole in zip(kept, state.values(), strict=True):
                assert all(torch.equal(value, whole[name]) for name, value in mine.items()), way


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.ModuleList([nn.Linear(12, 12) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x.square().mean()


def fsdp(rank, world, cls, folder, save):
    model = Net()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    for module in (*model.layers, model):
        module.set_force_sum_reduction_for_comms(True)  # gloo has no other
        module.set_gradient_divide_factor(1.0)
    optimizer = cls(model.parameters(), lr=0.02)

    def steps(which):
        for step in which:
            x = torch.randn(4, 12, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            (model(x) * float(rank == 0)).backward()  # so that the sum of gradients is one process's
            optimizer.step()

    state = {"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}
    if save:
        steps(range(3))
        dcp.save({"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}, checkpoint_id=folder)
    else:
        dcp.load(state, checkpoint_id=folder)
        model.load_state_dict(state["model"])
        set_optimizer_state_dict(model, optimizer, state["optimizer"])
    steps(range(3, 6))
    return [p.full_tensor().detach() for p in model.parameters()]


@pytest.mark.parametrize("cls", [Adafactor, LAMB], ids=lambda cls: cls.__name__)
def test_a_checkpoint_goes_on_with_another_number_of_ranks(cls):
    with tempfile.TemporaryDirectory() as folder:
        expected = good(run(3, fsdp, cls, folder, True))[0]
        for world in (1, 2, 4):
            for weights in good(run(world, fsdp, cls, folder, False)):
                assert all(torch.equal(p, q) for p, q in zip(weights, expected, strict=True))


def refused(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    for cls, kw, placements in ((LAMB, {}, [Shard(1)]), (Formula, {"formula": SUM}, [Shard(0)])):
        p = nn.Parameter(distribute_tensor(torch.ones(4, 6), mesh, placements))
        p.grad = distribute_tensor(torch.ones(4, 6), mesh, placements)
        with pytest.raises(stepfuse.Error, match="over a whole parameter, and this rank has only a part"):
            cls([p], **kw).step()
    return True


def test_what_one_rank_cannot_have_whole_is_refused():
    assert all(good(run(2, refused)))


def missing(rank, world):
    """A parameter without a gradient stays as it is; the others are stepped."""
    mesh = init_device_mesh("cpu", (world,))
    params, optimizer = made("LAMB", mesh, [Shard(0)])
    train(params, optimizer, range(1), mesh, [Shard(0)])
    before = [p.full_tensor().detach().clone() for p in params]
    params[1].grad = None
    optimizer.step()
    return [torch.equal(p.full_tensor(), q) for p, q in zip(params, before)]


def test_without_a_gradient():
    for same in good(run(2, missing)):
        assert same == [i == 1 for i in range(len(SHAPES))]
