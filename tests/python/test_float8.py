"""Parameters in 8-bit floats: gradients widen and parameters narrow bit for bit as torch's own conversions do."""

import pytest
import torch

from stepfuse.torch import SGD, AdamW, checks

FLOAT8 = [dtype for dtype in checks.DTYPES if dtype.itemsize == 1]


def patterns(dtype):
    """Every value of a dtype."""
    size = dtype.itemsize
    return torch.arange(256**size).to(torch.uint8 if size == 1 else torch.uint16).view(dtype)


def numbers(dtype):
    """f32 values: all of f16 and bf16, the neighbours of every number of `dtype` and of every tie, and many patterns."""
    own = patterns(dtype).float()
    own = own[own.isfinite()].sort().values
    ties = (own[1:] + own[:-1]) / 2
    beyond = torch.tensor([464.0, 480.0, 512.0, 61440.0, 65536.0, 3e38, float("inf"), float("nan")])
    near = torch.cat([own, ties, beyond, -beyond]).view(torch.int32)
    around = torch.cat([near + d for d in (-1, 0, 1)]).view(torch.float32)
    generator = torch.Generator().manual_seed(5)
    any_bits = torch.randint(-(2**31), 2**31, (1 << 20,), generator=generator).to(torch.int32).view(torch.float32)
    return torch.cat([around, any_bits, torch.randn(1 << 18, generator=generator) * 100,
                      patterns(torch.float16).float(), patterns(torch.bfloat16).float()])


def same_bits(a, b):
    """Compares bits; all NaNs count as equal."""
    nan = a.float().isnan()
    bits = torch.int32 if a.dtype == torch.float32 else torch.uint8
    return torch.equal(nan, b.float().isnan()) and torch.equal(a.view(bits)[~nan], b.view(bits)[~nan])


def parameter(count, dtype):
    p = torch.nn.Parameter(torch.zeros(count, dtype=dtype))
    p.grad = torch.zeros(count, dtype=dtype)
    return p


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_every_gradient_widens_as_in_torch(dtype):
    p = parameter(256, dtype)
    optimizer = SGD([p], lr=1.0)
    p.grad = patterns(dtype)
    optimizer.step()
    assert same_bits(optimizer.state[p]["master"], 0.0 - p.grad.float())


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_parameters_narrow_as_in_torch(dtype):
    values = numbers(dtype)
    p = parameter(values.numel(), dtype)
    optimizer = SGD([p], lr=0.0)
    optimizer.step()
    optimizer.state[p]["master"].copy_(values)
    optimizer.step()
    assert same_bits(optimizer.state[p]["master"], values)
    assert same_bits(p.detach(), values.to(dtype))


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_training_keeps_the_weights_in_f32(dtype):
    torch.manual_seed(3)
    start = torch.randn(4096).to(dtype)
    p = torch.nn.Parameter(start.clone())
    q = torch.nn.Parameter(start.float())
    ours = AdamW([p], lr=1e-2, fused=True)
    theirs = torch.optim.AdamW([q], lr=1e-2, fused=True)
    for _ in range(20):
        p.grad = torch.randn(4096).to(dtype)
        q.grad = p.grad.float()
        ours.step()
        theirs.step()
    assert torch.equal(ours.state[p]["master"], q)
    assert same_bits(p.detach(), q.detach().to(dtype))
