"""Parameters below f32 without a master copy: rounded to nearest, stochastically, or with Kahan's compensation."""

import copy
import importlib.util
import json
import pathlib
import sys

import pytest
import torch

import stepfuse.torch as sft
from stepfuse.torch import SGD, AdamW, Lion, stored
from trained import parameter, stepped

LOW = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_small_steps_arrive(dtype):
    """256 steps of 1/64 ulp, which rounding to nearest drops. Stochastic rounding moves as far on average."""
    ulp = torch.finfo(dtype).eps
    moved = {}
    for rounding in sft.arguments.ROUNDINGS:
        p = parameter(torch.full((20000,), 1.5), dtype)
        optimizer = SGD([p], lr=1.0, weight_rounding=rounding)
        for _ in range(256):
            p.grad.fill_(-ulp / 64)
            optimizer.step()
        moved[rounding] = (p.detach().double() - 1.5) / ulp
        assert "master" not in optimizer.state[p]
    assert moved["nearest"].eq(0).all()
    assert moved["kahan"].eq(4).all()
    # Binomial: 256 times 1/64, so mean 4 and variance 3.94; the mean of 20000 is off by about
    # 0.014.
    assert abs(moved["stochastic"].mean() - 4) < 0.08
    assert abs(moved["stochastic"].var() - 256 / 64 * (1 - 1 / 64)) < 0.3


@pytest.mark.parametrize("make", [AdamW, SGD, Lion], ids=lambda c: c.__name__)
def test_a_resumed_run_draws_the_same_bits(make):
    def model():
        torch.manual_seed(1)
        return [parameter(torch.randn(n)) for n in (300, 17000, 5)]

    def optimizer_of(params, seed=7):
        return make(params, lr=1e-2, weight_rounding="stochastic", seed=seed)

    whole, params = model(), model()
    stepped(first := optimizer_of(whole), whole, 6)
    half = optimizer_of(params)
    stepped(half, params, 3)
    again = [parameter(p.detach()) for p in params]
    second = optimizer_of(again, seed=8)
    second.load_state_dict(copy.deepcopy(half.state_dict()))
    generator = torch.Generator().manual_seed(0)
    for step in range(6):
        for p in again:
            g = torch.randn(p.shape, generator=generator).to(p.dtype)
            p.grad = g
        if step >= 3:
            second.step()
    assert all(torch.equal(a, b) for a, b in zip(whole, again))
    other = model()
    stepped(optimizer_of(other, seed=8), other, 6)
    assert not torch.equal(whole[1], other[1])
    assert first.state_dict()["param_groups"][0]["seed"] == 7


def test_a_parameter_draws_its_own_bits_whoever_steps_with_it():
    """A parameter without a gradient so far is in no step; the ids of the others stay."""
    values = torch.randn(4096)
    alone, together = parameter(values), parameter(values)
    late, other = parameter(torch.randn(10)), parameter(torch.randn(10))
    late.grad = None
    a = SGD([late, alone], lr=1e-3, weight_rounding="stochastic")
    b = SGD([other, together], lr=1e-3, weight_rounding="stochastic")
    for p in (alone, together, other):
        p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(3)).to(p.dtype)
    a.step()
    b.step()
    assert torch.equal(alone, together)
    third = parameter(values)  # it has a different id as the first of its optimizer
    third.grad = alone.grad.clone()
    SGD([third], lr=1e-3, weight_rounding="stochastic").step()
    assert not torch.equal(alone, third)


def kahan_step(p, k, step):
    """optimi's rule, with each operation rounded to the parameters' type."""
    k.add_(step)
    before = p.clone()
    p.add_(k)
    k.add_(before.sub_(p))


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_kahan_is_the_published_rule_to_the_bit(dtype):
    """Plain SGD with a power of two as learning rate, whose step is exact."""
    torch.manual_seed(2)
    p = parameter(torch.rand(20000) * 3.5 + 0.5, dtype)
    q, k = p.detach().clone(), torch.zeros(20000, dtype=dtype)
    optimizer = SGD([p], lr=0.25, weight_rounding="kahan")
    for _ in range(20):
        p.grad = (torch.randn(20000).clamp(-2, 2) * 2**-6).to(dtype)
        p.grad[p.grad.abs() < 2**-8] = 0
        kahan_step(q, k, -0.25 * p.grad)
        optimizer.step()
        assert torch.equal(p, q)
        assert torch.equal(optimizer.state[p]["kahan"], k)


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_kahan_is_optimi_to_the_bit(dtype):
    optimi = pytest.importorskip("optimi")
    torch.manual_seed(2)
    p = parameter(torch.rand(20000) * 3.5 + 0.5, dtype)
    q = torch.nn.Parameter(p.detach().clone())
    ours = SGD([p], lr=0.25, weight_rounding="kahan")
    theirs = optimi.SGD([q], lr=0.25, kahan_sum=True, foreach=False, triton=False)
    for _ in range(20):
        p.grad = (torch.randn(20000).clamp(-2, 2) * 2**-6).to(dtype)
        p.grad[p.grad.abs() < 2**-8] = 0
        q.grad = p.grad.clone()
        ours.step()
        theirs.step()
        assert torch.equal(p, q)
    assert torch.equal(ours.state[p]["kahan"], theirs.state[q]["kahan_comp"])


def test_kahan_follows_the_master_where_nearest_does_not():
    torch.manual_seed(4)
    values = torch.randn(4000)
    off = {}
    exact = torch.nn.Parameter(values.to(torch.bfloat16).float())
    runs = {r: parameter(values) for r in ("nearest", "kahan")}
    optimizers = {r: AdamW([p], lr=1e-4, weight_decay=0.0, weight_rounding=r) for r, p in runs.items()}
    optimizers["exact"] = AdamW([exact], lr=1e-4, weight_decay=0.0)
    target = torch.randn(4000)
    for _ in range(200):
        g = (exact.detach() - target).to(torch.bfloat16)
        exact.grad = g.float()
        for p in runs.values():
            p.grad = g
        for optimizer in optimizers.values():
            optimizer.step()
    for r, p in runs.items():
        off[r] = (p.detach().float() - exact.detach()).norm() / (exact.detach() - values).norm()
    whole = runs["kahan"].detach().float() + optimizers["kahan"].state[runs["kahan"]]["kahan"].float()
    assert (whole - exact.detach()).norm() < 0.05 * (exact.detach() - values).norm()
    assert off["nearest"] > 3 * off["kahan"]


def test_a_group_may_have_its_own_and_f32_is_left_alone():
    a, b, c = parameter(torch.ones(8)), parameter(torch.ones(8)), parameter(torch.ones(8), torch.float32)
    optimizer = AdamW([{"params": [a]}, {"params": [b, c], "weight_rounding": None}], weight_rounding="kahan")
    optimizer.step()
    assert "kahan" in optimizer.state[a] and "master" not in optimizer.state[a]
    assert "master" in optimizer.state[b] and "kahan" not in optimizer.state[b]
    assert "kahan" not in optimizer.state[c] and "master" not in optimizer.state[c]


def test_torchs_state_goes_in_and_the_rounding_stays():
    p, q = parameter(torch.ones(8)), torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16))
    q.grad = torch.zeros_like(q)
    theirs = torch.optim.AdamW([q])
    theirs.step()
    ours = AdamW([p], weight_rounding="stochastic", seed=3)
    ours.load_state_dict(theirs.state_dict())
    ours.step()
    assert ours.param_groups[0]["weight_rounding"] == "stochastic" and "master" not in ours.state[p]
    with pytest.raises(ValueError, match="nearest, stochastic, kahan"):
        AdamW([p], weight_rounding="up")


def test_the_sample_trains_in_every_way(monkeypatch, capsys, tmp_path):
    path = pathlib.Path(__file__).resolve().parents[2] / "samples" / "pytorch" / "weight_rounding.py"
    spec = importlib.util.spec_from_file_location("weight_rounding", path)
    sample = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sample)
    monkeypatch.setattr(sys, "argv", [str(path), "--epochs", "4", "--json", str(tmp_path / "losses.json")])
    threads = torch.get_num_threads()
    sample.main()
    torch.set_num_threads(threads)
    rows = {row[1].strip(): row for row in (line.split("|") for line in capsys.readouterr().out.splitlines())}
    assert [float(rows[name][5]) for name in sample.WAYS] == [12, 14, 10, 10, 12]
    assert all(float(rows[name][3]) < 0.5 * float(rows[name][2]) for name in sample.WAYS)
    assert [len(r["losses"]) for r in json.loads((tmp_path / "losses.json").read_text())["runs"]] == [4] * len(sample.WAYS)


def test_each_group_draws_from_its_own_seed():
    def after(*seeds):
        params = [parameter(torch.ones(512)) for _ in seeds]
        optimizer = AdamW([{"params": [p], "seed": seed} for p, seed in zip(params, seeds)], lr=1e-4, weight_rounding="stochastic",
                          max_norm=1.0)
        stepped(optimizer, params, 3)
        optimizer.param_groups[1]["seed"] = 7  # from here on
        stepped(optimizer, params, 2, seed=1)
        return [p.detach() for p in params]

    def before(*seeds):
        params = [parameter(torch.ones(512)) for _ in seeds]
        stepped(AdamW([{"params": [p], "seed": seed} for p, seed in zip(params, seeds)], lr=1e-4, weight_rounding="stochastic",
                      max_norm=1.0), params, 3)
        return [p.detach() for p in params]

    ones, mixed, twos = before(1, 1), before(1, 2), before(2, 2)
    assert torch.equal(mixed[0], ones[0]) and torch.equal(mixed[1], twos[1])
    assert not torch.equal(ones[0], twos[0]) and not torch.equal(ones[1], twos[1])
    assert torch.equal(after(1, 2)[0], after(1, 1)[0])
    assert torch.equal(after(1, 7)[1], stay := after(1, 7)[1]) and not torch.equal(after(1, 2)[1], stay)
    params = [parameter(torch.ones(8)) for _ in range(2)]
    optimizer = AdamW([{"params": [p], "seed": seed} for p, seed in zip(params, (1, 2))], weight_rounding="stochastic")
    stepped(optimizer, params, 1)
    assert [group["seed"] for group in optimizer.state_dict()["param_groups"]] == [1, 2]


def test_set_weight_replaces_what_kahan_kept():
    p = parameter(torch.full((8,), 100.0))
    optimizer = SGD([p], lr=0.1, weight_rounding="kahan")
    p.grad.fill_(2.0)
    optimizer.step()
    assert optimizer.state[p]["kahan"].ne(0).all()
    for values in (torch.zeros(8), torch.full((8,), 100.3), torch.linspace(-3, 3, 8)):
        optimizer.set_weight(p, values)
        p.grad.zero_()
        optimizer.step()
        assert torch.equal(p, values.bfloat16())
        assert torch.equal(optimizer.state[p]["kahan"], (values - p).bfloat16())


@pytest.mark.parametrize("between", ["nearest", "stochastic", "f32"])
def test_kahan_starts_again_after_a_time_without(between):
    p = parameter(torch.full((8,), 100.0))
    optimizer = SGD([p], lr=0.1, weight_rounding="kahan")
    p.grad.fill_(2.0)
    optimizer.step()
    if between == "f32":
        p.grad, p.data = None, p.data.float()
    else:
        optimizer.param_groups[0]["weight_rounding"] = between
    p.grad = torch.full_like(p, 900.0)
    optimizer.step()
    assert "kahan" not in optimizer.state[p]
    p.grad, p.data = None, p.data.bfloat16()
    optimizer.param_groups[0]["weight_rounding"] = "kahan"
    p.grad = torch.zeros_like(p)
    optimizer.step()
    assert p.eq(10.0).all() and optimizer.state[p]["kahan"].eq(0).all()


@pytest.mark.parametrize(("dtype", "kw"), [(torch.bfloat16, {"master": "remainder"}), (torch.bfloat16, {"master": "f32"}),
                                           (torch.float8_e4m3fn, {"copy_scale": "delayed"})], ids=str)
@pytest.mark.parametrize("rounding", sft.arguments.ROUNDINGS)
def test_a_master_of_ones_own_replaces_a_checkpoints_rounding(rounding, dtype, kw):
    p = parameter(torch.linspace(-1, 1, 64), dtype)
    source = AdamW([p], weight_rounding=rounding)
    source.step()
    q = parameter(p.detach(), dtype)
    optimizer = AdamW([q], **kw)
    optimizer.load_state_dict(source.state_dict())
    optimizer.param_groups[0].update(lr=0.0, weight_decay=0.0)
    before = q.detach().float()
    optimizer.step()
    assert torch.equal(stored.to_f32(optimizer.state[q], q), before)
