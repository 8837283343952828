"""Steps that are skipped, clipped by past norms, and reported: skip_nonfinite, skip_norm, clip=, monitor, hysteresis."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from pairs import Pair, needs_names, same_state
from processes import run

import stepfuse.torch as sft
from stepfuse.torch import SGD, AdamW, LossScaler, ZeroRedundancyOptimizer

NAN, INF = float("nan"), float("inf")


def spoil(pair, value, index=1):
    for p in (pair.a[index], pair.b[index]):
        p.grad.view(-1)[3] = value


def is_good(params):
    return all(p.grad.isfinite().all() for p in params)


@pytest.mark.parametrize("more", [{"skip_nonfinite": True}, {"monitor": True}, {"skip_norm": 1e6}, {"max_norm": 1e6}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_bad_step_is_as_if_it_had_not_been(more, dtype):
    """torch's loop that looks at all gradients and leaves step() out."""
    pair = Pair(AdamW, torch.optim.AdamW, dtype=torch.float32, theirs_kw={"fused": True, "lr": 0.01}, fused=True, lr=0.01, **more)
    if dtype != torch.float32:  # torch's classes keep no masters: the same class without bad steps is the other side
        pair = Pair(AdamW, AdamW, dtype=dtype, theirs_kw={"lr": 0.01}, lr=0.01, **more)
    skipped = []
    for i in range(12):
        pair.gradients(scale=0.1)
        if i in (0, 4, 5, 9):
            spoil(pair, (NAN, INF, -INF, NAN)[i % 4])
        pair.ours.step()
        skipped.append(bool(pair.ours.last_step_skipped))
        assert pair.ours.stats()["skipped"] == skipped[-1]
        if is_good(pair.b):
            pair.theirs.step()
    assert [i for i, was in enumerate(skipped) if was] == [0, 4, 5, 9]
    assert pair.equal()
    assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())


def test_where_nobody_asked_nan_goes_through_as_in_torch():
    for more in ({}, {"max_norm": 1.0, "skip_nonfinite": False}):
        pair = Pair(AdamW, torch.optim.AdamW, theirs_kw={"fused": True}, fused=True, **more)
        pair.gradients()
        spoil(pair, NAN)
        pair.ours.step()
        if more:
            torch.nn.utils.clip_grad_norm_(pair.b, 1.0)
        pair.theirs.step()
        assert pair.ours.last_step_skipped is None
        for p, q in zip(pair.a, pair.b):
            assert torch.equal(p.isnan(), q.isnan()) and p.isnan().all() == bool(more) or p is pair.a[1]


def test_a_large_norm_is_skipped():
    pair = Pair(SGD, torch.optim.SGD, lr=0.1, momentum=0.9, theirs_kw={"lr": 0.1, "momentum": 0.9}, skip_norm=20.0)
    for i in range(8):
        pair.gradients(scale=10.0 if i == 3 else 1.0)
        norm = torch.nn.utils.get_total_norm([p.grad for p in pair.b]) if hasattr(torch.nn.utils, "get_total_norm") else torch.cat(
            [p.grad.flatten() for p in pair.b]).norm()
        pair.ours.step()
        if norm <= pair.ours.skip_norm:
            pair.theirs.step()
        assert bool(pair.ours.last_step_skipped) == (i == 3)
        assert pair.ours.stats()["over_threshold"] == (i == 3)
    pair.ours.skip_norm = 1.0
    pair.gradients()
    pair.ours.step()
    assert bool(pair.ours.last_step_skipped) and pair.equal()
    with pytest.raises(ValueError, match="^skip_norm: expected a number >= 0; got -1$"):
        pair.ours.skip_norm = -1
    with pytest.raises(ValueError, match="skip_norm: this optimizer was made without it; pass skip_norm= to the constructor"):
        SGD(pair.a, lr=0.1).skip_norm = 1.0


def test_a_norm_of_exactly_skip_norm_is_not_skipped():
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = SGD([p], lr=0.5, skip_norm=5.0)
    for gradient, skipped in (([3.0, 4.0], False), ([3.0, 4.001], True)):
        p.grad = torch.tensor(gradient)
        optimizer.step()
        assert bool(optimizer.last_step_skipped) == skipped
    assert torch.equal(p.detach(), torch.tensor([-0.5, -1.0]))


class ZClip:
    """The rule of Kumar et al., 2025, in f64: Welford's sums while it warms up, moving averages afterwards."""

    def __init__(self, max_norm, warmup=25, z=2.5, decay=0.97):
        self.max_norm, self.warmup, self.z, self.decay = max_norm, warmup, z, decay
        self.norms, self.mean, self.variance = [], 0.0, 0.0

    def coefficient(self, norm):
        if len(self.norms) < self.warmup:
            self.norms.append(norm)
            self.mean, self.variance = float(np.mean(self.norms)), float(np.var(self.norms))
            return min(1.0, self.max_norm / (norm + 1e-6))
        deviation = math.sqrt(self.variance)
        z = (norm - self.mean) / (deviation + 1e-6)
        clipped = norm
        if z > self.z:
            clipped = min(norm, self.mean + self.z * deviation * self.z / z)
        self.mean = self.mean * self.decay + clipped * (1 - self.decay)
        self.variance = self.variance * self.decay + (clipped - self.mean) ** 2 * (1 - self.decay)
        return clipped / (norm + 1e-6) if z > self.z else 1.0


def test_zclip_follows_its_rule_and_survives_a_checkpoint():
    torch.manual_seed(2)
    p = torch.nn.Parameter(torch.randn(300))
    optimizer = AdamW([p], lr=1e-3, max_norm=2.0, clip="zclip", clip_warmup=10)
    rule, clipped = ZClip(2.0, warmup=10), 0
    for i in range(60):
        p.grad = torch.randn(300) * (20.0 if i in (30, 44) else NAN if i == 20 else 1.0)
        optimizer.step()
        stats = optimizer.stats()
        assert stats["skipped"] == (i == 20)
        if i != 20:
            expected = rule.coefficient(stats["grad_norm"])
            assert stats["clip_coef"] == pytest.approx(expected, rel=1e-5), i
            clipped += i >= 10 and expected < 1
        if i == 35:
            before, p = optimizer.state_dict(), torch.nn.Parameter(p.detach().clone())
            optimizer = AdamW([p], lr=1e-3, max_norm=2.0, clip="zclip", clip_warmup=10)
            optimizer.load_state_dict(copy.deepcopy(before))
    assert clipped >= 2


def test_adagc_clips_each_parameter_by_its_own_average():
    torch.manual_seed(3)
    params = [torch.nn.Parameter(torch.zeros(n)) for n in (200, 50)]
    optimizer = SGD(params, lr=1.0, max_norm=1.0, clip="adagc", clip_warmup=3, clip_decay=0.9)
    averages = [INF, INF]
    for i in range(12):
        before = [p.detach().clone() for p in params]
        for k, p in enumerate(params):
            p.grad = torch.randn(p.shape) * (30.0 if (i, k) == (8, 1) else 1.0)
        norms = [float(p.grad.double().norm()) for p in params]
        whole = math.hypot(*norms)
        optimizer.step()
        for k, p in enumerate(params):
            coefficient = min(1.0, 1.0 / (whole + 1e-6)) if i < 3 else min(1.0, 1.05 * averages[k] / norms[k])
            clipped = norms[k] * coefficient
            averages[k] = min(averages[k], clipped) if i < 3 else 0.9 * averages[k] + 0.1 * clipped
            torch.testing.assert_close(before[k] - p.detach(), p.grad * coefficient, rtol=1e-4, atol=1e-5)
            assert float(optimizer.state_dict()["state"][k]["clip_average"]) == pytest.approx(averages[k], rel=1e-5)
    again = pickle.loads(pickle.dumps(optimizer))
    assert [float(s["clip_average"]) for s in again.state_dict()["state"].values()] == pytest.approx(averages, rel=1e-5)


@needs_names
def test_the_first_bad_parameter_is_named_and_streaks_are_counted():
    torch.manual_seed(4)
    params = {"a": torch.nn.Parameter(torch.randn(9)), "b": torch.nn.Parameter(torch.randn(9).bfloat16()), "c": torch.nn.Parameter(torch.randn(9))}
    optimizer = AdamW(list(params.items()), monitor=True)  # two dtypes: two parts of a step
    seen = []
    for bad in ("", "c", "cb", "", "b", "abc"):
        for name, p in params.items():
            p.grad = torch.randn(9).to(p.dtype)
            if name in bad:
                p.grad[2] = NAN
        optimizer.step()
        stats = optimizer.stats()
        seen.append((stats["first_nonfinite"], stats["skipped_steps"], stats["skipped_in_a_row"], stats["found_inf"]))
    assert seen == [(None, 0, 0, 0), ("c", 1, 1, 1), ("b", 2, 2, 1), (None, 2, 0, 0), ("b", 3, 1, 1), ("a", 4, 2, 1)]
    assert stats["stuck"] == 0 and "grad_norm" in stats
    restored = AdamW(list(params.items()), monitor=True)
    restored.load_state_dict(optimizer.state_dict())
    for p in params.values():
        p.grad = torch.full_like(p, INF)
    restored.step()
    assert restored.stats()["skipped_in_a_row"] == 3 and restored.stats()["skipped_steps"] == 5


@needs_names
@pytest.mark.parametrize("more", [{}, {"max_norm": 1.0}], ids=str)
def test_a_report_alone_skips_nothing(more):
    params = [("x", torch.nn.Parameter(torch.ones(5))), ("y", torch.nn.Parameter(torch.ones(5).bfloat16()))]
    optimizer = AdamW(params, monitor=True, skip_nonfinite=False, **more)
    for bad in (1, 0):
        for i, (_, p) in enumerate(params):
            p.grad = torch.full_like(p, NAN if i == bad else 1.0)
        optimizer.step()
        assert optimizer.stats()["first_nonfinite"] == params[bad][0] and optimizer.stats()["found_inf"] == 1
        assert optimizer.last_step_skipped is None
    assert all(p.isnan().all() for _, p in params)


class Hysteresis:
    """Apex' update_scale_hysteresis and Megatron-Core's DynamicGradScaler."""

    def __init__(self, policy, scale, growth_factor, backoff_factor, growth_interval, hysteresis, min_scale):
        self.policy, self.scale, self.growth, self.backoff = policy, scale, growth_factor, backoff_factor
        self.interval, self.full, self.least = growth_interval, hysteresis, min_scale if policy == "megatron" else 0.0
        self.tracker, self.left = 0, hysteresis

    def update(self, overflowed):
        if overflowed:
            self.tracker = 0
            self.left -= 1
            if self.left <= 0:
                self.scale = max(self.scale * self.backoff, self.least)
            return
        self.tracker += 1
        grows = self.tracker == self.interval
        if grows:
            self.scale, self.tracker = self.scale * self.growth, 0
        if grows or self.policy == "apex":
            self.left = self.full


@pytest.mark.parametrize("policy", ["apex", "megatron"])
def test_hysteresis_is_the_peers(policy):
    numbers = {"growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 5, "hysteresis": 3, "min_scale": 4.0}
    scaler = LossScaler(64.0, policy=policy, **numbers)
    rule = Hysteresis(policy, 64.0, **numbers)
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = SGD([p], lr=0.0, scaler=scaler)
    torch.manual_seed(5)
    scales = set()
    for i in range(150):
        overflows = bool(torch.rand(()) < (0.7 if 40 < i < 80 else 0.15))
        p.grad = torch.full((4,), INF if overflows else 1.0)
        if i == 70:  # in the middle, as from a checkpoint
            optimizer = pickle.loads(pickle.dumps(optimizer))
            p, scaler = optimizer.param_groups[0]["params"][0], optimizer.scaler
            p.grad = torch.full((4,), INF if overflows else 1.0)
        optimizer.step()
        rule.update(overflows)
        scales.add(scaler.get_scale())
        assert scaler.get_scale() == rule.scale, i
        state = scaler.state_dict()
        assert (state["_growth_tracker"], state["_hysteresis_tracker"]) == (rule.tracker, rule.left), i
    assert len(scales) > 4 and (policy == "apex" or min(scales) == 4.0)
    theirs = torch.amp.GradScaler("cpu", 32.0).state_dict()
    scaler.load_state_dict(theirs)
    assert scaler.get_scale() == 32.0 and scaler.state_dict()["_hysteresis_tracker"] == 3


def test_muon_skips_both_halves():
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("skipped: this torch has no Muon")
    torch.manual_seed(6)
    p = torch.nn.Parameter(torch.randn(16, 8))
    optimizer = sft.Muon([p], lr=0.1, max_norm=1.0)
    for value in (1.0, NAN, 1.0):
        before = p.detach().clone()
        momentum = {n: v.clone() for n, v in optimizer.state[p].items()}
        p.grad = torch.randn(16, 8) * value
        optimizer.step()
        assert torch.equal(before, p) == math.isnan(value)
        assert not math.isnan(value) or all(torch.equal(v, optimizer.state[p][n]) for n, v in momentum.items())


def test_a_step_that_only_makes_state_counts_for_nothing():
    """torch.distributed.checkpoint steps a fresh optimizer with lr=0 and gradients of zeros."""
    p = torch.nn.Parameter(torch.ones(8))
    optimizer = AdamW([p], lr=0.0, max_norm=1.0, clip="zclip", monitor=True)
    p.grad = torch.zeros(8)
    optimizer.step()
    assert "clip_count" not in optimizer.state_dict()["param_groups"][0]
    optimizer.param_groups[0]["lr"] = 0.1
    p.grad = torch.ones(8)
    optimizer.step()
    assert optimizer.state_dict()["param_groups"][0]["clip_count"] == 1


def one_bad_rank(rank, world):
    torch.manual_seed(7)
    model = torch.nn.Linear(64, 300)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), AdamW, lr=0.01, max_norm=1.0, monitor=True, reduce_gradients=False)
    weights = []
    for i in range(4):
        for p in model.parameters():
            p.grad = torch.randn(p.shape)
        if i == 2:
            model.weight.grad[0, 0] = NAN  # which is in one rank's share
        optimizer.step()
        weights.append(model.weight.detach().clone())
        assert optimizer.stats()["skipped"] == (i == 2) and optimizer.stats()["skipped_steps"] == (i >= 2)
        assert bool(optimizer.last_step_skipped) == (i == 2)
    assert torch.equal(weights[1], weights[2]) and not torch.equal(weights[2], weights[3])
    first = AdamW([torch.nn.Parameter(torch.ones(2))], max_norm=1.0, clip="adagc")
    first.share_norm(torch.distributed.group.WORLD)
    first.param_groups[0]["params"][0].grad = torch.ones(2)
    first.step()  # whole parameters may have norms of their own
    assert float(first.stats()["grad_norm"]) == pytest.approx(math.sqrt(2 * world))
    return "done"


def test_all_ranks_skip_what_one_finds():
    assert run(2, one_bad_rank) == ["done", "done"]


@pytest.mark.parametrize(("more", "says"), [
    ({"clip": "zclip"}, "clip='zclip' needs max_norm="),
    ({"clip": "adagc", "max_norm": 1.0, "norm_type": 1.0}, "norm_type=1.0: clip='adagc' needs the norm of type 2"),
    ({"clip_z": 3.0, "max_norm": 1.0}, "clip_z= needs clip='zclip'; add it"),
    ({"clip": "adagc", "clip_z": 3.0, "max_norm": 1.0}, "clip_z= needs clip='zclip'; add it"),
    ({"clip": "zclip", "clip_z": 0.0, "max_norm": 1.0}, "clip_z: expected a number > 0; got 0.0"),
    ({"skip_nonfinite": False, "skip_norm": 1.0}, "skip_nonfinite=False contradicts skip_norm="),
    ({"skip_nonfinite": False, "scaler": LossScaler()}, "skip_nonfinite=False contradicts scaler=")], ids=str)
def test_contradictions_are_refused(more, says):
    with pytest.raises(ValueError) as error:
        AdamW([torch.nn.Parameter(torch.ones(2))], **more)
    assert says in str(error.value)


@pytest.mark.parametrize(("more", "says"), [({"policy": "x"}, "policy: expected one of torch, apex, megatron"), ({"hysteresis": 0}, "hysteresis: expected an integer from 1 to 2147483647; got 0"),
                                            ({"min_scale": -1.0}, "min_scale: expected a number > 0; got -1.0"),
                                            *(({name: 0}, f"{name}: expected a number > 0; got 0") for name in (
                                                "init_scale", "growth_factor", "backoff_factor", "growth_interval"))], ids=str)
def test_scalers_refuse(more, says):
    with pytest.raises(ValueError) as error:
        LossScaler(**more)
    assert says in str(error.value)
