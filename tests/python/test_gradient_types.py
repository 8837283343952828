"""Gradients in another type than their parameter's, by torch's grad_dtype: read as what they are."""

import pytest
import torch

from stepfuse.torch import AdamW, GradScaler, Muon, clip_grad_norm_

pytestmark = pytest.mark.skipif(not hasattr(torch.Tensor, "grad_dtype"), reason="this torch has no grad_dtype")
LOW = (torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)


def pair(dtype, shape=(40, 30)):
    """A parameter below f32 with gradients in f32, and an f32 one of the same values."""
    torch.manual_seed(1)
    p = torch.nn.Parameter(torch.randn(shape).to(dtype))
    p.grad_dtype = torch.float32
    return p, torch.nn.Parameter(p.detach().float())


def give(params, k, dtype=torch.float32):
    g = torch.randn(params[0].shape, generator=torch.Generator().manual_seed(k))
    for p in params:
        p.grad = g.to(dtype if p is params[0] else torch.float32)


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_the_master_takes_the_steps_of_f32(dtype):
    p, q = pair(dtype)
    ours, theirs = AdamW([p], lr=1e-2, max_norm=0.5), AdamW([q], lr=1e-2, max_norm=0.5)
    for k in range(5):
        give((p, q), k)
        ours.step()
        theirs.step()
    assert torch.equal(ours.state[p]["master"], q)
    assert torch.equal(p.detach().float(), q.detach().to(dtype).float())
    assert ours.stats()["grad_norm"] == theirs.stats()["grad_norm"]


def test_a_type_that_changes_is_noticed():
    p, q = pair(torch.bfloat16)
    p.grad_dtype = None  # any
    ours, theirs = AdamW([p]), AdamW([q])
    for k, dtype in enumerate((torch.bfloat16, torch.float32, torch.float32, torch.float16, torch.bfloat16)):
        give((p, q), k, dtype)
        q.grad = p.grad.float()
        ours.step()
        theirs.step()
        assert torch.equal(ours.state[p]["master"], q), dtype


def test_with_other_strides():
    p, q = pair(torch.bfloat16)
    ours, theirs = AdamW([p]), AdamW([q])
    for k in range(3):
        give((p, q), k)
        p.grad = p.grad.t().contiguous().t()
        ours.step()
        theirs.step()
    assert torch.equal(ours.state[p]["master"], q)


def test_f16_parameters_with_f32_gradients_are_unscaled():
    p, q = pair(torch.float16)
    ours, theirs = AdamW([p]), AdamW([q])
    scaler = GradScaler("cpu", init_scale=8.0, defer_unscale=True)
    scaler.scale(torch.zeros(()))
    give((p, q), 0)
    p.grad *= 8
    scaler.unscale_(ours)
    clip_grad_norm_([p], 0.5)
    scaler.step(ours)
    clip_grad_norm_(theirs, 0.5)
    theirs.step()
    assert torch.equal(ours.state[p]["master"], q)


def test_muon():
    p, q = pair(torch.bfloat16)
    ours, theirs = Muon([p]), Muon([q])
    for k in range(3):
        give((p, q), k)
        ours.step()
        theirs.step()
    assert torch.equal(ours.state[p]["master"], q)


def test_other_types_are_refused():
    p, _ = pair(torch.bfloat16)
    p.grad_dtype = torch.float64
    give((p,), 0, torch.float64)
    with pytest.raises(TypeError, match="gradients in float32, .*; the gradient of parameter 0 of group 0 is torch.float64; cast it"):
        AdamW([p]).step()
