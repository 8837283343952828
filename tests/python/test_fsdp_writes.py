"""Under FSDP2: what somebody writes to a DTensor whose f32 master is stepped, and state whose local memory moves."""

import copy

import pytest
import torch
from processes import run_each
from test_fsdp import sharded
from torch.distributed.checkpoint.state_dict import set_model_state_dict

from stepfuse.torch import SGD

LR = 2.0**-10


def roll_back(model, best):
    model.load_state_dict(best)


def by_checkpoint(model, best):
    set_model_state_dict(model, best)


def write(model, best):
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(best[name])


def zero(model, _):
    for p in model.parameters():
        torch.nn.init.zeros_(p)


def write_locally(model, _):
    with torch.no_grad():
        for p in model.parameters():
            p.to_local().mul_(2)


def replace_locally(model, best):
    for name, p in model.named_parameters():
        p._local_tensor.data = best[name]._local_tensor.clone()


def move_state(_, optimizer):
    for state in optimizer.state.values():
        for name in ("master", "momentum_buffer"):
            state[name]._local_tensor.data = state[name]._local_tensor.data.clone()


def step(model, optimizer):
    for p in model.parameters():
        p.grad = torch.full_like(p, 3.0)
    optimizer.step()


def written(rank, world, change):
    model = sharded(torch.bfloat16)
    optimizer = SGD(model.parameters(), lr=LR)
    best = copy.deepcopy(model.state_dict())
    for _ in range(5):
        step(model, optimizer)
    assert not optimizer._engine.walk.written()
    masters = [optimizer.state[p]["master"].full_tensor().clone() for p in model.parameters()]
    before = [p.full_tensor().clone() for p in model.parameters()]
    change(model, best)
    after = [p.full_tensor().clone() for p in model.parameters()]
    step(model, optimizer)
    assert not optimizer._engine.walk.written()
    for p, master, a, b in zip(model.parameters(), masters, before, after):
        want = torch.where(a != b, b.float(), master) - LR * 3.0
        assert (a != b).any()
        assert torch.equal(optimizer.state[p]["master"].full_tensor(), want)
        assert torch.equal(p.full_tensor(), want.bfloat16())


def moved(rank, world):
    models = [sharded(torch.bfloat16) for _ in range(2)]
    optimizers = [SGD(model.parameters(), lr=LR, momentum=0.9) for model in models]
    for i in range(4):
        for model, optimizer in zip(models, optimizers):
            step(model, optimizer)
        if i == 1:
            move_state(models[0], optimizers[0])
    for p, q in zip(*(model.parameters() for model in models)):
        assert torch.equal(p.full_tensor(), q.full_tensor())
        for name in ("master", "momentum_buffer"):
            assert torch.equal(optimizers[0].state[p][name].full_tensor(), optimizers[1].state[q][name].full_tensor())


@pytest.mark.parametrize("world", [1, 2])
def test_writes_are_in_the_masters(world):
    run_each(world, written, [(change,) for change in (roll_back, by_checkpoint, write, zero, write_locally, replace_locally)])


def test_state_whose_local_memory_moves():
    run_each(2, moved, [()])


def written_after_a_load(rank, world, change):
    model, other = sharded(torch.bfloat16), sharded(torch.bfloat16)
    optimizer, second = SGD(model.parameters(), lr=LR), SGD(other.parameters(), lr=LR)
    best = copy.deepcopy(model.state_dict())
    for _ in range(3):
        step(model, optimizer)
    other.load_state_dict(model.state_dict())
    second.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    change(other, best)
    after = [p.to_local().float() - LR * 3.0 for p in other.parameters()]
    kept = [torch.equal(p.to_local(), q.to_local()) for p, q in zip(model.parameters(), other.parameters())]
    step(other, second)
    assert not all(kept)
    for p, a in zip(other.parameters(), after):
        assert torch.equal(second.state[p]["master"].to_local().bfloat16(), a.bfloat16())


def test_a_write_after_a_load():
    run_each(2, written_after_a_load, [(zero,), (write_locally,), (replace_locally,)])
