"""ZeRO stage 1: shares of the step on 1 to 7 ranks, one device's bits, agreement, checkpoints for other rank counts."""

import copy
import tempfile
import time
from types import MappingProxyType

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from processes import good, run, run_each
from test_ddp import digest
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer as TorchZero
from torch.nn.parallel import DistributedDataParallel

import stepfuse
from stepfuse.torch import LAMB, SGD, AdamW, LossScaler, ZeroRedundancyOptimizer
from stepfuse.torch.buckets import ALIGN, assign_offsets
from stepfuse.torch.late import Late, expect, welcome
from stepfuse.torch.ranks import PIECE, fold
from stepfuse.torch.zero import GATHERING

STEPS, OVERFLOW = 5, 2
BUCKET = 200_000  # bytes, which makes two buckets


def network(dtype=torch.float32):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(40, 900), nn.Tanh(), nn.Linear(900, 130), nn.Tanh(), nn.Linear(130, 5)).to(dtype)


def groups(model):
    params = list(model.parameters())
    return [{"params": [p for p in params if p.dim() > 1], "weight_decay": 0.1},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0, "lr": 0.02}]


def loss_of(model, step, rank, overflows=False):
    draw = torch.Generator().manual_seed(1000 * step + rank)
    x, y = torch.randn(6, 40, generator=draw), torch.randn(6, 5, generator=draw)
    dtype = next(model.parameters()).dtype
    loss = nn.functional.mse_loss(model(x.to(dtype)).float(), y)
    return loss * float("inf") if overflows else loss


def settings(norm_type):
    return {"lr": 0.01, "max_norm": 0.3, "norm_type": norm_type, "scaler": LossScaler(init_scale=256.0, growth_interval=2)}


def scale_and_more(model, optimizer, more):
    if "ema_decay" in more:
        optimizer.set_scale(model[2].parameters(), lr=0.5)


def average(model, optimizer, more):
    if "ema_decay" not in more:
        return None
    before = digest(model.parameters())
    with optimizer.averaged():
        averages = digest(model.parameters())
    assert digest(model.parameters()) == before != averages
    if isinstance(optimizer, ZeroRedundancyOptimizer):
        optimizer.consolidate_state_dict()
    return averages, [(g["n_averaged"], g["lr_scales"]) for g in optimizer.param_groups]


def see(model, optimizer, state):
    return (digest(model.parameters()), digest([v.reshape(-1) for s in state.values() for _, v in sorted(s.items())]),
            str(optimizer.stats()), optimizer.scaler.get_scale())


def arrived(bucket):
    until = time.monotonic() + 10
    while bucket.work is not None and not bucket.work.is_completed() and time.monotonic() < until:
        time.sleep(0.001)


def sharded(rank, world, exact, dtype, norm_type, more=MappingProxyType({})):
    model = network(dtype)
    if rank > 0:
        with torch.no_grad():
            next(model.parameters()).zero_()  # rank 0's weights are broadcast
    # The last gradient comes late, after earlier buckets have arrived.
    model[0].weight.register_post_accumulate_grad_hook(lambda _: arrived(optimizer._buckets[0]))
    optimizer = ZeroRedundancyOptimizer(groups(model), AdamW, exact=exact, bucket_bytes=BUCKET, overlap_gather=exact,
                                        **settings(norm_type), **more)
    scale_and_more(model, optimizer, more)
    seen = []
    for step in range(STEPS):
        optimizer.zero_grad()
        optimizer.scale(loss_of(model, step, rank, step == OVERFLOW and rank == world - 1)).backward()
        before = optimizer.messages
        early = sum(len(part.early) for part in optimizer._inner._engine.parts) if step else 0
        optimizer.step()
        messages = optimizer.messages - before
        assert all(isinstance(p, Late) == (exact and world > 1) for p in model.parameters())
        weights = digest(model.parameters())
        optimizer.consolidate_state_dict()
        state = optimizer.state_dict()["state"] if rank == 0 else {}
        seen.append(((weights, *see(model, optimizer, state)[1:]), messages, early))
    sizes = [part.numel() for part, _ in optimizer._shard.values()]
    return seen, sum(sizes), len(optimizer._buckets), average(model, optimizer, more)


def one_device(world, dtype, norm_type, more=MappingProxyType({})):
    model = network(dtype)
    optimizer = AdamW(groups(model), **settings(norm_type), **more)
    scale_and_more(model, optimizer, more)
    seen = []
    for step in range(STEPS):
        sums = None
        for rank in range(world):
            optimizer.zero_grad()
            optimizer.scale(loss_of(model, step, rank, step == OVERFLOW and rank == world - 1)).backward()
            shares = [p.grad * (1.0 / world) for p in model.parameters()]
            sums = shares if sums is None else [a + b for a, b in zip(sums, shares)]
        for p, g in zip(model.parameters(), sums):
            p.grad = g
        optimizer.step()
        seen.append(see(model, optimizer, optimizer.state_dict()["state"]))
    optimizer.state_dict()
    return seen, average(model, optimizer, more)


BY_CHANCE = (torch.bfloat16, 2.0, {"weight_rounding": "stochastic", "seed": 5})
# small parameters have no blocks
IN_BLOCKS = (torch.float32, 2.0, {"moments": "exp_avg=dyn4|exp_avg_sq=fp8"})
AVERAGED = (torch.float32, 2.0, {"ema_decay": 0.7})


@pytest.mark.parametrize(("world", "cases"), [
    (1, [(torch.float32, 2.0), BY_CHANCE]), (2, [(torch.bfloat16, 2.0), BY_CHANCE]), (3, [(torch.float32, 2.0), BY_CHANCE, AVERAGED, IN_BLOCKS]),
    (4, [(torch.float32, 1.0), (torch.float32, float("inf")), BY_CHANCE]), (7, [(torch.float32, 2.0), BY_CHANCE, IN_BLOCKS])], ids=str)
def test_exact_is_one_device_on_any_number_of_ranks(world, cases):
    for case, results in zip(cases, run_each(world, sharded, [(True, *case) for case in cases])):
        want, averages = one_device(world, *case)
        check_exact(world, results, want)
        assert all(of_rank == averages for *_, of_rank in results)


def check_exact(world, results, want):
    for rank, (seen, *_) in enumerate(results):
        for step, ((weights, state, stats, scale), _, _) in enumerate(seen):
            assert (weights, stats, scale) == (want[step][0], *want[step][2:]), (rank, step)
            assert rank > 0 or state == want[step][1], step
    scales = [s[3] for s, _, _ in results[0][0]]
    assert scales == [256, 512, 256, 256, 512]
    sizes = [size for _, size, *_ in results]
    assert sum(sizes) == sum(p.numel() for p in network().parameters())
    assert world == 1 or max(sizes) < 0.9 * sum(sizes)


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_agree_and_runs_repeat(world):
    first, again = run_each(world, sharded, [(False, torch.float32, 2.0)] * 2)
    strip = [[(w, stats, scale) for (w, _, stats, scale), *_ in seen] for seen, *_ in first]
    assert all(other == strip[0] for other in strip)
    assert strip == [[(w, stats, scale) for (w, _, stats, scale), *_ in seen] for seen, *_ in again]
    for seen, _, buckets, _ in first:
        assert buckets == 2
        # step() makes a norm and one all-gather per bucket; the first one also compares the ranks'
        # parameters.
        assert [m for _, m, _ in seen] == [1 + buckets + (i == 0) for i in range(STEPS)]
        # Arrived buckets were observed during backward.
        assert all(early > 0 for _, _, early in seen[1:]), [e for *_, e in seen]


def overlapped(rank, world):
    """Rank 1 sends its weights only after rank 0 has left step()."""
    store = dist.distributed_c10d._get_default_store()
    models = [network(), network()]
    first, second = (ZeroRedundancyOptimizer(m.parameters(), lr=0.01, bucket_bytes=BUCKET, overlap_gather=overlaps)
                     for m, overlaps in zip(models, (False, True)))
    begin, step = second._comm.begin, 0

    def late(what, call, *args, **kw):
        if rank == 1 and what == GATHERING:
            store.wait([f"go {step}"])
        return begin(what, call, *args, **kw)

    second._comm.begin = late
    for step in range(3):
        for model, optimizer in zip(models, (first, second)):
            loss_of(model, step, rank).backward()
            optimizer.step()
        assert all(isinstance(p, Late) for p in models[1].parameters())
        if rank == 0:
            store.set(f"go {step}", "1")
        second.zero_grad()
        assert all(isinstance(p, Late) and p.grad is None for p in models[1].parameters())
        models[1][0](torch.ones(1, 40))
        here = [not isinstance(p, Late) for p in models[1].parameters()]
        assert here == [True, True, False, False, False, False]
        if step == 0:  # some wrappers hold a parameter, not its module
            by_hand = torch._foreach_mul(list(models[1].parameters()), 1.0)
        elif step == 1:
            by_hand = list(copy.deepcopy(models[1].state_dict()).values())
        else:
            second.wait()
            by_hand = list(models[1].parameters())
        assert all(type(p) is nn.Parameter for p in models[1].parameters())
        assert all(torch.equal(p, q) for p, q in zip(by_hand, models[0].parameters(), strict=True))


def test_step_does_not_wait_for_weights_that_forward_waits_for():
    good(run(2, overlapped))


def test_a_compiled_model_says_that_its_weights_are_on_their_way():
    model = nn.Linear(3, 3)
    expect(model.parameters(), lambda: welcome(model.parameters()))
    with pytest.raises(Exception, match=r"call the optimizer's wait\(\) before the model"):
        torch.compile(model, backend="eager")(torch.ones(1, 3))
    assert torch.equal(model(torch.zeros(1, 3))[0], model.bias)


def beside_torch(rank, world, ours, theirs, kw):
    a, b = (DistributedDataParallel(network()) for _ in range(2))
    mine = ZeroRedundancyOptimizer(a.parameters(), ours, reduce_gradients=False, overlap_gather=True, **kw)
    its = TorchZero(b.parameters(), theirs, **kw)
    for step in range(3):
        for model, optimizer in ((a, mine), (b, its)):
            optimizer.zero_grad()
            loss_of(model, step, rank).backward()
            optimizer.step()
    for optimizer in (mine, its):
        optimizer.consolidate_state_dict(to=0)
    same = [torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters())]
    close = [torch.allclose(p, q, rtol=1e-4, atol=1e-6) for p, q in zip(a.parameters(), b.parameters())]
    if rank == 0:
        x, y = mine.state_dict(), its.state_dict()
        for i, state in y["state"].items():
            assert state.keys() == x["state"][i].keys()
            assert all(torch.allclose(x["state"][i][k], v, rtol=1e-4, atol=1e-6) for k, v in state.items())
        torch_alone = theirs(network().parameters(), **kw)
        torch_alone.load_state_dict(x)
    return all(same), all(close)


@pytest.mark.parametrize(("world", "ours", "theirs", "kw"), [
    (3, SGD, torch.optim.SGD, {"lr": 0.01, "momentum": 0.9}), (2, AdamW, torch.optim.AdamW, {"lr": 0.01})], ids=str)
def test_is_torchs_under_ddp(world, ours, theirs, kw):
    results = good(run(world, beside_torch, ours, theirs, kw))
    assert all(close for _, close in results)
    assert ours is not SGD or all(same for same, _ in results)


def train(model, optimizer, rank, steps, scheduled=True):
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + i)) if scheduled else None
    for step in steps:
        optimizer.zero_grad()
        optimizer.scale(loss_of(model, step, rank)).backward()
        optimizer.step()
        if scheduled:
            schedule.step()


def whole(optimizer, rank):
    optimizer.consolidate_state_dict()
    state = optimizer.state_dict()["state"] if rank == 0 else {}
    return {i: {k: v.clone() for k, v in s.items()} for i, s in state.items()}


def save(rank, world, folder, more):
    model = network(torch.bfloat16)
    optimizer = ZeroRedundancyOptimizer(groups(model), bucket_bytes=BUCKET, exact=True, **settings(2.0), **more)
    train(model, optimizer, 0, range(3))
    dcp.save({"model": model.state_dict(), "optimizer": optimizer.sharded_state_dict()}, checkpoint_id=folder)
    optimizer.consolidate_state_dict()
    full = optimizer.state_dict() if rank == 0 else None
    before = whole(optimizer, rank), [p.detach().clone() for p in model.parameters()], [g["lr"] for g in optimizer.param_groups]
    return before, full


def load(rank, world, folder, more, full):
    model = network(torch.bfloat16)
    optimizer = ZeroRedundancyOptimizer(groups(model), bucket_bytes=BUCKET, exact=True, **settings(2.0), **more)
    state = {"model": model.state_dict(), "optimizer": optimizer.sharded_state_dict()}
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"])
    if full is None:
        optimizer.load_sharded_state_dict(state["optimizer"])
    else:
        optimizer.load_state_dict(full)
    loaded = whole(optimizer, rank), [p.detach().clone() for p in model.parameters()], [g["lr"] for g in optimizer.param_groups]
    # the same batch on all ranks: one gradient for 1, 2 and 4 of them
    train(model, optimizer, 0, [3], scheduled=False)
    return loaded, [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("more", [{}, {"moments": "int8"}], ids=str)
def test_a_checkpoint_goes_on_with_another_number_of_ranks(more):
    with tempfile.TemporaryDirectory() as folder:
        results = good(run(4, save, folder, more))
        (states, weights, rates), full = results[0]
        assert all("master" in s and s["step"] == 3 for s in states.values())
        assert any("exp_avg.int8.scale" in s for s in states.values()) == bool(more)
        after = []
        for world, given in ((1, None), (2, None), (3, None), (2, full)):
            for rank, ((found, again, rate), then) in enumerate(good(run(world, load, folder, more, given))):
                assert rate == rates
                assert all(torch.equal(p, q) for p, q in zip(weights, again, strict=True))
                assert rank > 0 or all(torch.equal(v, found[i][k]) for i, s in states.items() for k, v in s.items())
                if world != 3:
                    after.append(then)
        assert all(torch.equal(p, q) for other in after for p, q in zip(after[0], other))


def switched(rank, world):
    """A whole torch state converts to shares in a format and back; blocks are those of the whole parameters."""
    model, other = network(), network()
    theirs = torch.optim.AdamW(other.parameters(), lr=0.01)
    alone = AdamW(network().parameters(), moments="fp8")
    loss_of(other, 0, 0).backward()
    theirs.step()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), lr=0.01, moments="fp8", bucket_bytes=BUCKET)
    optimizer.load_state_dict(theirs.state_dict())
    optimizer._inner._make_state()
    alone.load_state_dict(theirs.state_dict())
    alone._make_state()
    optimizer.consolidate_state_dict()
    if rank == 0:
        mine, its = optimizer.state_dict(), alone.state_dict()
        for i, state in its["state"].items():
            assert state.keys() == mine["state"][i].keys()
            assert all(torch.equal(v.float(), mine["state"][i][k].float()) for k, v in state.items())
    optimizer.consolidate_state_dict()
    if rank == 0:
        plain = optimizer.plain_state_dict()
        theirs.load_state_dict(plain)
        theirs.step()
        assert optimizer.param_groups[0]["moments"] == "fp8"


def test_torchs_state_is_shared_out_in_blocks():
    good(run(3, switched))


def accumulated(rank, world):
    results = []
    for together in (False, True):
        model = network()
        optimizer = ZeroRedundancyOptimizer(model.parameters(), SGD, lr=0.1)
        if together:
            (loss_of(model, 0, rank) + loss_of(model, 1, rank)).backward()
        else:
            with optimizer.no_sync():
                loss_of(model, 0, rank).backward()
            loss_of(model, 1, rank).backward()
        optimizer.step()
        results.append([p.detach().clone() for p in model.parameters()])
    loss_of(model, 0, rank).backward()
    with pytest.raises(RuntimeError, match=r"before step\(\) or zero_grad\(\); accumulate with no_sync"):
        loss_of(model, 0, rank).backward()
    optimizer.zero_grad()
    with pytest.raises(RuntimeError, match="consolidate_state_dict"):
        optimizer.state_dict()
    with pytest.raises(TypeError, match="optimizer_class: expected a class of stepfuse.torch"):
        ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)
    with pytest.raises(ValueError, match="does not change a parameter's dtype"):
        ZeroRedundancyOptimizer(model.parameters(), store={"weight": "bf16+ecc24"})
    model[0].bias.requires_grad_(False)
    with pytest.raises(ValueError, match="is frozen"):
        ZeroRedundancyOptimizer(model.parameters())
    whole = ZeroRedundancyOptimizer(network().parameters(), LAMB, lr=0.1, allow_unused=True)
    with pytest.raises(stepfuse.Error, match="and this rank has only a part"):
        whole.step()
    return all(torch.allclose(p, q, rtol=1e-5) for p, q in zip(*results))


def test_accumulation_and_misuse():
    assert all(good(run(2, accumulated)))


def unused(rank, world):
    model = network()
    extra = nn.Parameter(torch.ones(5))
    optimizer = ZeroRedundancyOptimizer([*model.parameters(), extra], SGD, lr=0.1, allow_unused=True)
    loss = loss_of(model, 0, rank)
    if rank == 1:
        loss = loss + extra.sum()
    loss.backward()
    optimizer.step()
    return extra.tolist()


def test_what_one_rank_does_not_use_is_zero_there():
    assert good(run(2, unused)) == [pytest.approx([0.95] * 5)] * 2


@pytest.mark.parametrize("ranks", [1, 2, 3, 7, 64])
def test_chunks_end_at_borders_of_pieces(ranks):
    for sizes in ([5], [PIECE] * 7, [1, 3 * PIECE + 1, 70, 2 * PIECE, PIECE - 1, 12 * PIECE + 9], [40] * 3000, [0, 9]):
        begins, chunk = assign_offsets(sizes, ranks)
        end = 0
        for begin, size in zip(begins, sizes):
            assert begin >= end and begin % ALIGN == 0
            end = begin + size
            for cut in range(chunk, ranks * chunk, chunk):
                assert not begin < cut < end or (cut - begin) % PIECE == 0
        assert end <= ranks * chunk
        assert ranks == 1 or ranks * chunk - sum(sizes) < (2 * ranks + 1) * PIECE + ALIGN * len(sizes)


@pytest.mark.parametrize("count", [1, 5, 2049, PIECE, PIECE + 1, 40 * PIECE + 3])
def test_pieces_are_folded_as_the_step_folds(count):
    values = torch.rand(count)
    for norm_type, largest in ((1.0, False), (float("inf"), True)):
        p = nn.Parameter(torch.zeros(count))
        p.grad = values.clone()
        optimizer = SGD([p], lr=0.0, max_norm=1.0, norm_type=norm_type)
        optimizer.step()
        assert optimizer.stats()["grad_norm"] == fold(values, largest).item()
