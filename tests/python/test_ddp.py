"""Under DDP and the like: all ranks share the norm, the verdict and the scale, and their weights stay the same."""

import hashlib
import re

import pytest
import torch
import torch.distributed as dist
from processes import good, run, run_each
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import stepfuse.torch
from stepfuse.torch import AdamW, GradScaler, LossScaler, clip_grad_norm_, ranks

RANKS = (1, 2, 3, 4)
STEPS, OVERFLOWS = 6, (2,)


def digest(tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return h.hexdigest()


def arrays(optimizer):
    return [*(p for g in optimizer.param_groups for p in g["params"]),
            *(v.reshape(1) if v.dim() == 0 else v for s in optimizer.state_dict()["state"].values() for v in s.values())]


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(24, 150), nn.Tanh(), nn.Linear(150, 120), nn.Tanh(), nn.Linear(120, 3))


def samples(step, rank):
    draw = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(5, 24, generator=draw), torch.randn(5, 3, generator=draw)


def loss_of(model, step, rank, overflows):
    x, y = samples(step, rank)
    loss = nn.functional.mse_loss(model(x.to(next(model.parameters()).dtype)).float(), y)
    return loss * float("inf") if overflows else loss


class Counter:
    """Counts the collectives that Python calls from now on."""

    def __init__(self):
        self.calls = 0
        for home, name in ((dist, "all_reduce"), (dist, "all_to_all_single"), (ranks, "ALL_GATHER"), (ranks, "REDUCE_SCATTER")):
            setattr(home, name, self.wrap(getattr(home, name)))

    def wrap(self, call):
        def counted(*args, **kw):
            self.calls += 1
            return call(*args, **kw)

        return counted


def network_of(way):
    return network().to(torch.bfloat16 if way == "stochastic" else torch.float32)


def settings(way):
    own = {"max_norm": 0.5, "scaler": LossScaler(growth_interval=2)}
    return {"lr": 0.01, **({} if way == "classic" else own), **({"weight_rounding": way, "seed": 5} if way == "stochastic" else {})}


def under_ddp(rank, world, way):
    model = DistributedDataParallel(network_of(way))
    classic = stepfuse.torch.GradScaler("cpu", growth_interval=2, defer_unscale=True)
    native = way != "classic"
    optimizer = AdamW(model.parameters(), **settings(way))
    scaler = optimizer.scaler
    counter = Counter()
    seen = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, step, rank, step in OVERFLOWS and rank == world - 1)
        (scaler if native else classic).scale(loss).backward()
        if native:
            optimizer.step()
        else:
            classic.unscale_(optimizer)
            stepfuse.torch.clip_grad_norm_(model.parameters(), 0.5)
            classic.step(optimizer)
            classic.update()
        scale = (scaler if native else classic).get_scale()
        seen.append((digest(arrays(optimizer)), scale, bool(optimizer.last_step_skipped) if not native else None))
    return seen, counter.calls


def one_process(world, way):
    """The same global batch, all ranks' shares in succession."""
    model = network_of(way)
    optimizer = AdamW(model.parameters(), **settings(way))
    seen = []
    for step in range(STEPS):
        optimizer.zero_grad()
        for rank in range(world):
            loss = loss_of(model, step, rank, step in OVERFLOWS and rank == world - 1)
            optimizer.scale(loss / world).backward()
        optimizer.step()
        seen.append(digest(arrays(optimizer)))
    return seen


@pytest.mark.parametrize("world", RANKS)
def test_ddp_needs_nothing_of_ours(world):
    ways = ["native", "stochastic", "classic"]
    for way, seen in zip(ways, run_each(world, under_ddp, [(way,) for way in ways])):
        # the comparison of ranks; DDP's own calls do not pass through Python
        assert all(calls == int(world > 1) for _, calls in seen), way
        assert all(steps == seen[0][0] for steps, _ in seen), way
        scales = [scale for _, scale, _ in seen[0][0]]
        assert scales == [65536, 131072, 65536, 65536, 131072, 131072], way
        digests = [d for d, _, _ in seen[0][0]]
        assert digests[1] == digests[2] and len(set(digests)) == STEPS - 1, way
        # torch's all-reduce adds three and more values in an order of its own.
        assert world > 2 or way == "classic" or digests == one_process(world, way), way


def own_parameters(rank, world, norm_type):
    """Each rank has parameters of its own, as in a pipeline, and a duplicate of one that all ranks have."""
    torch.manual_seed(rank)
    own = nn.Parameter(torch.randn(40 + rank))
    both = nn.Parameter(torch.ones(9))
    scaler = LossScaler(init_scale=8.0, growth_interval=2)
    optimizer = AdamW([own, both], lr=0.1, max_norm=1.0, norm_type=norm_type, scaler=scaler)
    optimizer.share_norm(dist.group.WORLD, counted=lambda p: p is not both or rank == 0)
    counter = Counter()
    seen = []
    for step in range(4):
        scale = scaler.get_scale()
        own.grad = torch.full_like(own, float("inf") if step == 2 and rank == world - 1 else scale * (rank + 1))
        both.grad = torch.full_like(both, 3 * scale)
        optimizer.step()
        stats = optimizer.stats()
        seen.append((stats["grad_norm"], stats["found_inf"], scaler.get_scale(), digest([both])))
    return seen, counter.calls


@pytest.mark.parametrize(("world", "norm_types"), [(1, [2.0]), (2, [2.0]), (3, [float("inf")]), (4, [1.0, 2.0])])
def test_a_group_has_one_norm_and_one_verdict(world, norm_types):
    for norm_type, seen in zip(norm_types, run_each(world, own_parameters, [(n,) for n in norm_types])):
        check_group(world, norm_type, seen)


def check_group(world, norm_type, seen):
    assert all(steps == seen[0][0] for steps, _ in seen)
    # One exchange per step, and one comparison of the ranks' common parts; none in a group of one
    # rank.
    assert all(calls == (4 + 1 if world > 1 else 0) for _, calls in seen)
    every = torch.cat([torch.full((40 + r,), r + 1.0) for r in range(world)] + [torch.full((9,), 3.0)])
    norms = [norm for norm, *_ in seen[0][0]]
    assert norms[0] == pytest.approx(every.norm(norm_type).item(), rel=1e-6)
    assert norms[0] == norms[1] == norms[3] and [f for _, f, *_ in seen[0][0]] == [0, 0, 1, 0]
    assert [scale for _, _, scale, _ in seen[0][0]] == [8, 16, 8, 8]
    digests = [d for *_, d in seen[0][0]]
    assert digests[1] == digests[2] != digests[3]


SLOWER = "optimizer mine \"plain\" { hyper lr = 1e-2 w = w - lr * g }", "optimizer mine \"half\" { hyper lr = 1e-2 w = w - 0.5 * lr * g }"


def differing(rank, world, what, way):
    network = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    if way == "FSDP2":
        from torch.distributed.fsdp import fully_shard  # torch >= 2.6

        fully_shard(network)
    model = DistributedDataParallel(network) if way == "DDP" else network
    cls, kw = AdamW, {"lr": 0.02 if what == "lr" and rank == 1 else 0.01}
    if what == "betas" and rank == 1:
        kw["betas"] = (0.9, 0.95)
    if what == "formula":
        cls, kw = stepfuse.torch.Formula, {"formula": SLOWER[rank == 1]}
    optimizer = cls(model.parameters(), **kw)
    before = [p.detach().clone() for p in model.parameters()]
    model(torch.ones(1, 4)).sum().backward()
    try:
        optimizer.step()
    except stepfuse.torch.RankError as error:
        same = all(torch.equal(*(getattr(t, "_local_tensor", t) for t in pair)) for pair in zip(before, model.parameters()))
        return str(error), same
    return "stepped", False


@pytest.mark.parametrize("way", ["DDP", "FSDP2"])
@pytest.mark.parametrize(("what", "said"), [
    ("lr", r"rank 1 has a different number than rank 0: lr of group 0 = 0\.02, not lr of group 0 = 0\.01"),
    ("betas", r"rank 1 has a different number than rank 0: betas of group 0 at 1 = 0\.95, not .* = 0\.999"),
    ("formula", r"rank 1 has a different program than rank 0: .*0\.5")])
def test_ranks_that_step_otherwise_are_told_apart(what, said, way):
    for error, unchanged in good(run(2, differing, what, way)):
        assert re.search(said, error) and unchanged, error


def scaled_by_grad_scaler(rank, world, deferred):
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Linear(16, 8))
    optimizer = AdamW(model.parameters(), lr=0.01)
    scaler = GradScaler("cpu", init_scale=256.0, defer_unscale=deferred)
    skipped = []
    for i in range(6):
        optimizer.zero_grad()
        x = torch.full((4, 16), float(rank + i))
        if i == 3 and rank == 1:
            x[0, 0] = float("inf")  # on one rank only
        scaler.scale(model(x).square().mean()).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        skipped.append(optimizer.last_step_skipped.item())
    return skipped, scaler.get_scale(), digest(model.parameters())


def test_two_ranks_with_a_grad_scaler_skip_together():
    for first, second in run_each(2, scaled_by_grad_scaler, [(True,), (False,)]):
        assert first == second and first[:2] == ([i == 3 for i in range(6)], 128.0)
