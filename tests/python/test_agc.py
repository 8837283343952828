"""Adaptive gradient clipping in the step (clip_factor=): beside a model of it in float64, and beside timm's own function."""

import copy
import pickle

import pytest
import torch

from stepfuse import _core
from stepfuse.torch import SGD, Adafactor, AdamW, Formula, LossScaler, built_in, clip_grad_norm_

SHAPES = ((7, 300), (5,), (3, 4, 2, 2), (2, 20000), (0, 3), (), (6, 1))


def parameters(dtype=torch.float32):
    torch.manual_seed(1)
    params = [torch.nn.Parameter((torch.randn(s) * torch.rand(s[:1] + (1,) * (len(s) - 1))).to(dtype)) for s in SHAPES]
    with torch.no_grad():
        params[0][2].zero_()
    return params


def gradients(params, i):
    torch.manual_seed(10 + i)
    for p in params:
        sizes = 10.0 ** torch.randint(-6, 1, p.shape[:1] + (1,) * (p.ndim - 1))
        p.grad = (torch.randn(p.shape) * sizes).to(p.dtype)


def clipped(weight, grad, factor, eps=1e-3):
    """timm's rule in float64."""
    def norm(t):
        return t.double().norm() if t.ndim < 2 else t.double().flatten(1).norm(dim=1).view(-1, *[1] * (t.ndim - 1))

    bound, own = norm(weight).clamp(min=eps) * factor, norm(grad)
    return torch.where(own < bound, grad.double(), grad.double() * (bound / own.clamp(min=1e-6)))


@pytest.mark.parametrize("scale", [None, 1024.0])
def test_rows_are_clipped_by_their_weights(scale):
    params = parameters()
    groups = [{"params": params[:4]}, {"params": params[4:], "clip_factor": 0.3, "clip_eps": 0.1}]
    scaler = None if scale is None else LossScaler(init_scale=scale)
    optimizer = SGD(groups, lr=1.0, clip_factor=0.02, scaler=scaler)
    changed = 0
    for i in range(3):
        gradients(params, i)
        before = [p.detach().clone() for p in params]
        expected = []
        for k, p in enumerate(params):
            g = clipped(p.detach(), p.grad, *((0.02,) if k < 4 else (0.3, 0.1)))
            changed += int((g != p.grad).sum())
            expected.append(p.detach().double() - g)
            if scale is not None:
                p.grad *= scale
        optimizer.step()
        for p, old, new in zip(params, before, expected):
            torch.testing.assert_close(p.detach().double(), new, rtol=1e-6, atol=1e-7)
    assert changed > 1000


def test_the_master_is_measured():
    params = parameters(torch.bfloat16)
    optimizer = SGD(params, lr=1.0, clip_factor=0.02)
    for i in range(3):
        gradients(params, i)
        masters = [optimizer.state[p].get("master", p).detach().float().clone() for p in params]
        expected = [m.double() - clipped(m, p.grad, 0.02) for m, p in zip(masters, params)]
        optimizer.step()
        for p, new in zip(params, expected):
            torch.testing.assert_close(optimizer.state[p]["master"].double(), new, rtol=1e-6, atol=1e-7)


def test_as_timm_clips():
    from cases import leave_out_init

    leave_out_init("timm", "timm.utils")
    agc = pytest.importorskip("timm.utils.agc")
    a = parameters()
    b = [torch.nn.Parameter(p.detach().clone()) for p in a]
    ours, theirs = AdamW(a, lr=0.01, clip_factor=0.01), torch.optim.AdamW(b, lr=0.01, foreach=True)
    for i in range(10):
        gradients(a, i)
        for p, q in zip(a, b):
            q.grad = p.grad.clone()
        agc.adaptive_clip_grad(b)
        ours.step()
        theirs.step()
        for p, q in zip(a, b):
            torch.testing.assert_close(p.detach(), q.detach(), rtol=1e-5, atol=1e-6)


def test_factors_are_data_and_parts_of_groups():
    params = parameters()
    optimizer = AdamW([{"params": params[:3], "clip_factor": None}, {"params": params[3:]}], lr=0.01, clip_factor=0.5)
    plain = [torch.nn.Parameter(p.detach().clone()) for p in params[:3]]
    beside = AdamW(plain, lr=0.01)
    for i in range(3):
        gradients(params, i)
        for p, q in zip(params, plain):
            q.grad = p.grad.clone()
        optimizer.param_groups[1]["clip_factor"] = 0.5 / (i + 1)
        optimizer.step()
        beside.step()
    assert all(torch.equal(p, q) for p, q in zip(params, plain))
    other = pickle.loads(pickle.dumps(optimizer))
    loaded = AdamW([{"params": copy.deepcopy(params[:3])}, {"params": copy.deepcopy(params[3:])}], lr=0.01, clip_factor=0.1)
    loaded.load_state_dict(optimizer.state_dict())
    for o in (optimizer, other, loaded):
        assert [g["clip_factor"] for g in o.param_groups] == [None, 0.5 / 3]
        mine = [p for g in o.param_groups for p in g["params"]]
        gradients(mine, 5)
        o.step()
        assert all(torch.equal(p, q) for p, q in zip(mine, params))


def test_formulas_have_it():
    p = [torch.nn.Parameter(torch.full((2, 3), 1.0))]
    text = 'optimizer o "" { hyper lr = 1\n w = w - lr * g }'
    for optimizer in (Formula(p, formula=text, clip_factor=0.1), built_in.Lion(p, clip_factor=0.1)):
        p[0].grad = torch.ones(2, 3)
        optimizer.step()
    torch.testing.assert_close(p[0].detach(), torch.full((2, 3), 0.9 - 1e-4), rtol=0, atol=1e-3)


def test_what_it_does_not_go_with():
    p = [torch.nn.Parameter(torch.ones(100, 100))]
    with pytest.raises(ValueError, match="leave out one of them"):
        AdamW(p, clip_factor=0.01, max_norm=1.0)
    optimizer = AdamW(p, clip_factor=0.01)
    p[0].grad = torch.ones(100, 100)
    with pytest.raises(ValueError, match="leave out clip_grad_norm_"):
        clip_grad_norm_(optimizer, 1.0)
        optimizer.step()
    low = torch.nn.Parameter(torch.ones(100, 100).to(torch.float8_e4m3fn))
    low.grad = torch.ones(100, 100).to(torch.float8_e4m3fn)
    with pytest.raises(Exception, match="rows of 100, which are not a multiple of the blocks of 32"):
        AdamW([low], clip_factor=0.01, copy_scale="mx").step()


@pytest.mark.parametrize("form", ["fp8", "int8", "exp_avg=dyn4|exp_avg_sq=lin4"])
def test_with_moments_in_formats(form):
    """As the same step between decoding and encoding; where rows end within blocks moments stay f32."""
    def made():
        torch.manual_seed(3)
        return [torch.nn.Parameter(torch.randn(s)) for s in ((9, 256), (70, 100), (5000,), (3, 2, 512))]

    a, b = made(), made()
    ours, wide = AdamW(a, lr=0.01, clip_factor=0.02, moments=form, moments_min=0), AdamW(b, lr=0.01, clip_factor=0.02)
    for i in range(3):
        gradients(a, i)
        ours.step()
    in_form = [not (o := ours.state[p]).get("exp_avg", torch.ones(0)).numel() for p in a]
    assert in_form == [True, False, True, True]
    wide.load_state_dict(ours.plain_state_dict())
    with torch.no_grad():
        for p, q in zip(a, b):
            q.copy_(p)
    for params, optimizer in ((a, ours), (b, wide)):
        gradients(params, 7)
        optimizer.step()
    assert all(torch.equal(p, q) for p, q in zip(a, b))


def test_with_weights_rounded_by_chance():
    low, wide = parameters(torch.bfloat16), [torch.nn.Parameter(p.detach().float()) for p in parameters(torch.bfloat16)]
    gradients(wide, 0)
    for p, q in zip(low, wide):
        q.grad = q.grad.bfloat16().float()
        p.grad = q.grad.bfloat16()
    a = SGD(low, lr=1.0, clip_factor=0.02, weight_rounding="stochastic", seed=4)
    b = SGD(wide, lr=1.0, clip_factor=0.02)
    a.step()
    b.step()
    between = 0
    for p, q in zip(low, wide):
        near = q.detach().bfloat16().float()
        assert ((p.detach().float() - q.detach()).abs() <= q.detach().abs() * 2.0**-7 + 1e-30).all()
        between += int((p.detach().float() != near).sum())
    assert between > 100  # not to nearest


def test_rows_are_those_of_the_shape_or_are_refused():
    """Images in channels_last have them; a matrix that lies by columns has not."""
    torch.manual_seed(2)
    start, slope = torch.randn(6, 4, 3, 3), torch.randn(6, 4, 3, 3) * 10.0 ** torch.arange(6).view(-1, 1, 1, 1)
    made = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        p = torch.nn.Parameter(start.clone(memory_format=memory_format))
        p.grad = slope.clone(memory_format=memory_format)
        SGD([p], lr=1.0, clip_factor=0.01).step()
        made.append(p.detach())
    assert torch.allclose(*made, rtol=1e-5) and not torch.equal(made[0], start - slope)
    p = torch.nn.Parameter(torch.randn(9, 6).t())
    p.grad = torch.randn(6, 9)
    for optimizer in (SGD([p], lr=1.0, clip_factor=0.01), Adafactor([p])):
        with pytest.raises(_core.Error, match=r"parameter 0 of group 0 is stored column by column \(strides \(1, 6\)\)"):
            optimizer.step()
    SGD([p], lr=1.0).step()
    one_row = torch.nn.Parameter(torch.randn(4, 5, 6).permute(2, 0, 1).unsqueeze(0))  # however it lies
    one_row.grad = torch.randn(one_row.shape)
    SGD([one_row], lr=1.0, clip_factor=0.01).step()
