"""Parameters below f32 with compact masters: the missing bits are stored as int16 or int8."""

import copy

import pytest
import torch

import stepfuse.torch as sft
from stepfuse.torch import AdamW, Lion, stored
from trained import parameter, stepped


def model(shapes=((300,), (7, 31), (64, 3, 3, 3))):
    generator = torch.Generator().manual_seed(1)
    return [parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def whole(p, remainder):
    """The f32 values, by the published rule."""
    return ((p.detach().view(torch.int16).int() << 16) + remainder.int()).view(torch.float32)


@pytest.mark.parametrize("more", [{}, {"max_norm": 0.5, "ema_decay": 0.9}, {"moments": "fp8", "moments_min": 0}], ids=str)
def test_remainders_are_f32_masters(more):
    ours, theirs = model(), model()
    a, b = AdamW(ours, master="remainder", **more), AdamW(theirs, **more)
    stepped(a, ours, 5)
    stepped(b, theirs, 5)
    for p, q in zip(ours, theirs):
        assert "master" not in a.state[p] and a.state[p]["remainder"].dtype == torch.int16
        assert torch.equal(whole(p, a.state[p]["remainder"]), b.state[q]["master"])
        assert torch.equal(stored.to_f32(a.state[p], p), b.state[q]["master"])
        tie = a.state[p]["remainder"] == -(2**15)
        assert torch.equal(p[~tie], q[~tie])
        if "ema_decay" in more:
            assert torch.equal(a.state[p]["ema"], b.state[q]["ema"])


def test_corrections_are_near_and_cost_a_byte():
    ours, theirs = model(), model()
    a, b = AdamW(ours, lr=1e-2, master="ecc24"), AdamW(theirs, lr=1e-2)
    stepped(a, ours, 20)
    stepped(b, theirs, 20)
    for p, q in zip(ours, theirs):
        assert a.state[p]["correction"].dtype == torch.int8
        off = (stored.to_f32(a.state[p], p) - b.state[q]["master"]).norm() / b.state[q]["master"].norm()
        assert off < 1e-4 < (q.detach().float() - b.state[q]["master"]).norm() / b.state[q]["master"].norm()


@pytest.mark.parametrize("source", ["f32", "remainder", "ecc24"])
@pytest.mark.parametrize("target", ["f32", "remainder", "ecc24"])
def test_a_run_changes_the_form_at_a_checkpoint(source, target):
    params, again = model(), model()
    first = AdamW(params, master=source)
    stepped(first, params, 3)
    before = [stored.to_f32(first.state[p], p).clone() for p in params]
    for p, q in zip(params, again):
        q.data.copy_(p.data)
    second = AdamW(again, master=target)
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["master"] == target
    second._make_state()
    for p, expected in zip(again, before):
        assert stored.RESTS[stored.find_rest(second.state[p])] == target
        got = stored.to_f32(second.state[p], p)
        if target == "ecc24" and source != "ecc24":
            assert (got - expected).abs().max() <= expected.abs().max() * 2**-16
        else:
            assert torch.equal(got, expected)
    stepped(first, params, 2, seed=5)
    stepped(second, again, 2, seed=5)
    for p, q in zip(params, again):
        if "ecc24" not in (source, target):
            assert torch.equal(stored.to_f32(first.state[p], p), stored.to_f32(second.state[q], q))


@pytest.mark.parametrize("master", ["remainder", "ecc24"])
def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(master):
    params = model()
    whole_run = AdamW(params, master=master)
    stepped(whole_run, params, 3)
    again = copy.deepcopy([p.detach() for p in params])
    again = [parameter(p) for p in again]
    resumed = AdamW(again, master=master)
    resumed.load_state_dict(copy.deepcopy(whole_run.state_dict()))
    stepped(whole_run, params, 3, seed=8)
    stepped(resumed, again, 3, seed=8)
    for p, q in zip(params, again):
        assert torch.equal(p, q)
        name = stored.find_rest(whole_run.state[p])
        assert torch.equal(whole_run.state[p][name], resumed.state[q][name])


def test_in_torchs_terms():
    params, theirs = model(), model()
    optimizer = AdamW(params, master="remainder")
    stepped(optimizer, params, 2)
    plain = optimizer.plain_state_dict()
    for index, p in enumerate(params):
        mine = plain["state"][index]
        assert "remainder" not in mine and torch.equal(mine["master"], whole(p, optimizer.state[p]["remainder"]))
    assert "master" not in plain["param_groups"][0]
    torch.optim.AdamW(theirs).load_state_dict(plain)


def test_parameters_in_other_orders_in_memory():
    shape = (8, 3, 5, 5)
    torch.manual_seed(0)
    values = torch.randn(shape)
    plain, last = parameter(values), parameter(values.to(memory_format=torch.channels_last))
    gaps = torch.nn.Parameter(torch.zeros(8, 3, 5, 10, dtype=torch.bfloat16)[..., ::2])
    gaps.data.copy_(values)
    grad = torch.randn(shape).bfloat16()
    optimizers = []
    for p in (plain, last, gaps):
        optimizers.append(AdamW([p], master="remainder"))
        for _ in range(3):
            p.grad = grad.clone()
            optimizers[-1].step()
    for p, optimizer in zip((last, gaps), optimizers[1:]):
        assert torch.equal(p, plain)
        assert torch.equal(optimizer.state[p]["remainder"], optimizers[0].state[plain]["remainder"])
        # State saved from one form loads into a different one.
        other = AdamW([p], master="f32")
        other.load_state_dict(optimizers[0].state_dict())
        other._make_state()
        assert torch.equal(other.state[p]["master"], stored.to_f32(optimizers[0].state[plain], plain))


def test_schedule_free_moves_all_bits():
    ours, theirs = model(), model()
    a = sft.ScheduleFreeAdamW(ours, master="remainder")
    b = sft.ScheduleFreeAdamW(theirs)
    for optimizer, params in ((a, ours), (b, theirs)):
        stepped(optimizer, params, 3)
        optimizer.eval()
    for p, q in zip(ours, theirs):
        assert torch.equal(stored.to_f32(a.state[p], p), b.state[q]["master"])
    for optimizer, params in ((a, ours), (b, theirs)):
        optimizer.train()
        stepped(optimizer, params, 2)
    for p, q in zip(ours, theirs):
        assert torch.equal(stored.to_f32(a.state[p], p), b.state[q]["master"])


def test_groups_have_their_own_and_f32_has_none():
    a, b, c = parameter(torch.ones(8)), parameter(torch.ones(8)), parameter(torch.ones(8), torch.float32)
    optimizer = Lion([{"params": [a]}, {"params": [b, c], "master": "ecc24"}], master="remainder")
    optimizer.step()
    assert stored.find_rest(optimizer.state[a]) == "remainder"
    assert stored.find_rest(optimizer.state[b]) == "correction"
    assert stored.find_rest(optimizer.state[c]) is None


def test_what_does_not_go_together_is_refused():
    with pytest.raises(Exception, match="remainder"):
        AdamW(model(), master="rest")
    p = parameter(torch.ones(8), torch.float16)
    with pytest.raises(Exception, match="need bf16 weights, but .model is f16"):
        AdamW([p], master="remainder").step()
    with pytest.raises(Exception, match="leave out"):
        AdamW(model(), master="remainder", weight_rounding="kahan").step()


OTHERWISE = {"bf16": lambda v: v.bfloat16(), "f64": lambda v: v.double(), "expanded": lambda v: v[:1].expand(v.shape),
             "sliced": lambda v: torch.stack([v, -v], 2)[..., 0], "transposed": lambda v: v.t().contiguous().t()}


@pytest.mark.parametrize("form", OTHERWISE)
@pytest.mark.parametrize("master", ["remainder", "ecc24"])
def test_weights_may_be_set_from_any_tensor(master, form):
    torch.manual_seed(3)
    values = OTHERWISE[form](torch.randn(64, 48))
    params = [parameter(torch.zeros(64, 48)) for _ in range(2)]
    optimizers = [AdamW([p], master=master) for p in params]
    for p, optimizer, given in zip(params, optimizers, (values, values.float().contiguous())):
        stepped(optimizer, [p], 1)
        optimizer.set_weight(p, given)
    got, expected = (stored.to_f32(o.state[p], p) for p, o in zip(params, optimizers))
    assert torch.equal(got, expected) and torch.equal(*params)
    assert torch.equal(expected, values.float()) or master == "ecc24"


@pytest.mark.parametrize("form", OTHERWISE)
@pytest.mark.parametrize("master", ["remainder", "ecc24"])
def test_loaded_masters_may_be_any_tensor(master, form):
    params = [parameter(torch.zeros(64, 48)) for _ in range(2)]
    source = AdamW([params[0]])
    stepped(source, [params[0]], 1)
    saved = source.state_dict()
    torch.manual_seed(3)
    values = OTHERWISE[form](torch.randn(64, 48))
    found = []
    for p, given in zip(params, (values, values.float().contiguous())):
        optimizer = AdamW([p], master=master)
        optimizer.load_state_dict({**saved, "state": {0: {**saved["state"][0], "master": given}}})
        optimizer._make_state()
        found.append(stored.to_f32(optimizer.state[p], p))
    assert torch.equal(*found)


def test_conversions_refuse_arrays_that_they_do_not_fit():
    for wrong in (torch.zeros(9), torch.zeros(8, dtype=torch.bfloat16), torch.zeros(16)[::2]):
        with pytest.raises(ValueError, match="from"):
            stored.run_conversion(stored.conversion("f32", "remainder"), {"from": wrong}, torch.empty(8))
