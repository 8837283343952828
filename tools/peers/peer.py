"""The other side of a comparison: PyTorch's own optimizers, scaler and clipping, as shipped."""

import contextlib

import torch

KEPT = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer", "square_avg", "grad_avg", "sum")


@contextlib.contextmanager
def ieee_sqrt(on=True):
    """torch.sqrt on the CPU is MKL's vsSqrt (aten/src/ATen/cpu/vml.h), which is not correctly rounded. Within this,
    the optimizers use the correctly rounded one: f64 and back, which is exact for f32."""
    if not on:
        yield
        return
    sqrt = torch.Tensor.sqrt
    saved = torch.Tensor.sqrt, torch.Tensor.sqrt_, torch._foreach_sqrt, torch._foreach_sqrt_

    def exact(x):
        return sqrt(x.double()).float()

    def exact_(x):
        return x.copy_(exact(x))

    torch.Tensor.sqrt, torch.Tensor.sqrt_ = exact, exact_
    torch._foreach_sqrt = lambda xs: [exact(x) for x in xs]
    torch._foreach_sqrt_ = lambda xs: [exact_(x) for x in xs] and None
    try:
        yield
    finally:
        torch.Tensor.sqrt, torch.Tensor.sqrt_, torch._foreach_sqrt, torch._foreach_sqrt_ = saved


IMPLEMENTATIONS = {
    "fused": {"fused": True},
    "foreach": {"foreach": True},
    "for-loop": {"foreach": False},
}


def make_optimizer(cls, groups, implementation, **keywords):
    how = dict(IMPLEMENTATIONS[implementation])
    if cls is torch.optim.RMSprop:
        assert implementation != "fused"
    elif implementation == "for-loop":
        how["fused"] = False
    return cls(groups, **how, **keywords)


def make_scaler(init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
    scaler = torch.amp.GradScaler("cpu", init_scale, growth_factor, backoff_factor, growth_interval)
    scaler.scale(torch.zeros(1))  # makes its tensors
    return scaler


def kept(optimizer, parameter, name):
    """A buffer that the optimizer keeps for a parameter, zeros before its first step."""
    value = optimizer.state.get(parameter, {}).get(name)
    return torch.zeros_like(parameter.detach()) if value is None else value


def differing(ours, theirs):
    """How many elements differ in a bit."""
    return int((ours.view(torch.int32) != theirs.detach().contiguous().view(torch.int32)).sum())


def ulps(ours, theirs):
    """The largest distance in units of the last place."""
    def ordered(x):
        i = x.detach().contiguous().view(torch.int32).long()
        return torch.where(i < 0, -(i & 0x7FFFFFFF), i)
    return int((ordered(ours) - ordered(theirs)).abs().max()) if ours.numel() else 0


class Average:
    """torch.optim.swa_utils' exponential moving average of some parameters, updated after every step."""

    def __init__(self, parameters, decay):
        self.model = torch.nn.ParameterList(parameters)
        self.average = torch.optim.swa_utils.AveragedModel(
            self.model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(decay))

    def update(self):
        self.average.update_parameters(self.model)

    def values(self):
        return [p.detach() for p in self.average.parameters()]
