"""FusedAdam: TransformerEngine's signature and state, Apex' rounding, gradients in other attributes."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from stepfuse.torch import AdamW, FusedAdam

SHAPES = [(5, 7), (300,), (40, 30)]
HAS_GRAD_DTYPE = hasattr(torch.empty(0), "grad_dtype")


def parameters(dtype=torch.float32):
    draw = torch.Generator().manual_seed(3)
    return [nn.Parameter(torch.randn(shape, generator=draw).to(dtype)) for shape in SHAPES]


def gradients(step, dtype=torch.float32):
    draw = torch.Generator().manual_seed(100 + step)
    return [torch.randn(shape, generator=draw).to(dtype) for shape in SHAPES]


def train(optimizer, params, steps, attribute="grad", dtype=None):
    for step in steps:
        for p, g in zip(params, gradients(step, dtype or p_dtype(params))):
            setattr(p, attribute, g)
        optimizer.step()


def p_dtype(params):
    return params[0].dtype


def apex(weight, steps, lr, betas, eps, decay, decoupled):
    """Apex' multi_tensor_adam in numpy: single operations in f32, in its order."""
    one = np.float32
    w, b1, b2 = weight.astype(one), one(betas[0]), one(betas[1])
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(steps, 1):
        g = g if decoupled else g + one(decay) * w
        m = b1 * m + (one(1) - b1) * g
        v = b2 * v + (one(1) - b2) * g * g
        first, second = (x / one(1 - np.float64(one(b)) ** t) for x, b in ((m, b1), (v, b2)))
        update = first / (np.sqrt(second) + one(eps))
        w = w - one(lr) * (update + one(decay) * w if decoupled else update)
    return w


@pytest.mark.parametrize("decoupled", [True, False])
def test_rounds_as_apex(decoupled):
    params = parameters()
    start = [p.detach().numpy().copy() for p in params]
    optimizer = FusedAdam(params, lr=0.01, betas=(0.9, 0.95), weight_decay=0.1, adam_w_mode=decoupled)
    train(optimizer, params, range(5))
    for i, p in enumerate(params):
        want = apex(start[i], [gradients(s)[i].numpy() for s in range(5)], 0.01, (0.9, 0.95), 1e-8, 0.1, decoupled)
        np.testing.assert_array_max_ulp(p.detach().numpy(), want, 1)
        assert (p.detach().numpy() == want).mean() > 0.99


@pytest.mark.parametrize("remainders", [False, True])
def test_masters_are_master_param(remainders):
    params, exact = parameters(torch.bfloat16), parameters(torch.bfloat16)
    optimizer = FusedAdam(params, lr=1e-3, master_weights=True, store_param_remainders=remainders)
    wide = [nn.Parameter(p.detach().float()) for p in exact]
    alone = FusedAdam(wide, lr=1e-3)
    for step in range(4):
        for p, q, g in zip(params, wide, gradients(step, torch.bfloat16)):
            p.grad, q.grad = g, g.float()
        optimizer.step()
        alone.step()
    for p, q in zip(params, wide):
        assert list(optimizer.state[p]) == ["exp_avg", "exp_avg_sq", "master_param"]
        assert optimizer.state[p]["master_param"].dtype == (torch.int16 if remainders else torch.float32)
        assert torch.equal(p, q.to(torch.bfloat16))
        assert torch.equal(optimizer.get_unscaled_state(p, "master_param"), q)


def test_without_masters_new_weights_are_rounded():
    params = parameters(torch.bfloat16)
    optimizer = FusedAdam(params, lr=1e-3)
    train(optimizer, params, range(2))
    assert all(list(optimizer.state[p]) == ["exp_avg", "exp_avg_sq"] for p in params)


@pytest.mark.parametrize(("dtypes", "names"), [
    ((torch.bfloat16, torch.bfloat16), ["exp_avg", "exp_avg_sq"]),
    ((torch.uint8, torch.float32), ["exp_avg.fp8.code", "exp_avg.fp8.scale", "exp_avg_sq"]),
], ids=str)
def test_moments_in_other_dtypes(dtypes, names):
    params = parameters()
    optimizer = FusedAdam(params, lr=1e-3, exp_avg_dtype=dtypes[0], exp_avg_sq_dtype=dtypes[1])
    train(optimizer, params, range(3))
    assert all(sorted(optimizer.state[p]) == sorted(names) for p in params)
    for p in params:
        if "exp_avg" in optimizer.state[p]:
            assert optimizer.state[p]["exp_avg"].dtype == dtypes[0]
            assert torch.equal(optimizer.get_unscaled_state(p, "exp_avg"), optimizer.state[p]["exp_avg"].float())
    saved = optimizer.state_dict()["state"]
    assert all(list(s) == ["exp_avg", "exp_avg_sq"] and s["exp_avg"].dtype == torch.float32 for s in saved.values())


@pytest.mark.parametrize(("attribute", "kw"), [
    ("decoupled_grad", {"use_decoupled_grad": True}), ("decoupled_grad", {"gradient": "decoupled_grad"}),
    ("main_grad", {"gradient": "main_grad"})], ids=str)
def test_gradients_in_other_attributes(attribute, kw):
    params, plain = parameters(), parameters()
    optimizer, other = FusedAdam(params, lr=0.01, max_norm=1.0, **kw), FusedAdam(plain, lr=0.01, max_norm=1.0)
    for step in range(3):
        kept = gradients(step)
        for p, q, g in zip(params, plain, kept):
            setattr(p, attribute, g)
            q.grad = g.clone()
        optimizer.step()
        other.step()
        assert all(p.grad is None and getattr(p, attribute) is g for p, g in zip(params, kept))
        optimizer.zero_grad()
        assert all(getattr(p, attribute) is None if attribute == "decoupled_grad" else (getattr(p, attribute) == 0).all() for p in params)
    assert all(torch.equal(p, q) for p, q in zip(params, plain))
    assert optimizer.stats()["grad_norm"] == other.stats()["grad_norm"]


@pytest.mark.skipif(not HAS_GRAD_DTYPE, reason="this torch has no grad_dtype")
def test_decoupled_gradients_are_f32_of_bf16_parameters():
    params = parameters(torch.bfloat16)
    wide = [nn.Parameter(p.detach().float()) for p in params]
    optimizer = FusedAdam(params, lr=0.01, master_weights=True, use_decoupled_grad=True)
    alone = FusedAdam(wide, lr=0.01)
    for step in range(3):
        for p, q, g in zip(params, wide, gradients(step)):
            p.decoupled_grad, q.grad = g, g.clone()
        optimizer.step()
        alone.step()
    for p, q in zip(params, wide):
        assert torch.equal(optimizer.state[p]["master_param"], q)
        assert p.grad_dtype == torch.bfloat16, "autograd's own gradients stay in bf16"
        p.grad = torch.zeros_like(p)


def test_a_parameter_without_a_decoupled_gradient_stands_still():
    params = parameters()
    optimizer = FusedAdam(params, lr=0.01, use_decoupled_grad=True)
    params[0].decoupled_grad = torch.ones_like(params[0])
    params[1].grad = torch.ones_like(params[1])  # which is not the one to read
    before = params[1].detach().clone()
    optimizer.step()
    assert torch.equal(params[1], before) and (params[1].grad == 1).all()
    assert list(optimizer.state) == [params[0]]


@pytest.mark.parametrize(("dtype", "kw"), [
    (torch.float32, {}), (torch.bfloat16, {"master_weights": True}),
    (torch.bfloat16, {"master_weights": True, "store_param_remainders": True, "exp_avg_dtype": torch.bfloat16,
                      "exp_avg_sq_dtype": torch.bfloat16}),
    (torch.float32, {"exp_avg_dtype": torch.uint8}),
], ids=str)
@pytest.mark.parametrize("way", ["state_dict", "pickle", "deepcopy"])
def test_goes_on_from_its_state(dtype, kw, way):
    params = parameters(dtype)
    optimizer = FusedAdam(params, lr=0.01, **kw)
    train(optimizer, params, range(3))
    if way == "state_dict":
        again = [nn.Parameter(p.detach().clone()) for p in params]
        other = FusedAdam(again, lr=0.5, **kw)
        saved = optimizer.state_dict()
        assert all(g["step"] == 3 for g in saved["param_groups"])
        other.load_state_dict(saved)
    else:
        other = pickle.loads(pickle.dumps(optimizer)) if way == "pickle" else copy.deepcopy(optimizer)
        again = other.param_groups[0]["params"]
    train(optimizer, params, range(3, 6))
    train(other, again, range(3, 6))
    assert all(torch.equal(p, q) for p, q in zip(params, again))
    assert optimizer.state_dict()["param_groups"][0]["step"] == other.state_dict()["param_groups"][0]["step"] == 6


def test_state_can_be_made_and_set_before_a_step():
    params = parameters(torch.bfloat16)
    optimizer = FusedAdam(params, lr=0.01, master_weights=True, store_param_remainders=True)
    for p in params:
        optimizer.initialize_state(p)
        optimizer.set_scaled_state(p, "master_param", p.detach().float() + 1e-3)
        optimizer.set_scaled_state(p, "exp_avg", torch.ones_like(p, dtype=torch.float32))
    optimizer.param_groups[0]["lr"] = 0.0
    train(optimizer, params, range(1))
    for p, q in zip(params, parameters(torch.bfloat16)):
        assert optimizer.state[p]["master_param"].dtype == torch.int16
        assert torch.equal(p, (q.float() + 1e-3).to(torch.bfloat16))
        assert (optimizer.state[p]["exp_avg"] != 0).all()


def test_a_write_to_a_parameter_reaches_its_master():
    params = parameters(torch.bfloat16)
    optimizer = FusedAdam(params, lr=0.0, master_weights=True)
    train(optimizer, params, range(2))
    with torch.no_grad():
        params[0].fill_(5.0)
    train(optimizer, params, range(2, 4))
    assert (params[0] == 5).all() and (optimizer.state[params[0]]["master_param"] == 5).all()
    optimizer.set_weight(params[1], torch.full(SHAPES[1], 1.001))
    train(optimizer, params, range(4, 6))
    assert (optimizer.state[params[1]]["master_param"] == torch.tensor(1.001)).all()


@pytest.mark.parametrize(("kw", "message"), [
    ({"amsgrad": True}, "amsgrad=True: FusedAdam does not support it; use stepfuse.torch.AdamW"),
    ({"bias_correction": False}, "bias_correction=False: FusedAdam always corrects its moments"),
    ({"exp_avg_dtype": torch.bfloat16}, "expected torch.bfloat16 for both or for neither; got bf16 and f32"),
    ({"exp_avg_dtype": torch.float16}, "exp_avg_dtype: expected one of torch.float32, .*; got torch.float16"),
    ({"master_weights": True, "master_weight_dtype": torch.float16}, "master_weight_dtype: expected torch.float32; got torch.float16"),
    ({"gradient": "other"}, "gradient: expected one of grad, decoupled_grad, main_grad"),
], ids=str)
def test_what_it_has_not_is_refused(kw, message):
    with pytest.raises(ValueError, match=message):
        FusedAdam(parameters(), **kw)


def test_our_own_options_that_the_signature_decides_are_refused():
    with pytest.raises(TypeError, match="FusedAdam has no argument 'master'"):
        FusedAdam(parameters(), master="f32")
    assert isinstance(FusedAdam(parameters()), AdamW) and isinstance(FusedAdam(parameters()), torch.optim.AdamW)
