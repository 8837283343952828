"""Clipping and loss scaling, inside of the step and by torch's own GradScaler and clip around it."""

import copy
import pickle

import pytest
import torch
from pairs import Pair, step_counts

import stepfuse
from stepfuse.torch import SGD, AdamW, GradScaler, LossScaler, clip_grad_norm_


def classic(pair, scaler, optimizer, params, max_norm):
    scaler.unscale_(optimizer)
    norm = torch.nn.utils.clip_grad_norm_(params, max_norm, foreach=False)
    scaler.step(optimizer)
    scaler.update()
    return norm


OVERFLOWS = {3, 4, 77, 200, 201, 202, 350}
SCALES = {"init_scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 40}


def scaled_gradients(pair, i, ours, theirs):
    """The same unscaled gradients for both sides, each multiplied by its own scale."""
    for k, (p, q) in enumerate(zip(pair.a, pair.b)):
        g = torch.randn(p.shape)
        p.grad, q.grad = g * ours, g * theirs
        if i in OVERFLOWS and k == 1:
            p.grad[3] = q.grad[3] = float("inf")


@pytest.mark.parametrize("threads", [1, 3])
def test_native_equals_the_classic_loop(threads):
    """500 steps with seven overflows and torch's norm as input: parameters and scale are equal after each."""
    torch.set_num_threads(threads)  # our step uses as many
    scaler = LossScaler(**SCALES)
    theirs = torch.amp.GradScaler("cpu", **SCALES)
    pair = Pair(AdamW, torch.optim.AdamW, fused=True, theirs_kw={"fused": True}, max_norm=1.0, external_norm=True,
                scaler=scaler)
    theirs.scale(torch.ones(()))  # creates its tensors
    for i in range(500):
        assert scaler.get_scale() == theirs.get_scale(), i
        scaled_gradients(pair, i, scaler.get_scale(), theirs.get_scale())
        norm = classic(pair, theirs, pair.theirs, pair.b, 1.0)
        pair.ours.step(norm=norm)
        assert pair.ours.stats()["skipped"] == (i in OVERFLOWS)
    assert pair.equal()
    assert scaler.state_dict() == theirs.state_dict()
    assert set(step_counts(pair.ours)) == {500.0 - len(OVERFLOWS)}
    torch.set_num_threads(1)


@pytest.mark.parametrize("fused", [False, True])
def test_torchs_own_scaler_and_clip(fused):
    """The compatible mode: only the class of the optimizer changes."""
    scalers = [torch.amp.GradScaler("cpu", **SCALES) for _ in range(2)]
    pair = Pair(AdamW, torch.optim.AdamW, fused=fused, theirs_kw={"fused": True})
    for s in scalers:
        s.scale(torch.ones(()))
    for i in range(100):
        scaled_gradients(pair, i, scalers[0].get_scale(), scalers[1].get_scale())
        classic(pair, scalers[0], pair.ours, pair.a, 1.0)
        classic(pair, scalers[1], pair.theirs, pair.b, 1.0)
    if fused:
        assert pair.equal()
    for p, q in zip(pair.a, pair.b):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=1e-5)
    assert scalers[0].state_dict() == scalers[1].state_dict()


def test_step_and_update_without_unscale():
    scalers = [torch.amp.GradScaler("cpu", **SCALES) for _ in range(2)]
    pair = Pair(SGD, torch.optim.SGD, lr=0.01, momentum=0.9)
    for s in scalers:
        s.scale(torch.ones(()))
    for i in range(50):
        scaled_gradients(pair, i, scalers[0].get_scale(), scalers[1].get_scale())
        for s, o in zip(scalers, (pair.ours, pair.theirs)):
            s.step(o)
            s.update()
    assert pair.equal()


@pytest.mark.parametrize("norm_type", [1.0, 2.0, float("inf")])
def test_clip_inside(norm_type):
    pair = Pair(SGD, torch.optim.SGD, lr=0.1, theirs_kw={"lr": 0.1}, max_norm=0.5, norm_type=norm_type)
    for i in range(20):
        pair.gradients(scale=0.01 if i % 3 else 1.0)
        norm = torch.nn.utils.clip_grad_norm_(pair.b, pair.ours.max_norm, norm_type)
        pair.ours.step()
        pair.theirs.step()
        assert pair.ours.stats()["grad_norm"] == pytest.approx(norm.item(), rel=1e-5)
        if i == 10:
            pair.ours.max_norm = 0.1
    for p, q in zip(pair.a, pair.b):
        torch.testing.assert_close(p, q, atol=1e-6, rtol=1e-5)


def test_scale_loss_then_resume_to_the_bit():
    def trained(steps, model, optimizer):
        for i in range(*steps):
            torch.manual_seed(i)
            optimizer.zero_grad()
            loss = model(torch.randn(4, 8)).square().mean()
            optimizer.scale(loss if i != 5 else loss * float("inf")).backward()
            optimizer.step()

    def make(model):
        return AdamW(model.parameters(), lr=0.01, max_norm=0.1, scaler=LossScaler(init_scale=256.0, growth_interval=3))

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))
    start = copy.deepcopy(model)
    optimizer = make(model)
    trained((0, 8), model, optimizer)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict(), optimizer.scaler.state_dict()))
    pickled = pickle.dumps((model, optimizer))
    trained((8, 16), model, optimizer)
    assert optimizer.scaler.get_scale() != 256.0

    again = start
    resumed = make(again)
    again.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    resumed.scaler.load_state_dict(saved[2])
    unpickled, theirs = pickle.loads(pickled)
    trained((8, 16), again, resumed)
    trained((8, 16), unpickled, theirs)
    for p, q, r in zip(model.parameters(), again.parameters(), unpickled.parameters()):
        assert torch.equal(p, q) and torch.equal(p, r)
    assert resumed.scaler.state_dict() == optimizer.scaler.state_dict() == theirs.scaler.state_dict()


@pytest.mark.parametrize("norm_type", [2.0, float("inf")])
def test_models_of_several_dtypes_and_kinds(norm_type):
    """One norm and one verdict for all parameters; the deferred mode adds the same sums and is bit-identical."""
    def params():
        torch.manual_seed(6)
        made = [torch.nn.Parameter(torch.randn(s).to(t)) for s, t in (
            ((8, 4), torch.float32), ((16,), torch.bfloat16), ((5,), torch.float32), ((7,), torch.float16))]
        return made, [{"params": made[:2]}, {"params": made[2:3], "amsgrad": True}, {"params": made[3:], "lr": 0.02}]

    a, groups = params()
    b, other = params()
    native = AdamW(groups, lr=0.01, max_norm=0.5, norm_type=norm_type, scaler=LossScaler(**SCALES))
    classic = GradScaler("cpu", **SCALES, defer_unscale=True)
    classic.scale(torch.ones(()))
    theirs = AdamW(other[:2], lr=0.01)  # torch's GradScaler refuses f16 gradients
    alone = AdamW(other[2:])
    for i in range(60):
        scale = native.scaler.get_scale()
        assert scale == classic.get_scale()
        for k, (p, q) in enumerate(zip(a, b)):
            p.grad = (torch.randn(p.shape) * scale / 32).to(p.dtype) if k < 3 else torch.zeros_like(p)
            if i in OVERFLOWS and k == i % 3:
                p.grad.view(-1)[2] = float("nan")
            q.grad = p.grad.clone()
        before = [p.detach().clone() for p in a]
        classic.unscale_(theirs)
        norm = clip_grad_norm_(b[:3], 0.5, norm_type)
        classic.step(theirs)
        classic.update()
        alone.step()
        native.step()
        stats = native.stats()
        assert stats["skipped"] == (i in OVERFLOWS) == native.last_step_skipped.item()
        assert not stats["skipped"] or all(torch.equal(p, q) for p, q in zip(a, before))
        if not stats["skipped"]:
            assert stats["grad_norm"] == norm.item()
    assert all(torch.equal(p, q) for p, q in zip(a[:3], b[:3]))
    assert set(step_counts(native)) == {60 - len([i for i in OVERFLOWS if i < 60])}


def test_several_kinds_with_an_external_norm():
    p, q = torch.nn.Parameter(torch.ones(8)), torch.nn.Parameter(torch.ones(8).bfloat16())
    optimizer = SGD([p, q], lr=1.0, max_norm=1.0, external_norm=True)
    p.grad, q.grad = torch.full((8,), 0.5), torch.full((8,), 0.5).bfloat16()
    optimizer.step(norm=2.0)
    torch.testing.assert_close(p.detach(), torch.full((8,), 0.75))
    torch.testing.assert_close(q.detach().float(), torch.full((8,), 0.75))


def test_what_goes_with_what():
    p = torch.nn.Parameter(torch.ones(8))
    p.grad = torch.ones(8)
    with pytest.raises(RuntimeError, match="scaler=LossScaler"):
        AdamW([p]).scale(p.sum())
    with pytest.raises(ValueError, match="external_norm"):
        AdamW([p], max_norm=1.0).step(norm=1.0)
    with pytest.raises(ValueError, match="norm_type"):
        AdamW([p], max_norm=1.0, norm_type=3)
    for scaler in (torch.amp.GradScaler("cpu"), GradScaler("cpu", defer_unscale=True)):
        scaler.scale(p.sum())
        with pytest.raises(RuntimeError, match="leave out one of them"):
            scaler.step(AdamW([p], scaler=LossScaler()))
        with pytest.raises(RuntimeError, match="leave out one of them"):
            scaler.step(copy.deepcopy(AdamW([p], scaler=LossScaler())))
    with pytest.raises(stepfuse.Error, match="growth_factor"):
        LossScaler(growth_factor=0.5)
