"""torch's order of calls with this package's GradScaler and clip_grad_norm_: as torch's, and deferred into the step."""

import copy
import pickle

import pytest
import torch
from pairs import Pair, same_numbers, same_state

from stepfuse.torch import SGD, AdamW, GradScaler, Lion, LossScaler, clip_grad_norm_, clip_grad_value_, patch_clipping

OVERFLOWS = {3, 4, 77, 200, 201, 202, 350}
SCALES = {"init_scale": 1024.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 40}


def fill(pair, i, scale, whole=False):
    for k, (p, q) in enumerate(zip(pair.a, pair.b)):
        g = torch.randint(-8, 9, p.shape).float() / 8 if whole else torch.randn(p.shape)
        p.grad = (g * scale).to(p.dtype)
        if i in OVERFLOWS and k == len(pair.a) - 1:
            p.grad.view(-1)[3] = float("nan" if i % 2 else "inf")
        q.grad = p.grad.clone()


def loop(scaler, optimizer, clip, params, max_norm, norm_type=2.0, unscale=True):
    norm = None
    if unscale:
        scaler.unscale_(optimizer)
    if max_norm is not None:
        norm = clip(params, max_norm, norm_type)
    scaler.step(optimizer)
    scaler.update()
    return norm


def beside_torch(cls, steps, max_norm, norm_type=2.0, unscale=True, whole=False, exact=False, **kw):
    pair = Pair(cls, getattr(torch.optim, cls.__name__), **kw)
    ours = GradScaler("cpu", **SCALES, defer_unscale=True, exact_skips=exact)
    theirs = torch.amp.GradScaler("cpu", **SCALES)
    for s in (ours, theirs):
        s.scale(torch.ones(()))
    for i in range(steps):
        assert ours.get_scale() == theirs.get_scale(), i
        fill(pair, i, theirs.get_scale(), whole)
        before = [p.grad.clone() for p in pair.a]
        a = loop(ours, pair.ours, clip_grad_norm_, pair.a, max_norm, norm_type, unscale)
        b = loop(theirs, pair.theirs, torch.nn.utils.clip_grad_norm_, pair.b, max_norm, norm_type, unscale)
        assert pair.ours.last_step_skipped.item() == (i in OVERFLOWS)
        assert all(torch.equal(p.grad.nan_to_num(), g.nan_to_num()) for p, g in zip(pair.a, before))
        if max_norm is not None and i not in OVERFLOWS:
            torch.testing.assert_close(a, b)
    assert ours.state_dict() == theirs.state_dict()
    return pair


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kw", [
    {"cls": AdamW, "max_norm": None, "fused": True}, {"cls": AdamW, "max_norm": None, "fused": True, "unscale": False},
    {"cls": AdamW, "max_norm": 0.5, "norm_type": float("inf"), "fused": True},  # a norm that no order of adding changes
    {"cls": AdamW, "max_norm": 1.0, "whole": True, "shapes": ((24, 8),), "fused": True},
    {"cls": SGD, "max_norm": 3.0, "norm_type": 1.0, "whole": True, "lr": 0.1, "momentum": 0.9}], ids=str)
def test_deferred_is_the_classic_loop_to_the_bit(kw, exact):
    pair = beside_torch(steps=400, exact=exact, **kw)
    assert pair.equal()
    assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())


def test_deferred_is_the_native_step_to_the_bit():
    native = LossScaler(**SCALES)
    pair = Pair(AdamW, AdamW, fused=True, max_norm=1.0, scaler=native, theirs_kw={"fused": True})
    classic = GradScaler("cpu", **SCALES, defer_unscale=True)
    classic.scale(torch.ones(()))
    for i in range(120):
        assert native.get_scale() == classic.get_scale()
        fill(pair, i, native.get_scale())
        pair.ours.step()
        loop(classic, pair.theirs, clip_grad_norm_, pair.b, 1.0)
        for optimizer in (pair.ours, pair.theirs):
            assert optimizer.last_step_skipped.item() == (i in OVERFLOWS)
    assert pair.equal()
    assert native.state_dict() == classic.state_dict()


def test_not_deferred_is_torch():
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    ours, theirs = GradScaler("cpu", **SCALES), torch.amp.GradScaler("cpu", **SCALES)
    for s in (ours, theirs):
        s.scale(torch.ones(()))
    for i in range(100):
        fill(pair, i, theirs.get_scale())
        a = loop(ours, pair.ours, clip_grad_norm_, pair.a, 1.0)
        b = loop(theirs, pair.theirs, torch.nn.utils.clip_grad_norm_, pair.b, 1.0)
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
        assert all(torch.equal(p.grad.nan_to_num(), q.grad.nan_to_num()) for p, q in zip(pair.a, pair.b))
        assert pair.ours.last_step_skipped.item() == (i in OVERFLOWS)
    assert pair.equal() and ours.state_dict() == theirs.state_dict()


def outcome(call):
    try:
        call()
    except Exception as error:  # what torch does is what is asked for
        return type(error), str(error)
    return None


@pytest.mark.parametrize("calls", [
    "unscale", "step", "update", "scale unscale unscale", "scale step step", "scale step unscale", "scale update",
    "scale unscale update unscale step update", "closure", "scale closure", "scale step update step update", "scale nothing",
    "scale half", "scale argument update"], ids=str)
def test_state_machine_and_messages_are_torchs(calls):
    def said(scaler, cls):
        p = torch.nn.Parameter(torch.ones(8))
        p.grad = torch.ones(8)
        optimizer = cls([p], lr=0.1)
        def update():
            p.grad = torch.ones(8)  # torch's own is unscaled now
            scaler.update()

        does = {"scale": lambda: scaler.scale(p.sum()), "unscale": lambda: scaler.unscale_(optimizer),
                "step": lambda: scaler.step(optimizer), "update": update,
                "closure": lambda: scaler.step(optimizer, closure=None),
                "argument": lambda: scaler.step(optimizer, None)}

        def nothing():
            p.grad = None
            scaler.step(optimizer)

        def half():
            p.data = p.data.half()
            p.grad = torch.ones(8, dtype=torch.float16)
            scaler.step(optimizer)

        return [outcome({**does, "nothing": nothing, "half": half}[c]) for c in calls.split()], p.detach().float()

    expected, weights = said(torch.amp.GradScaler("cpu"), torch.optim.AdamW)
    for options in ({}, {"defer_unscale": True}, {"defer_unscale": True, "exact_skips": True}):
        found, ours = said(GradScaler("cpu", **options), AdamW)
        assert found == expected
        assert torch.equal(ours, weights)


def test_several_optimizers_and_kinds_of_parameters():
    """One scaler, two optimizers; the first has two dtypes, whose norm is one."""
    torch.manual_seed(5)
    params = [torch.nn.Parameter(torch.randn(40)), torch.nn.Parameter(torch.randn(24).bfloat16())]
    other = torch.nn.Parameter(torch.randn(16))
    first, second = AdamW(params, lr=0.1), SGD([other], lr=0.1)
    scaler = GradScaler("cpu", init_scale=64.0, growth_interval=100, defer_unscale=True)
    loss = scaler.scale(torch.ones(()))
    assert loss.item() == 64.0
    for norm_type in (2.0, 1.0, float("inf")):
        for bad in (False, True):
            for p in (*params, other):
                p.grad = torch.randn(p.shape).to(p.dtype)
            if bad:
                params[1].grad[2] = float("inf")
            scale = scaler.get_scale()
            before = copy.deepcopy([p.detach() for p in (*params, other)])
            scaler.unscale_(first)
            norm = clip_grad_norm_(params, 0.5, norm_type)
            expected = torch.linalg.vector_norm(torch.cat([p.grad.float() for p in params]) / scale, norm_type)
            torch.testing.assert_close(norm, expected)
            scaler.step(first)
            scaler.step(second)
            scaler.update()
            assert scaler.get_scale() == (scale / 2 if bad else scale)
            assert first.last_step_skipped.item() == bad and not second.last_step_skipped.item()
            changed = [not torch.equal(p.detach(), q) for p, q in zip((*params, other), before)]
            assert changed == [not bad, not bad, True]


def test_what_cannot_be_deferred_is_unscaled():
    def trained(scaler, clip, cls, **kw):
        torch.manual_seed(2)
        a, b = (torch.nn.Parameter(torch.randn(16)) for _ in range(2))
        optimizer = cls([a, b], lr=0.1, fused=True)
        scaler.scale(torch.ones(()))
        for _ in range(5):
            a.grad, b.grad = torch.randn(16) * 64, torch.randn(16) * 64
            scaler.unscale_(optimizer)
            clip(kw.get("params", [a, b]) if "params" in kw else [a] if kw.get("one") else [a, b], 0.1,
                 kw.get("norm_type", 2.0))
            scaler.step(optimizer)
            scaler.update()
        return torch.cat([a, b, a.grad, b.grad]).detach()

    for kw in ({"one": True}, {"norm_type": 3.0}):
        ours = trained(GradScaler("cpu", init_scale=64.0, defer_unscale=True), clip_grad_norm_, AdamW, **kw)
        theirs = trained(torch.amp.GradScaler("cpu", init_scale=64.0), torch.nn.utils.clip_grad_norm_, torch.optim.AdamW, **kw)
        assert same_numbers(ours, theirs)
    theirs = GradScaler("cpu", init_scale=64.0, defer_unscale=True)
    assert torch.equal(trained(theirs, clip_grad_norm_, torch.optim.AdamW),
                       trained(torch.amp.GradScaler("cpu", init_scale=64.0), torch.nn.utils.clip_grad_norm_, torch.optim.AdamW))


def test_clip_without_a_scaler():
    pair = Pair(AdamW, torch.optim.AdamW, shapes=((24, 8),), fused=True)
    for i in range(50):
        fill(pair, -1, 1.0, whole=True)
        before = pair.a[0].grad.clone()
        ours = clip_grad_norm_(pair.ours, 1.0)
        assert torch.equal(ours, torch.nn.utils.clip_grad_norm_(pair.b, 1.0))
        if i % 7 == 3:  # thought better of it
            for optimizer in (pair.ours, pair.theirs):
                optimizer.zero_grad()
            continue
        pair.ours.step()
        pair.theirs.step()
        assert torch.equal(pair.a[0].grad, before)
    assert pair.equal()
    fill(pair, 3, 1.0)
    with pytest.raises(RuntimeError) as ours:
        clip_grad_norm_(pair.ours, 1.0, error_if_nonfinite=True)
    with pytest.raises(RuntimeError) as theirs:
        torch.nn.utils.clip_grad_norm_(pair.b, 1.0, error_if_nonfinite=True)
    assert str(ours.value) == str(theirs.value)


def test_a_clipped_step_that_was_not_made_is_forgotten():
    pair = Pair(SGD, torch.optim.SGD, lr=0.1)
    ours, theirs = GradScaler("cpu", defer_unscale=True), torch.amp.GradScaler("cpu")
    for s in (ours, theirs):
        s.scale(torch.ones(()))
    for i in range(9):
        fill(pair, -1, 65536.0, whole=True)
        for s, o, clip, params in ((ours, pair.ours, clip_grad_norm_, pair.a),
                                   (theirs, pair.theirs, torch.nn.utils.clip_grad_norm_, pair.b)):
            s.unscale_(o)
            clip(params, 0.25)
            if i % 3:
                s.step(o)
                s.update()
            else:
                s.update(65536.0)
        if i % 3 == 0:  # a step by hand after it is a plain one
            for p, q in zip(pair.a, pair.b):
                p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
            pair.ours.step()
            pair.theirs.step()
    assert pair.equal()


@pytest.mark.parametrize("set_to_none", [True, False], ids=["none", "zeros"])
@pytest.mark.parametrize("way", ["unscaled", "clipped", "zeroed", "pre-hook", "post-hook", "by hand"])
def test_a_step_left_out_keeps_its_verdict_to_itself(way, set_to_none):
    """In steps 1 and 3 the program leaves the step out, or a hook interrupts it. Steps 2 and 3 have an inf."""
    def trained(scaler, clip, cls):
        p = torch.nn.Parameter(torch.ones(8))
        optimizer = cls([p], lr=0.125)
        interrupts = []

        def hook(*_):
            if interrupts:
                raise KeyboardInterrupt(interrupts.pop())

        (optimizer.register_step_post_hook if way == "post-hook" else optimizer.register_step_pre_hook)(hook)
        seen = []
        for i in range(7):
            optimizer.zero_grad(set_to_none)
            between = torch.empty(8)  # so that gradients move
            scaler.scale(p.sum() * (float("inf") if i in (2, 3) else 2.0**i)).backward()
            scaler.unscale_(optimizer)
            if way != "unscaled":
                clip([p], 0.5, float("inf"))
            if i not in (1, 3):
                scaler.step(optimizer)
            elif way == "zeroed":
                optimizer.zero_grad(set_to_none)
            elif way.endswith("hook") and i == 1:  # torch calls none of them if there is an inf
                interrupts.append(i)
                with pytest.raises(KeyboardInterrupt):
                    scaler.step(optimizer)
            elif way == "by hand" and i == 1:
                optimizer.step()
            scaler.update()
            del between
            seen.append((p[0].item(), scaler.get_scale()))
        return seen

    kw = {"init_scale": 8.0, "growth_interval": 2}
    expected = trained(torch.amp.GradScaler("cpu", **kw), torch.nn.utils.clip_grad_norm_, torch.optim.SGD)
    for exact in (False, True):
        assert trained(GradScaler("cpu", **kw, defer_unscale=True, exact_skips=exact), clip_grad_norm_, SGD) == expected


def test_a_clipped_step_that_failed_is_clipped_when_it_is_tried_again():
    p = torch.nn.Parameter(torch.zeros(4))
    optimizer = SGD([p], lr=1.0)
    p.grad = torch.full((4,), 16.0)
    clip_grad_norm_(optimizer, 4.0, float("inf"))
    kept, p.grad = p.grad, torch.ones(4)
    with pytest.raises(RuntimeError, match="moved"):
        optimizer.step()
    p.grad = kept
    optimizer.step()
    assert p[0].item() == pytest.approx(-4.0)
    optimizer.step()  # the clip was for that step only
    assert p[0].item() == pytest.approx(-20.0)
    scaler = GradScaler("cpu", init_scale=8.0, defer_unscale=True)
    scaler.scale(torch.ones(()))
    for again in (True, False):  # the program tries again, or leaves the gradients
        p.grad.fill_(8.0)
        scaler.unscale_(optimizer)
        clip_grad_norm_(optimizer, 0.5, float("inf"))
        kept, p.grad = p.grad, torch.ones(4).to_sparse()
        before = p[0].item()
        with pytest.raises(RuntimeError, match="sparse"):
            scaler.step(optimizer)
        p.grad = kept
        if again:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.zero_grad()
        assert p[0].item() == pytest.approx(before - 0.5 * again)


AGAIN = {"norm": lambda clip, value, params: clip(params, 0.25), "log": lambda clip, value, params: clip(params, float("inf")),
         "part": lambda clip, value, params: clip(params[1:], 0.1), "p3": lambda clip, value, params: clip(params, 0.3, 3.0),
         "value": lambda clip, value, params: value(params, 0.02)}


@pytest.mark.parametrize("scaled", [True, False], ids=["scaler", "no scaler"])
@pytest.mark.parametrize("calls", ["log", "norm", "part", "p3", "value", "log value", "norm log part"])
def test_gradients_that_are_clipped_again(calls, scaled):
    def trained(ours):
        torch.manual_seed(3)
        params = [torch.nn.Parameter(torch.randn(24, 8)), torch.nn.Parameter(torch.randn(40))]
        optimizer = (SGD if ours else torch.optim.SGD)(params, lr=1.0)
        clip, value = (clip_grad_norm_, clip_grad_value_) if ours else (torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_)
        scaler = (GradScaler("cpu", init_scale=64.0, defer_unscale=True, exact_skips=exact) if ours else
                  torch.amp.GradScaler("cpu", init_scale=64.0)) if scaled else None
        seen = []
        for i in range(5):
            for p in params:
                p.grad = torch.randn(p.shape)
            if i == 3:
                params[1].grad[3] = float("nan")
            if scaled:
                for p in params:
                    p.grad *= scaler.scale(torch.ones(())).item()
                scaler.unscale_(optimizer)
            elif i == 3:
                continue  # the program leaves the step out, and its gradients are replaced
            norms = [clip(optimizer if ours and not scaled else params, 1.0)]
            if not scaled and i == 2:
                continue  # a clip of gradients that are replaced counts no more
            norms += [AGAIN[call](clip, value, params) for call in calls.split()]
            if scaled:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            seen += [torch.stack([n for n in norms if n is not None]).nan_to_num(), *(p.detach().clone() for p in params)]
        return seen

    for exact in (False, True):
        for a, b in zip(trained(True), trained(False)):
            torch.testing.assert_close(a, b)


def test_a_look_at_the_clipped_norm_changes_no_bit():
    def trained(looks, scale):
        torch.manual_seed(4)
        p = torch.nn.Parameter(torch.randn(300))
        optimizer = AdamW([p], lr=0.1)
        scaler = GradScaler("cpu", init_scale=scale or 1.0, defer_unscale=True, enabled=scale is not None)
        scaler.scale(torch.ones(()))
        for _ in range(4):
            p.grad = torch.randn(300) * (scale or 1.0)
            scaler.unscale_(optimizer)
            clip_grad_norm_(optimizer, 1.0)
            if looks:
                assert clip_grad_norm_(optimizer, float("inf")).item() == pytest.approx(1.0)
            scaler.step(optimizer)
            scaler.update()
        return p.detach()

    for scale in (None, 64.0):
        assert torch.equal(trained(True, scale), trained(False, scale))


@pytest.mark.parametrize("exact", [False, True])
def test_an_optimizer_without_gradients_under_torchs_fused_rule(exact):
    def said(scaler, cls, fused):
        p, q = (torch.nn.Parameter(torch.ones(8)) for _ in range(2))
        one, other = (cls([x], lr=0.1, fused=fused) for x in (p, q))
        scaler.scale(p.sum()).backward()
        return [outcome(lambda: scaler.step(one)), outcome(lambda: scaler.step(other)), outcome(scaler.update)]

    for fused in (True, False):
        expected = said(torch.amp.GradScaler("cpu"), torch.optim.AdamW, fused)
        assert said(GradScaler("cpu", defer_unscale=True, exact_skips=exact), AdamW, fused) == expected
        assert (expected[1] is None) == fused


def test_gradients_laid_out_otherwise():
    weight = torch.nn.Parameter(torch.ones(8, 4))
    other = torch.nn.Parameter(torch.ones(8, 4))
    ours, theirs = SGD([weight], lr=0.1), torch.optim.SGD([other], lr=0.1)
    for _ in range(3):
        g = torch.randint(-4, 5, (4, 8)).float().t()
        weight.grad, other.grad = g, g.clone()
        clip_grad_norm_(ours, 0.5)
        torch.nn.utils.clip_grad_norm_([other], 0.5)
        ours.step()
        theirs.step()
    assert torch.equal(weight, other)


def test_exact_skips_do_not_call_step():
    p = torch.nn.Parameter(torch.ones(8))
    optimizer = Lion([p])
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append(1))
    for exact, count in ((True, 0), (False, 1)):
        scaler = GradScaler("cpu", defer_unscale=True, exact_skips=exact)
        scaler.scale(torch.ones(()))
        p.grad = torch.full((8,), float("inf"))
        calls.clear()
        scaler.step(optimizer, None)
        scaler.update()
        assert len(calls) == count and scaler.get_scale() == 32768.0
        assert torch.equal(p.detach(), torch.ones(8))


def test_state_of_the_scaler():
    p = torch.nn.Parameter(torch.ones(8))
    optimizer = AdamW([p])
    scaler = GradScaler("cpu", init_scale=8.0, growth_interval=2, defer_unscale=True)

    def step():
        p.grad = torch.ones(8) * scaler.scale(torch.ones(())).item()
        scaler.step(optimizer)
        scaler.update()

    for _ in range(3):
        step()
    assert scaler.get_scale() == 16.0
    saved = scaler.state_dict()
    for again in (pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler)):
        assert again.state_dict() == saved
    scaler.load_state_dict({**saved, "scale": 4.0})
    step()
    assert scaler.get_scale() == 8.0
    scaler.update(2.0)
    scaler._scale = torch.tensor(32.0)  # somebody's checkpointing
    step()
    step()
    assert scaler.get_scale() == 64.0
    disabled = GradScaler("cpu", enabled=False, defer_unscale=True)
    before = p.detach().clone()
    disabled.step(optimizer)
    assert not torch.equal(p, before)


def test_in_the_place_of_torchs(monkeypatch):
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        monkeypatch.setattr(torch.nn.utils, name, getattr(torch.nn.utils, name))  # put back after
    patch_clipping()
    p = torch.nn.Parameter(torch.ones(8))
    p.grad = torch.ones(8)
    norm = torch.nn.utils.clip_grad_norm_([p], 1.0)
    assert norm.item() == pytest.approx(8**0.5) and p.grad[0] < 0.5
    optimizer = SGD([p], lr=1.0)
    patch_clipping(optimizer)
    p.grad.fill_(0.25)
    assert torch.nn.utils.clip_grad_norm_([p], 0.5).item() == pytest.approx(0.5**0.5)
    assert p.grad[0] == 0.25
    optimizer.step()
    assert p[0].item() == pytest.approx(1 - 0.25 * 0.5**0.5)

    scaler = GradScaler("cpu", init_scale=64.0, defer_unscale=True)
    scaler.scale(torch.ones(()))
    p.grad.fill_(32.0)
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_value_(p, 0.25)
    assert p.grad[0] == 0.25
    scaler.step(optimizer)
    assert p[0].item() == pytest.approx(0.75 - 0.25 * 0.5**0.5)
