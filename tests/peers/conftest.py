"""What the tests of real trainers share: one small model, its batches, and the loop by hand that they are compared with."""

import pytest
import torch

from stepfuse.torch import AdamW, GradScaler, clip_grad_norm_

torch.set_num_threads(1)
STEPS, MICRO, MAX_NORM, BAD = 8, 2, 0.25, 3  # in the step BAD the loss overflows
RATE = 0.05


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)


def loss_of(net, x):
    return net(x).float().square().mean()


def batches(overflow):
    draw = torch.Generator().manual_seed(7)
    made = [torch.randn(4, 8, generator=draw) for _ in range(STEPS * MICRO)]
    if overflow:
        made[BAD * MICRO][0, 0] = float("inf")
    return made


def optimizer_of(net):
    return AdamW(net.parameters(), lr=RATE, weight_decay=0.1)


def schedule_of(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + i))


def by_hand(dtype, held, micro=MICRO, norms=None):
    """The loop that the trainers make; `held`: a skipped step does not move the schedule. Returns net, rates, scaler."""
    net = Net()
    optimizer = optimizer_of(net)
    schedule = schedule_of(optimizer)
    scaler = GradScaler("cpu", enabled=dtype == torch.float16, init_scale=1024.0, defer_unscale=True)
    rates = []
    data = batches(dtype == torch.float16)
    for i in range(STEPS):
        for x in data[i * micro:(i + 1) * micro]:
            with torch.autocast("cpu", dtype):
                loss = loss_of(net, x)
            scaler.scale(loss / micro).backward()
        rates.append(optimizer.param_groups[0]["lr"])
        scaler.unscale_(optimizer)
        norm = clip_grad_norm_(optimizer, MAX_NORM)
        if norms is not None:
            norms.append(norm.item())
        scaler.step(optimizer)
        scaler.update()
        skipped = scaler.is_enabled() and optimizer.last_step_skipped.item()
        if not (held and skipped):
            schedule.step()
        optimizer.zero_grad()
    return net, rates, scaler


def equal(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@pytest.fixture
def patched(monkeypatch):
    """torch's clip functions are put back after the test."""
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        monkeypatch.setattr(torch.nn.utils, name, getattr(torch.nn.utils, name))


@pytest.fixture
def launches(monkeypatch):
    """How often torch unscaled or clipped in a pass of its own; 0 where the step does."""
    counts = []
    for name in ("_amp_foreach_non_finite_check_and_unscale_", "_foreach_mul_"):
        real = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *a, real=real, **kw: (counts.append(1), real(*a, **kw))[1])
    return counts
