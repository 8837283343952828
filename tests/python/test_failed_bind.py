"""A step that failed while it bound parameters and state leaves both as they were; the next one goes on."""

import pytest
import torch
from pairs import Pair, same_state
from trained import parameter, stepped

from stepfuse.torch import SGD, AdamW, binding, stored


def fail_once(monkeypatch, where, name, after=0):
    """Makes a function run out of memory once, when it was called `after` times."""
    whole, calls = getattr(where, name), []

    def failing(*args, **kw):
        calls.append(1)
        if len(calls) == after + 1:
            raise MemoryError("no more of it")
        return whole(*args, **kw)

    monkeypatch.setattr(where, name, failing)
    return calls


def same(before, after):
    return before.keys() == after.keys() and all(
        s.keys() == after[i].keys() and all(torch.equal(torch.as_tensor(v), torch.as_tensor(after[i][k])) for k, v in s.items())
        for i, s in before.items())


def snapshot(optimizer):
    return {i: {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in s.items()}
            for i, s in optimizer.state_dict()["state"].items()}


def test_a_refused_parameter():
    pair = Pair(SGD, torch.optim.SGD, lr=0.1, momentum=0.9, dampening=0.5)
    pair.steps(2)
    before = snapshot(pair.ours)
    kept = pair.a[1].data
    pair.a[1].data = kept.double()
    pair.a[1].grad = None
    for _ in range(2):
        with pytest.raises(TypeError, match="parameter 1 of group 0 is torch.float64"):
            pair.ours.step()
        assert same(before, snapshot(pair.ours))
    pair.a[1].data = kept
    pair.steps(3)
    assert pair.equal() and same_state(pair.ours.state_dict(), pair.theirs.state_dict())


@pytest.mark.parametrize("steps", [0, 2], ids=["the first", "a later one"])
def test_out_of_memory(monkeypatch, steps):
    pair = Pair(SGD, torch.optim.SGD, lr=0.1, momentum=0.9, dampening=0.5)
    pair.steps(steps)
    before = snapshot(pair.ours)
    for optimizer in (pair.ours, pair.theirs):
        optimizer.param_groups[0]["weight_decay"] = 0.0
        optimizer.param_groups[0]["maximize"] = True  # another program
    pair.gradients()
    calls = fail_once(monkeypatch, binding._core, "Step")
    with pytest.raises(MemoryError):
        pair.ours.step()
    assert same(before, snapshot(pair.ours))
    pair.ours.step()
    assert len(calls) > 1
    pair.theirs.step()
    pair.steps(2)
    assert pair.equal() and same_state(pair.ours.state_dict(), pair.theirs.state_dict())


def test_momentum_that_was_made_for_a_step_that_failed(monkeypatch):
    """A second part fails when the first one's arrays are made: they do not count as begun."""
    def make(params, **kw):
        return [{"params": params[:2]}, {"params": params[2:], "nesterov": True, "dampening": 0.0}]

    pair = Pair(lambda p, **kw: SGD(make(p), **kw), lambda p, **kw: torch.optim.SGD(make(p), **kw), lr=0.1, momentum=0.9, dampening=0.5)
    fail_once(monkeypatch, binding._core, "Step", after=1)
    pair.gradients()
    with pytest.raises(MemoryError):
        pair.ours.step()
    assert not pair.ours.state
    for optimizer in (pair.ours, pair.theirs):
        optimizer.step()
    pair.steps(2)
    assert pair.equal()


@pytest.mark.parametrize(("kw", "change", "where", "name"), [
    ({"moments": "fp8", "moments_min": 0}, {"moments": "f32"}, stored, "decode"),
    ({}, {"moments": "fp8", "moments_min": 0}, stored, "encode"),
    ({"master": "remainder"}, {"master": "f32"}, stored, "like_parameter"),
    ({}, {"master": "ecc24"}, stored, "store")], ids=str)
def test_a_form_that_could_not_be_changed(monkeypatch, kw, change, where, name):
    def run(fails):
        params = [parameter(torch.randn(300, generator=torch.Generator().manual_seed(2))) for _ in range(2)]
        optimizer = AdamW(params, lr=1e-2, **kw)
        stepped(optimizer, params, 3)
        optimizer.param_groups[0].update(change)
        if fails:
            before = snapshot(optimizer)
            fail_once(monkeypatch, where, name)
            for p in params:
                p.grad = torch.ones_like(p)
            with pytest.raises(MemoryError):
                optimizer.step()
            assert same(before, snapshot(optimizer))
        stepped(optimizer, params, 2, seed=7)
        return params, snapshot(optimizer)

    (params, state), (others, expected) = run(True), run(False)
    assert same(expected, state) and all(torch.equal(p, q) for p, q in zip(params, others))
