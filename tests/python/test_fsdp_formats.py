"""Low-bit moments of DTensors: the same state on any mesh, whether a cut falls into a block or not, and through files."""

import io
import tempfile

import pytest
import torch
import torch.distributed.checkpoint as dcp
from processes import good, run
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from stepfuse.torch import AdamW

# Rows of whole blocks, of none, a vector, a small matrix, experts in three dimensions, fewer rows than ranks.
SHAPES = [(24, 256), (40, 129), (6144,), (3, 256), (5, 4, 256), (6, 10, 128), (2, 4096)]
BLOCKED = [0, 4, 5, 6]  # of them; the others are exempt: by shape, or as they are small
FORMATS = ["dyn8", "fp8", "exp_avg=int8|exp_avg_sq=sqrt8", "exp_avg=dyn4|exp_avg_sq=lin4"]


def values(seed):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw) for shape in SHAPES]


def made(mesh, place, moments):
    params = [nn.Parameter(distribute_tensor(w, mesh, place)) for w in values(0)]
    return params, AdamW(params, lr=0.01, moments=moments, weight_decay=0.1)


def train(mesh, place, params, optimizer, steps):
    for step in steps:
        for p, g in zip(params, values(step + 1)):
            p.grad = distribute_tensor(g, mesh, place)
        optimizer.step()


def gathered(value):
    """All of a tensor; of float8, which neither gloo nor pickle takes, as bytes."""
    if value.dtype.itemsize == 1:
        value = (DTensor.from_local(value.to_local().view(torch.uint8), value.device_mesh, value.placements, run_check=False, shape=value.shape,
                                    stride=value.stride()) if isinstance(value, DTensor) else value.view(torch.uint8))
    return (value.full_tensor() if isinstance(value, DTensor) else value).clone()


def whole(params, optimizer):
    """Weights and state of all ranks."""
    return [p.full_tensor().detach().clone() for p in params] + [
        {name: gathered(value) for name, value in optimizer.state[p].items()} for p in params]


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
    return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)


def trained(rank, world, moments):
    mesh = init_device_mesh("cpu", (world,))
    params, optimizer = made(mesh, [Shard(0)], moments)
    train(mesh, [Shard(0)], params, optimizer, range(3))
    return whole(params, optimizer)


@pytest.mark.parametrize("moments", FORMATS)
def test_every_mesh_has_the_same_state(moments):
    worlds = [good(run(world, trained, moments)) for world in (1, 2, 3, 4)]
    for results in worlds:
        for result in results:
            assert all(equal(a, b) for a, b in zip(result, worlds[0][0], strict=True))
    states = worlds[0][0][len(SHAPES):]
    assert [i for i, state in enumerate(states) if any("." in name for name in state)] == BLOCKED


@pytest.mark.parametrize("moments", FORMATS)
def test_is_a_plain_tensors_state(moments):
    """Parameters that are not exempt have the codes of plain ones; others have more digits."""
    sharded = good(run(2, trained, moments))[0]
    plain = [nn.Parameter(w) for w in values(0)]
    optimizer = AdamW(plain, lr=0.01, moments=moments, weight_decay=0.1)
    for step in range(3):
        for p, g in zip(plain, values(step + 1)):
            p.grad = g
        optimizer.step()
    for i in BLOCKED:
        assert torch.equal(sharded[i], plain[i])
        for name, value in optimizer.state[plain[i]].items():
            assert torch.equal(sharded[len(SHAPES) + i][name].flatten(), gathered(value).flatten()), name


def two_dimensions(rank, world, moments):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    found = []
    for place in ([Replicate(), Shard(0)], [Shard(0), Replicate()], [Shard(0), Shard(0)]):
        params, optimizer = made(mesh, place, moments)
        train(mesh, place, params, optimizer, range(3))
        found.append(whole(params, optimizer))
    place = [Shard(0), Shard(1)]
    w = torch.randn(6, 1024, generator=torch.Generator().manual_seed(3))
    p = nn.Parameter(distribute_tensor(w, mesh, place))
    optimizer = AdamW([p], lr=0.01, moments=moments, moments_min=0)
    plain = nn.Parameter(w.clone())
    alone = AdamW([plain], lr=0.01, moments=moments, moments_min=0)
    for _ in range(3):
        p.grad, plain.grad = distribute_tensor(w, mesh, place), w.clone()
        optimizer.step()
        alone.step()
    assert torch.equal(p.full_tensor(), plain)
    for name, value in alone.state[plain].items():
        assert torch.equal(gathered(optimizer.state[p][name]).flatten(), gathered(value).flatten()), name
    return found


@pytest.mark.parametrize("moments", FORMATS[:2])
def test_meshes_of_two_dimensions(moments):
    expected = good(run(1, trained, moments))[0]
    for result in good(run(4, two_dimensions, moments)):
        for found in result:
            assert all(equal(a, b) for a, b in zip(found, expected, strict=True))


def refused(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    w = torch.ones(20, 768)  # two ranks have 384 columns each, one and a half blocks
    p = nn.Parameter(distribute_tensor(w, mesh, [Shard(1)]))
    p.grad = distribute_tensor(w, mesh, [Shard(1)])
    with pytest.raises(TypeError, match=r"moments=fp8 has blocks of 256 elements along rows, and parameter 0 of group 0, of shape \(20, 768\)"):
        AdamW([p], lr=0.1, moments="fp8").step()
    AdamW([p], lr=0.1, moments="bf16").step()
    AdamW([p], lr=0.1, moments="int8").step()  # blocks of 32


def test_a_cut_within_blocks_is_refused_on_all_ranks():
    good(run(2, refused))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.second = nn.Linear(256, 40), nn.Linear(40, 256)

    def forward(self, x):
        return self.second(self.first(x).tanh())


def network(moments, world=1):
    """On four ranks that load, two have copies of what the other two have."""
    model = Net()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "shards")) if world == 4 else None
    fully_shard(model.first, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, AdamW(model.parameters(), lr=0.01, moments=moments)


def learn(model, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        x = torch.randn(4, 256, generator=torch.Generator().manual_seed(step))
        model(x).square().mean().backward()
        for p in model.parameters():  # one gradient on any number of ranks: the mean of equal ones may be rounded
            g = torch.randn(p.shape, generator=torch.Generator().manual_seed(step))
            p.grad = distribute_tensor(g, p.device_mesh, p.placements)
        optimizer.step()


def everything(model, optimizer):
    return whole(list(model.parameters()), optimizer)


def save(rank, world, folder, moments):
    model, optimizer = network(moments)
    learn(model, optimizer, range(3))
    dcp.save({"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}, checkpoint_id=folder)
    saved = everything(model, optimizer)
    learn(model, optimizer, range(3, 5))
    return saved, everything(model, optimizer)


def load(rank, world, folder, moments):
    model, optimizer = network(moments, world)
    state = {"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"])
    set_optimizer_state_dict(model, optimizer, state["optimizer"])
    loaded = everything(model, optimizer)
    learn(model, optimizer, range(3, 5))
    if moments == "fp8":  # gloo does not gather float8
        return loaded, everything(model, optimizer), None
    full = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    kept = io.BytesIO()
    torch.save(full, kept)
    return loaded, everything(model, optimizer), kept.getvalue()


@pytest.mark.parametrize("moments", ["dyn8", "fp8", "exp_avg=dyn4|exp_avg_sq=lin4"])
def test_a_checkpoint_goes_on_bit_for_bit_on_other_meshes(moments):
    with tempfile.TemporaryDirectory() as folder:
        saved, after = good(run(4, save, folder, moments))[0]
        assert any("." in name for name in saved[len(list(Net().parameters()))])
        for world in (4, 1, 2, 3):
            results = good(run(world, load, folder, moments))
            for loaded, then, _ in results:
                assert all(equal(a, b) for a, b in zip(loaded, saved, strict=True))
                assert all(equal(a, b) for a, b in zip(then, after, strict=True))
    if results[0][2] is None:
        return
    # The whole state goes on in one process, with plain tensors.
    model = Net()
    optimizer = AdamW(model.parameters(), lr=0.01, moments=moments)
    with torch.no_grad():
        for p, w in zip(model.parameters(), after):
            p.copy_(w)
    set_optimizer_state_dict(model, optimizer, torch.load(io.BytesIO(results[0][2])))
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.param_groups[0].update(lr=0.0)
    optimizer.step()
    assert torch.equal(model.first.weight, after[0])
    assert any("." in name for name in optimizer.state[model.first.weight])
