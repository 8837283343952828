"""A model's parameters twice, for one of our optimizers and for torch's, with the same gradients."""

import platform

import pytest
import torch

from stepfuse.torch import parts

SHAPES = ((16, 8), (32,), (4, 4, 8))  # multiples of 8: torch's fused kernels round their last few elements otherwise


def takes_names():
    try:
        torch.optim.SGD(torch.nn.Linear(1, 1).named_parameters())
    except TypeError:
        return False
    return True


needs_names = pytest.mark.skipif(not takes_names(), reason="this torch's optimizers take no named parameters")


def same_numbers(a, b):
    """Whether our values have the bits of torch's.

    On a GPU and on AArch64: whether they are close. Torch's kernels round a product and a sum once there, and we twice.
    """
    if not a.is_cuda and platform.machine() == "x86_64":
        return torch.equal(a, b)
    relative = 1e-2 if a.itemsize < 4 else 1e-4
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a.float(), b.to(a.device).float(), rtol=relative, atol=1e-5, equal_nan=True)


class Pair:
    def __init__(self, ours, theirs, shapes=SHAPES, dtype=torch.float32, theirs_kw=None, **kw):
        torch.manual_seed(1)
        self.a = [torch.nn.Parameter(torch.randn(s).to(dtype)) for s in shapes]
        self.b = [torch.nn.Parameter(p.detach().clone()) for p in self.a]
        self.ours = ours(self.a, **kw)
        self.theirs = theirs(self.b, **(kw if theirs_kw is None else theirs_kw))

    def gradients(self, scale=1.0, missing=()):
        for i, (p, q) in enumerate(zip(self.a, self.b)):
            g = torch.randn(p.shape).to(p.dtype) * scale
            p.grad = None if i in missing else g.clone()
            q.grad = None if i in missing else g.clone()

    def steps(self, count, **kw):
        for _ in range(count):
            self.gradients(**kw)
            self.ours.step()
            self.theirs.step()

    def equal(self):
        return all(same_numbers(p, q) for p, q in zip(self.a, self.b))


def step_counts(optimizer):
    """What torch's state calls `step`, of each parameter; on a GPU state_dict() makes them true."""
    if parts.on_cuda(torch.tensor(0).device):
        optimizer.state_dict()
    return [s["step"].item() for s in optimizer.state.values()]


def same_state(a, b):
    """Whether two state_dicts have the same states, as same_numbers() compares."""
    if a["state"].keys() != b["state"].keys():
        return False
    return all(s.keys() == b["state"][i].keys() and all(same_numbers(v, b["state"][i][k]) for k, v in s.items())
               for i, s in a["state"].items())
