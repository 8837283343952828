"""Adafactor and SM3 keep numbers of rows and columns: beside torch's and pytorch_optimizer's, and their checkpoints."""

import copy
import pickle

import pytest
import torch

from stepfuse.torch import SM3, Adafactor

SHAPES = ((7, 300), (65, 40), (200, 3), (1, 9), (5, 1), (5,), (2, 20000), ())


def parameters(shapes=SHAPES):
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(s)) for s in shapes]


def step(optimizer, params, i):
    torch.manual_seed(10 + i)
    for p in params:
        p.grad = torch.randn(p.shape) * 10.0 ** (i % 4 - 2)
        p.grad[p.grad.abs() < 1e-3] = 0.0
    optimizer.step()


def beside(ours, theirs, a, b, steps=12):
    for i in range(steps):
        step(ours, a, i)
        step(theirs, b, i)
    for p, q in zip(a, b):
        torch.testing.assert_close(p.detach(), q.detach(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("more", [{}, {"lr": 0.3, "beta2_decay": -0.5, "weight_decay": 0.1}, {"eps": (1e-6, 1e-2), "d": 2.0},
                                  {"maximize": True}])
def test_adafactor_is_torchs_but_for_the_order_of_sums(more):
    # torch takes a matrix of one row for a matrix, and here it is what torch has for one dimension.
    shapes = tuple(s for s in SHAPES if s != (1, 9))
    a, b = parameters(shapes), parameters(shapes)
    ours, theirs = Adafactor(a, **more), torch.optim.Adafactor(b, foreach=False, **more)
    beside(ours, theirs, a, b)
    for kept, q in zip(ours.state_dict()["state"].values(), b):
        assert set(kept) == set(theirs.state[q])
        for name, value in theirs.state[q].items():
            torch.testing.assert_close(kept[name], value, rtol=2e-5, atol=1e-12)


def test_a_matrix_of_one_row_has_a_variance_for_each_element():
    a, b = [torch.nn.Parameter(torch.ones(1, 9))], [torch.nn.Parameter(torch.ones(9))]
    ours, theirs = Adafactor(a), torch.optim.Adafactor(b, foreach=False)
    for i in range(5):
        torch.manual_seed(i)
        b[0].grad = torch.randn(9)
        a[0].grad = b[0].grad.view(1, 9).clone()
        ours.step()
        theirs.step()
    torch.testing.assert_close(a[0].detach()[0], b[0].detach(), rtol=2e-5, atol=2e-6)


def test_adafactors_checkpoints_go_both_ways():
    a, b, c = parameters(), parameters(), parameters()
    one, two, three = Adafactor(a), torch.optim.Adafactor(b, foreach=False), Adafactor(c)
    for i in range(3):
        step(one, a, i)
    two.load_state_dict(one.state_dict())
    three.load_state_dict(two.state_dict())
    with torch.no_grad():
        for p, q, r in zip(a, b, c):
            q.copy_(p)
            r.copy_(p)
    for i in range(3, 5):
        step(one, a, i)
        step(three, c, i)
    assert all(torch.equal(p, q) for p, q in zip(a, c))
    again = pickle.loads(pickle.dumps(one))
    d = again.param_groups[0]["params"]
    step(one, a, 5)
    step(again, d, 5)
    assert all(torch.equal(p, q) for p, q in zip(a, d))


@pytest.mark.parametrize("how", [copy.deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))], ids=["deepcopy", "pickle"])
def test_copies_complete_new_groups(how):
    optimizer = how(Adafactor(parameters(((4, 8),))))
    optimizer.add_param_group({"params": parameters(((4, 8),))})
    p, q = (group["params"][0] for group in optimizer.param_groups)
    step(optimizer, [p], 0)
    q.grad = p.grad.clone()
    step(optimizer, [p], 1)
    assert optimizer.param_groups[1]["eps"] == optimizer.param_groups[0]["eps"] and optimizer.state[q]["step"] == 1


def test_torchs_factors_of_three_dimensions_are_refused_by_name():
    params, theirs = parameters(((4,), (2, 3, 4))), parameters(((4,), (2, 3, 4)))
    peer = torch.optim.Adafactor(theirs)
    step(peer, theirs, 0)
    optimizer = Adafactor(params)
    optimizer.load_state_dict(peer.state_dict())
    before = [p.detach().clone() for p in params]
    with pytest.raises(ValueError, match=r"Adafactor: state 'row_var' of parameter 1 of group 0 has shape \(2, 3, 1\), and this step has 2 values"):
        step(optimizer, params, 1)
    assert all(torch.equal(p, q) for p, q in zip(params, before))
    del optimizer.state[params[1]]
    step(optimizer, params, 1)


@pytest.mark.parametrize("more", [{}, {"beta": 0.9}, {"momentum": 0.9}, {"beta": 0.99, "momentum": 0.5, "lr": 0.01}])
def test_sm3_is_pytorch_optimizers(more):
    peer = pytest.importorskip("pytorch_optimizer").SM3
    shapes = tuple(s for s in SHAPES if s)
    a, b = parameters(shapes), parameters(shapes)
    beside(SM3(a, **more), peer(b, **more), a, b)


def test_sm3_takes_the_smaller_of_row_and_column():
    p = [torch.nn.Parameter(torch.zeros(2, 3))]
    optimizer = SM3(p, lr=1.0)
    p[0].grad = torch.tensor([[1.0, 2.0, 0.0], [3.0, 0.5, 0.0]])
    optimizer.step()
    assert torch.equal(p[0].detach(), -torch.sign(p[0].grad))
    optimizer.state_dict()
    assert optimizer.state[p[0]]["row_max"].tolist() == [4.0, 9.0]
    assert optimizer.state[p[0]]["column_max"].tolist() == [9.0, 4.0, 0.0]
    with torch.no_grad():
        p[0].zero_()
    optimizer.step()  # min(row, column) + g^2
    expected = p[0].grad / (torch.tensor([[4.0, 4.0, 0.0], [9.0, 4.0, 0.0]]) + p[0].grad.square() + 1e-30).sqrt()
    torch.testing.assert_close(p[0].detach(), -expected)
