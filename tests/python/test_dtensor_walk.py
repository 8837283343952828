"""DTensors on the walk's fast path: which gradients are read in place, and what is still noticed."""

import sys

import pytest
import torch
from processes import good, run
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from stepfuse.torch import AdamW, binding, private
from stepfuse.torch.engine import Engine

WAYS = ["libtorch", "DLPack", "methods"]


class Slow(Exception):
    """Python judged a gradient."""


def ask(way):
    """Makes the walk ask tensors in this way; False where this torch has no such way."""
    if way != "libtorch":
        binding.INSIDE = []
    if way == "methods":
        private.EXCHANGE = None
    elif private.EXCHANGE is None:
        return False
    assert binding.new_walk().asks() == way
    return True


def made(mesh, value=1.0, placement=None, shape=(4, 2)):
    return DTensor.from_local(torch.full(shape, value), mesh, [placement or Shard(0)], run_check=False)


class Twins:
    """DTensors and plain tensors that take the same steps."""

    def __init__(self, mesh, **kw):
        self.mesh = mesh
        self.sharded = [nn.Parameter(made(mesh)) for _ in range(3)]
        self.plain = [nn.Parameter(torch.ones(4, 2)) for _ in range(3)]
        self.ours, self.theirs = AdamW(self.sharded, lr=0.1, **kw), AdamW(self.plain, lr=0.1, **kw)
        self.count = 0

    def grads(self):
        self.count += 1
        for i, (p, q) in enumerate(zip(self.sharded, self.plain)):
            p.grad, q.grad = made(self.mesh, float(self.count + i)), torch.full((4, 2), float(self.count + i))

    def step(self):
        self.grads()
        self.ours.step()
        self.theirs.step()

    def equal(self):
        return all(torch.equal(p.to_local(), q) for p, q in zip(self.sharded, self.plain)) and all(
            torch.equal(self.ours.state[p]["exp_avg_sq"].to_local(), self.theirs.state[q]["exp_avg_sq"])
            for p, q in zip(self.sharded, self.plain))


def in_place(rank, world, way):
    if not ask(way):
        return
    mesh = init_device_mesh("cpu", (1,))
    for kw in ({}, {"max_norm": 0.5}):
        twins = Twins(mesh, **kw)
        seen = []
        slow, Engine.dense_gradient = Engine.dense_gradient, lambda self, index, copy: seen.append(index) or slow(self, index, copy)
        try:
            for _ in range(3):
                twins.step()
            twins.sharded[0].grad = made(mesh, 1.0)
            twins.sharded[0].grad._spec.placements = (Shard(0),)  # an equal tuple of equal placements
            twins.ours.step()
            assert seen == [], f"Python judged the gradients {seen}"
            twins.sharded[1].grad = DTensor.from_local(torch.ones(2, 4).t(), mesh, [Shard(0)], run_check=False)
            twins.ours.step()
            assert seen == [1], "a gradient that lies otherwise is copied by Python"
        finally:
            Engine.dense_gradient = slow


@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_read_in_place(way):
    good(run(1, in_place, way))


def moved_parameter(twins):
    twins.sharded[0]._local_tensor.data = twins.sharded[0]._local_tensor.data.clone()


def another_local_tensor(twins):
    twins.sharded[0]._local_tensor = twins.sharded[0]._local_tensor.detach().clone()


def moved_state(twins):
    local = twins.ours.state[twins.sharded[1]]["exp_avg"]._local_tensor
    local.data = local.data.clone()


def another_local_state(twins):
    state = twins.ours.state[twins.sharded[1]]["exp_avg"]
    state._local_tensor = state._local_tensor.clone()


def another_state(twins):
    state = twins.ours.state[twins.sharded[1]]
    state["exp_avg_sq"] = DTensor.from_local(state["exp_avg_sq"]._local_tensor.clone(), twins.mesh, [Shard(0)], run_check=False)


def moves(rank, world, way):
    if not ask(way):
        return
    mesh = init_device_mesh("cpu", (1,))
    for move in (moved_parameter, another_local_tensor, moved_state, another_local_state, another_state):
        for kw in ({}, {"max_norm": 0.5}):
            twins = Twins(mesh, **kw)
            for _ in range(2):
                twins.step()
            old = [t._local_tensor for p in twins.sharded for t in (p, *(v for v in twins.ours.state[p].values() if isinstance(v, DTensor)))]
            addresses = {t.data_ptr(): t for t in old}
            move(twins)
            twins.step()
            twins.step()
            assert twins.equal(), (move.__name__, kw)
            assert addresses


@pytest.mark.parametrize("way", WAYS)
def test_local_tensors_that_move_are_noticed(way):
    good(run(1, moves, way))


def odd(rank, world, way):
    if not ask(way):
        return
    mesh, other = init_device_mesh("cpu", (1,)), init_device_mesh("cpu", (1, 1))
    cases = [
        (lambda: made(mesh, placement=Replicate()), RuntimeError, "has placements .*, but its gradient has .*redistribute"),
        (lambda: DTensor.from_local(torch.ones(4, 2), other, [Shard(0), Replicate()], run_check=False), RuntimeError, "has placements"),
        (lambda: DTensor.from_local(torch.ones(4, 2), init_device_mesh("cpu", (1,), mesh_dim_names=("named",)), [Shard(0)], run_check=False),
         None, None),
        (lambda: made(mesh, shape=(3, 2)), RuntimeError, r"has shape \(3, 2\), but the parameter has \(4, 2\)"),
        (lambda: DTensor.from_local(torch.ones(4, 2, dtype=torch.int32), mesh, [Shard(0)], run_check=False), TypeError, "int32"),
    ]
    for make, error, message in cases:
        twins = Twins(mesh)
        twins.step()
        before = twins.sharded[0].to_local().clone()
        p = twins.sharded[0]
        grad = made(mesh)
        p.grad = grad
        p.grad._local_tensor, p.grad._spec = make()._local_tensor, make()._spec  # autograd itself would refuse most of them
        if error is None:
            twins.ours.step()
            continue
        with pytest.raises(error, match=message):
            twins.ours.step()
        assert torch.equal(p.to_local(), before)


@pytest.mark.parametrize("way", WAYS)
def test_odd_gradients_are_judged_by_python(way):
    good(run(1, odd, way))


def counted(rank, world):
    """Autograd hears of the step's write, and a master of everybody else's."""
    mesh = init_device_mesh("cpu", (1,))
    p = nn.Parameter(DTensor.from_local(torch.ones(4, 2, dtype=torch.bfloat16), mesh, [Shard(0)], run_check=False))
    optimizer = AdamW([p], lr=0.1)
    for _ in range(2):
        p.grad = DTensor.from_local(torch.ones(4, 2, dtype=torch.bfloat16), mesh, [Shard(0)], run_check=False)
        before = p._local_tensor._version
        optimizer.step()
        assert p._local_tensor._version > before
    with torch.no_grad():
        p._local_tensor.fill_(5.0)
    optimizer.param_groups[0]["lr"] = 0.0
    p.grad = DTensor.from_local(torch.ones(4, 2, dtype=torch.bfloat16), mesh, [Shard(0)], run_check=False)
    optimizer.step()
    assert (p.to_local() == 5).all() and (optimizer.state[p]["master"].to_local() == 5).all()


def test_writes_are_counted():
    good(run(1, counted))


def calls(optimizer):
    """The functions that a step calls in Python, and the built-in ones."""
    found = []
    sys.setprofile(lambda frame, event, arg: found.append(event) if event in ("call", "c_call") else None)
    try:
        optimizer.step()
    finally:
        sys.setprofile(None)
    return len(found)


def counted_calls(rank, world):
    mesh = init_device_mesh("cpu", (1,))
    for kw in ({}, {"max_norm": 0.5}):
        counts = set()
        for count in (2, 40):
            for params in ([nn.Parameter(made(mesh)) for _ in range(count)], [nn.Parameter(torch.ones(4, 2)) for _ in range(count)]):
                for p in params:
                    p.grad = torch.ones_like(p)
                optimizer = AdamW(params, lr=0.1, **kw)
                for _ in range(2):
                    optimizer.step()
                counts.add(calls(optimizer))
        assert len(counts) == 1, counts
    return True


def test_a_step_calls_python_as_often_for_many_dtensors_as_for_few_plain_tensors():
    assert all(good(run(1, counted_calls)))
