"""Formulas with values of rows, beside what torch computes of them."""

import pickle

import pytest
import torch

from stepfuse.torch import Formula, LossScaler

TEXT = """
optimizer mine "second moments of rows" {
  hyper lr = 1e-2, beta = 0.9, eps = 1e-8
  state second : row f32

  second = beta * second + (1 - beta) * mean(g * g, row)
  w = w - lr * g / (sqrt(second) + eps)
}
"""
SHAPES = ((7, 300), (5,), (3, 4, 5), (2, 20000), (0, 3), ())


class Rows(Formula):
    formula = TEXT


def rows(t):
    return t.reshape(t.shape[0], -1) if t.ndim > 1 else t.reshape(1, -1)


def parameters():
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(s)) for s in SHAPES]


def step(optimizer, params, i):
    torch.manual_seed(10 + i)
    for p in params:
        p.grad = torch.randn(p.shape)
    optimizer.step()


def test_rows_have_a_second_moment_each():
    params, theirs = parameters(), [p.detach().clone() for p in parameters()]
    kept = [torch.zeros(len(rows(p)) if p.numel() else 0) for p in params]
    optimizer = Rows(params)
    for i in range(4):
        step(optimizer, params, i)
        for p, q, v in zip(params, theirs, kept):
            if p.numel():
                v.mul_(0.9).add_(rows(p.grad).square().mean(1), alpha=0.1)
                rows(q).sub_(0.01 * rows(p.grad) / (v.sqrt() + 1e-8)[:, None])
    optimizer.state_dict()
    for p, q, v in zip(params, theirs, kept):
        torch.testing.assert_close(p.detach(), q, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(optimizer.state[p]["second"], v, rtol=1e-5, atol=0)


def test_checkpoints_and_pickles_go_on_to_the_bit():
    a, b = parameters(), parameters()
    one, two = Rows(a), Rows(b)
    for i in range(2):
        step(one, a, i)
    two.load_state_dict(one.state_dict())
    with torch.no_grad():
        for p, q in zip(a, b):
            q.copy_(p)
    for i in range(2, 4):
        step(one, a, i)
        step(two, b, i)
    assert all(torch.equal(p, q) for p, q in zip(a, b))
    two = pickle.loads(pickle.dumps(two))
    b = two.param_groups[0]["params"]
    step(one, a, 4)
    step(two, b, 4)
    assert all(torch.equal(p, q) for p, q in zip(a, b))


def test_rows_beside_loss_scale_and_formats():
    p = [torch.nn.Parameter(torch.randn(40, 40).bfloat16())]
    optimizer = Rows(p, scaler=LossScaler(init_scale=2.0), max_norm=1.0)
    p[0].grad = torch.randn(40, 40).bfloat16()
    optimizer.step()
    assert optimizer.state[p[0]]["second"].shape == (40,)
    text = TEXT.replace("state second", "moment m\n  m = m + g\n  state second")
    p = [torch.nn.Parameter(torch.randn(4, n)) for n in (4, 64)]  # shorter and longer than a block
    optimizer = Formula(p, formula=text, moments="int8", moments_min=0)
    for q in p:
        q.grad = torch.ones_like(q)
    optimizer.step()
    assert ["m" in optimizer.state[q] for q in p] == [True, False]
    text = text.replace("g * g, row)", "g * g, column)").replace(": row", ": column")
    with pytest.raises(Exception, match="has per-column values, and a block has elements of several columns"):
        Formula(p, formula=text, moments="int8", moments_min=0)
