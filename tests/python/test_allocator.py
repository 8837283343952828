"""The memory of a step itself comes from where it is told to, and goes back there."""

import ctypes
import gc

import pytest
import torch

from stepfuse import _core
from stepfuse.torch import AdamW, parts

CPU = 0


class Arena:
    """Aligned memory of the process, and what of it is in use."""

    def __init__(self):
        self.used = {}
        self.asked = 0

    def pair(self):
        return self.allocate, self.release

    def allocate(self, size, stream):
        assert stream >= 0
        self.asked += 1
        block = ctypes.create_string_buffer(size + 256)
        address = (ctypes.addressof(block) + 255) & ~255
        self.used[address] = block
        return address

    def release(self, address):
        del self.used[address]


def step(allocator):
    return _core.Step(_core.Program("adamw", ["clip=l2"]), [("w", 1000, 0, False, 0)], CPU, 0, 1, None, False, allocator)


def test_a_step_takes_and_returns_its_memory():
    arena = Arena()
    made = step(arena.pair())
    assert arena.used
    del made
    gc.collect()
    assert arena.asked and not arena.used


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_memory_is_an_error():
    def allocate(_size, _stream):
        raise MemoryError("the arena is full")

    with pytest.raises((_core.Error, MemoryError)):
        step((allocate, lambda address: None))
    for wrong in (5, (1, 2), (print,)):
        with pytest.raises(TypeError, match="allocate, release"):
            step(wrong)


def test_an_optimizer_gives_its_steps_the_allocator_of_their_device(monkeypatch):
    assert parts.allocator(torch.device("cpu")) is None
    arena = Arena()
    monkeypatch.setattr(parts, "allocator", lambda device: arena.pair())
    w = torch.nn.Parameter(torch.ones(300))
    optimizer = AdamW([w], max_norm=1.0)
    for _ in range(3):
        w.grad = torch.ones(300)
        optimizer.step()
    assert arena.used
    del optimizer
    gc.collect()
    assert not arena.used
