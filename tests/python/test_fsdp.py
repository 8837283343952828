"""Under FSDP2: DTensor parameters, uneven and empty shards, mixed precision, one norm, checkpoints for other ranks."""

import functools
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from processes import good, run, run_each
from test_ddp import Counter, loss_of, network
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import stepfuse
from stepfuse.torch import LAMB, SGD, Adagrad, AdamW, Formula, LossScaler

RANKS = (1, 2, 3, 4)


def sharded(dtype=None, **policy):
    model = network().to(dtype or torch.float32)
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mp_policy=MixedPrecisionPolicy(**policy))
    return fully_shard(model, mp_policy=MixedPrecisionPolicy(**policy))


def full(model):
    return [p.full_tensor().detach().clone() for p in model.parameters()]


def beside_torch(rank, world, ours, theirs, kw, policy):
    a, b = sharded(**policy), sharded(**policy)
    ours, theirs = ours(a.parameters(), **kw), theirs(b.parameters(), **kw)
    for step in range(4):
        for model, optimizer in ((a, ours), (b, theirs)):
            optimizer.zero_grad()
            loss_of(model, step, rank, False).backward()
            optimizer.step()
    # torch's square root is not correctly rounded on every CPU.
    same = torch.equal if isinstance(ours, SGD) else functools.partial(torch.allclose, rtol=1e-4, atol=1e-6)
    states = ours.state_dict()["state"], theirs.state_dict()["state"]
    for i, state in states[1].items():
        for name, value in state.items():
            assert type(states[0][i][name]) is type(value), name
            mine, its = (v.full_tensor() if isinstance(v, DTensor) else v for v in (states[0][i][name], value))
            assert same(mine, its), (i, name)
    assert all(same(p, q) for p, q in zip(full(a), full(b)))
    return [p.to_local().numel() for p in a.parameters()]


@pytest.mark.parametrize(("world", "pair", "kw", "policy"), [
    (1, (AdamW, torch.optim.AdamW), {"lr": 0.01}, {}),
    (2, (SGD, torch.optim.SGD), {"lr": 0.01, "momentum": 0.9}, {}),
    (4, (SGD, torch.optim.SGD), {"lr": 0.01, "momentum": 0.9, "nesterov": True},
     {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}),
    (3, (Adagrad, torch.optim.Adagrad), {"lr": 0.01}, {}),
    (4, (AdamW, torch.optim.AdamW), {"lr": 0.01, "amsgrad": True},
     {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}),
], ids=str)
def test_is_torchs(world, pair, kw, policy):
    sizes = good(run(world, beside_torch, *pair, kw, policy))
    if world == 4:
        assert any(n == 0 for n in sizes[3])  # its three rows leave some ranks without one
        assert sizes[0] != sizes[3]


def clipped(rank, world, dtype):
    model = sharded(dtype, **({} if dtype is None else {"param_dtype": dtype}))
    scaler = LossScaler(init_scale=1024.0, growth_interval=2)
    optimizer = AdamW(model.parameters(), lr=0.01, max_norm=0.5, scaler=scaler)
    counter = Counter()
    seen = []
    for step in range(5):
        optimizer.zero_grad()
        optimizer.scale(loss_of(model, step, rank, False)).backward()
        if step == 2 and rank == world - 1:  # after the reduction, so only in this rank's shard
            last = [p for p in model.parameters() if p.to_local().numel()][-1]
            last.grad.to_local().view(-1)[0] = float("inf")
        want = torch.stack([p.grad.full_tensor().float().norm() for p in model.parameters()]).norm() / scaler.get_scale()
        before = counter.calls
        optimizer.step()
        # the first step also compares the ranks' parameters
        assert counter.calls - before == (0 if world == 1 else 2 if step == 0 else 1)
        stats = optimizer.stats()
        assert step == 2 or stats["grad_norm"] == pytest.approx(want.item(), rel=1e-5)
        seen.append((stats["grad_norm"], stats["skipped"], scaler.get_scale(),
                     sum(p.double().sum().item() for p in full(model))))
    masters = [s["master"] for s in optimizer.state_dict()["state"].values() if "master" in s]
    assert all(isinstance(m, DTensor) and m.dtype == torch.float32 for m in masters)
    assert len(masters) == (0 if dtype is None else 6)
    return seen


@pytest.mark.parametrize(("world", "dtype"), [(1, None), (2, torch.bfloat16), (3, None), (4, None)], ids=str)
def test_one_norm_and_one_verdict(world, dtype):
    seen = good(run(world, clipped, dtype))
    assert all(str(steps) == str(seen[0]) for steps in seen)
    assert [skipped for _, skipped, *_ in seen[0]] == [0, 0, 1, 0, 0]
    assert [scale for _, _, scale, _ in seen[0]] == [1024, 2048, 1024, 1024, 2048]
    sums = [s for *_, s in seen[0]]
    assert sums[1] == sums[2] != sums[3]


def averages(rank, world, dtype):
    model = sharded(dtype, **({} if dtype is None else {"param_dtype": dtype}))
    optimizer = AdamW(model.parameters(), lr=0.01, ema_decay=0.5)
    still = next(model.parameters())
    optimizer.set_scale(still, lr=0.0)
    first, means = full(model), None
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, step, rank, False).backward()
        optimizer.step()
        masters = [optimizer.state[p].get("master", p).full_tensor().clone() for p in model.parameters()]
        means = masters if means is None else [torch.lerp(a, b, 0.5) for a, b in zip(means, masters)]
    weights = full(model)
    with optimizer.averaged():
        shown = full(model)
    assert all(torch.allclose(a, b.to(a.dtype)) for a, b in zip(shown, means))
    assert not torch.equal(shown[2], weights[2])
    assert all(torch.equal(a, b) for a, b in zip(full(model), weights))
    assert torch.equal(first[0], weights[0]) and not torch.equal(first[1], weights[1])


@pytest.mark.parametrize("world", [1, 3])
def test_scales_and_averages_of_dtensors(world):
    run_each(world, averages, [(None,), (torch.bfloat16,)])


def counts_of_unused(rank, world, pair):
    mesh = init_device_mesh("cpu", (world,))
    shown = []
    for make in pair:
        params = [nn.Parameter(distribute_tensor(torch.ones(rows, 2), mesh, [Shard(0)])) for rows in (6, 2, 0)]
        optimizer = make(params, lr=0.1)
        for unused in ((), (1, 2), (1,), (2,)):
            for i, p in enumerate(params):
                p.grad = None if i in unused else torch.ones_like(p)
            optimizer.step()
        shown.append([state["step"].item() for state in optimizer.state_dict()["state"].values()])
    return shown


@pytest.mark.parametrize("pair", [(AdamW, torch.optim.AdamW), (Adagrad, torch.optim.Adagrad)])
def test_a_parameter_without_gradient_is_not_counted_by_ranks_with_an_empty_shard(pair):
    for ours, its in good(run(3, counts_of_unused, pair)):
        assert ours == its == [4, 2, 2]


def save(rank, world, folder):
    model = sharded()
    optimizer = AdamW(model.parameters(), lr=0.01, max_norm=0.5)
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, step, rank, False).backward()
        optimizer.step()
    dcp.save({"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}, checkpoint_id=folder)
    return full(model), arrays(optimizer)


def arrays(optimizer):
    return [(v.full_tensor() if isinstance(v, DTensor) else v).clone()
            for s in optimizer.state_dict()["state"].values() for v in s.values()]


def load(rank, world, folder):
    model = sharded()
    optimizer = AdamW(model.parameters(), lr=0.01, max_norm=0.5)
    state = {"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimizer)}
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"])
    set_optimizer_state_dict(model, optimizer, state["optimizer"])
    loaded = full(model), arrays(optimizer)
    optimizer.zero_grad()
    # the same batch on all ranks: one gradient for any number of them
    loss_of(model, 3, 0, False).backward()
    optimizer.step()
    return loaded, full(model)


def test_a_checkpoint_goes_on_with_another_number_of_ranks():
    with tempfile.TemporaryDirectory() as folder:
        weights, states = good(run(4, save, folder))[0]
        after = []
        for world in (1, 2, 3):
            for (again, loaded), then in good(run(world, load, folder)):
                assert all(torch.equal(p, q) for p, q in zip(weights, again, strict=True))
                assert all(torch.equal(p, q) for p, q in zip(states, loaded, strict=True))
                after.append(then)
        assert all(torch.allclose(p, q, rtol=1e-5, atol=1e-7) for other in after for p, q in zip(after[0], other))


def duplicates(rank, world):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    torch.manual_seed(1)
    whole = [torch.randn(6, 5), torch.randn(7), torch.randn(3, 4)]
    placements = [(Shard(0), Shard(1)), (Shard(0), Replicate()), (Replicate(), Replicate())]
    params = [nn.Parameter(distribute_tensor(w.clone(), mesh, p)) for w, p in zip(whole, placements)]
    optimizer = AdamW(params, lr=0.1, max_norm=1.0)
    for p, w, place in zip(params, whole, placements):
        p.grad = distribute_tensor(w.clone(), mesh, place)
    optimizer.step()
    norm = torch.cat([w.flatten() for w in whole]).norm().item()
    alone = [nn.Parameter(w.clone()) for w in whole]
    single = AdamW(alone, lr=0.1, max_norm=1.0)
    for p in alone:
        p.grad = p.detach().clone()
    single.step()
    close = all(torch.allclose(p.full_tensor(), q, rtol=1e-6) for p, q in zip(params, alone))
    return optimizer.stats()["grad_norm"], norm, close


def test_what_several_ranks_hold_counts_once():
    for got, want, close in good(run(4, duplicates)):
        assert got == pytest.approx(want, rel=1e-6) and close


def misused(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    said = []
    weight = nn.Parameter(distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)]))
    weight.grad = distribute_tensor(torch.ones(4, 2), mesh, [Replicate()])
    with pytest.raises(RuntimeError, match=r"has placements .*, but its gradient has .*redistribute"):
        AdamW([weight], lr=0.1).step()
    weight.grad = None
    plain = nn.Parameter(torch.ones(3))
    plain.grad = torch.ones(3)
    with pytest.raises(ValueError, match="not all DTensors of meshes with the same ranks; call share_norm"):
        AdamW([weight, plain], lr=0.1, max_norm=1.0).step()
    columns = distribute_tensor(torch.ones(4, 2), mesh, [Shard(1)])
    whole = LAMB([nn.Parameter(columns)], lr=0.1)
    whole.param_groups[0]["params"][0].grad = columns.detach().clone()
    with pytest.raises(stepfuse.Error, match="over a whole parameter, and this rank has only a part"):
        whole.step()
    named = Formula([nn.Parameter(columns.detach())], lr=0.1, max_norm=1.0, norm_type=float("inf"),
                    formula='optimizer x "" { hyper lr = 1\nlet sum = sum(w, tensor)\nw = w - lr * (sum + g) }')
    named.param_groups[0]["params"][0].grad = columns.detach().clone()
    with pytest.raises(stepfuse.Error, match="reduces 'sum' over a whole parameter, and this rank has only a part"):
        named.step()
    sums = nn.Parameter(DTensor.from_local(torch.ones(3), mesh, [Partial()]))
    sums.grad = DTensor.from_local(torch.ones(3), mesh, [Partial()])
    with pytest.raises(TypeError, match="sharded or replicated"):
        AdamW([sums], lr=0.1).step()
    return said


def test_misuse_is_explained():
    good(run(2, misused))
