"""centralize=, caution= and update_clip= of any optimizer: against their rules in PyTorch, and against the classes that have caution by name."""

import pytest
import torch
from trained import stepped

import stepfuse.torch as sft
from stepfuse.torch import SGD, AdamW, CautiousAdamW, LossScaler


def parameters(seed=1, dtype=torch.float32):
    torch.manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in ((40, 50), (33,))]


def clip(update, way, limit):
    """HeavyBall's rmsnorm_clip_ and l2_clip_."""
    size = {"rms": lambda: update.square().mean().sqrt(), "l2": lambda: update.norm(), None: lambda: torch.zeros(())}[way]()
    return update * (limit / size.clamp(min=limit))


def cautious(update, gradient):
    """HeavyBall's caution; timm's is the same where nothing is 0."""
    opposed = gradient.signbit() ^ update.signbit()
    return update.masked_fill(opposed, 0) * (opposed.numel() / (opposed.numel() - opposed.sum()).clamp(min=1))


@pytest.mark.parametrize("caution", [False, True])
@pytest.mark.parametrize(("way", "limit"), [(None, 1.0), ("rms", 0.5), ("rms", 50.0), ("l2", 2.0)])
def test_adamw_follows_the_rules(caution, way, limit):
    params = parameters()
    more = {} if way is None else {"update_clip": way, "max_update": limit}
    optimizer = AdamW(params, lr=0.1, weight_decay=0.01, caution=caution, **more)
    expected = [p.detach().double().clone() for p in params]
    moments = [(torch.zeros_like(e), torch.zeros_like(e)) for e in expected]
    generator = torch.Generator().manual_seed(2)
    for t in range(1, 9):
        for p, e, (m, v) in zip(params, expected, moments):
            p.grad = torch.randn(p.shape, generator=generator)
            g = p.grad.double()
            m.lerp_(g, 0.1)
            v.mul_(0.999).addcmul_(g, g, value=0.001)
            update = clip(m / (1 - 0.9**t) / ((v / (1 - 0.999**t)).sqrt() + 1e-8), way, limit)
            e.mul_(1 - 0.1 * 0.01).sub_(0.1 * (cautious(update, g) if caution else update))
        optimizer.step()
    for p, e in zip(params, expected):
        torch.testing.assert_close(p.detach().double(), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("more", [{}, {"max_norm": 1.0}, {"moments": "fp8", "moments_min": 0}, {"weight_rounding": "stochastic", "seed": 3}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_cautious_adamw_is_adamw_with_caution_bit_for_bit(dtype, more):
    a, b = parameters(dtype=dtype), parameters(dtype=dtype)
    stepped(AdamW(a, lr=0.01, caution=True, **more), a, 6)
    stepped(CautiousAdamW(b, lr=0.01, **more), b, 6)
    assert all(torch.equal(p, q) for p, q in zip(a, b))
    c = parameters(dtype=dtype)
    stepped(AdamW(c, lr=0.01, **more), c, 6)
    assert not torch.equal(a[0], c[0])


def test_groups_have_their_own_and_a_change_is_heard():
    a, b = parameters(), parameters()
    optimizer = SGD([{"params": a[:1], "caution": True, "update_clip": "l2", "max_update": 0.5}, {"params": a[1:]}], lr=1.0)
    reference = torch.optim.SGD(b[1:], lr=1.0)
    before = a[0].detach().clone()
    for p, q in zip(a, b):
        p.grad = torch.randn(p.shape)
        q.grad = p.grad.clone()
    optimizer.step()
    reference.step()
    assert torch.equal(a[1], b[1])
    assert float((before - a[0].detach()).norm()) == pytest.approx(0.5, rel=1e-5)  # a gradient agrees with itself
    optimizer.param_groups[0]["max_update"] = 0.25
    before = a[0].detach().clone()
    optimizer.step()
    assert float((before - a[0].detach()).norm()) == pytest.approx(0.25, rel=1e-5)
    optimizer.param_groups[0]["update_clip"] = None
    before = a[0].detach().clone()
    optimizer.step()
    assert float((before - a[0].detach()).norm()) > 1


@pytest.mark.parametrize("name", ["AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "Adamax", "RAdam", "ASGD", "Rprop", "Lion", "LAMB", "Sophia", "ADOPT",
                                  "CautiousLion", "AdEMAMix", "StableAdamW"])
def test_optimizers_take_both_in_every_mode(name):
    params = parameters(dtype=torch.bfloat16)
    optimizer = getattr(sft, name)(params, caution=True, update_clip="rms", max_update=0.1, scaler=LossScaler(init_scale=1.0), max_norm=1.0)
    before = [p.detach().clone() for p in params]
    stepped(optimizer, params, 3)
    assert all(p.isfinite().all() for p in params) and any(not torch.equal(p, b) for p, b in zip(params, before))


@pytest.mark.parametrize("name", ["Adan", "NAdam", "ScheduleFreeAdamW", "Muon"])
def test_a_formula_that_does_not_say_its_update_refuses(name):
    if not hasattr(sft, name) or name == "Muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip(f"skipped: this torch has no {name}")
    with pytest.raises(ValueError, match="caution: .* does not say what its update is"):
        getattr(sft, name)([torch.nn.Parameter(torch.ones(4, 4))], caution=True)


@pytest.mark.parametrize("more", [{}, {"max_norm": 0.5}, {"moments": "dyn8", "moments_min": 0}, {"moments": "bf16", "caution": True}], ids=str)
def test_centralize_subtracts_each_rows_mean_after_clipping(more):
    """As in the authors' code: x.add_(-x.mean(dim=tuple(range(1, x.dim())), keepdim=True)) where there are several dimensions."""
    torch.manual_seed(4)
    shapes = ((40, 50), (8, 3, 5, 5), (33,), (0, 7), (6, 1))
    a, b = ([torch.nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    ours = AdamW([{"params": a[:2], "centralize": True}, {"params": a[2:]}], lr=0.01, centralize=True, **more)
    reference = AdamW(b, lr=0.01, **{name: value for name, value in more.items() if name != "max_norm"})
    for _ in range(5):
        gradients = [torch.randn(shape) + 0.3 for shape in shapes]
        norm = torch.sqrt(sum(g.square().sum() for g in gradients))
        for p, q, g in zip(a, b, gradients):
            p.grad = g.clone()
            q.grad = g * (0.5 / (norm + 1e-6)).clamp(max=1) if "max_norm" in more else g
            if g.dim() > 1:
                q.grad = q.grad - q.grad.mean(dim=tuple(range(1, g.dim())), keepdim=True)
        ours.step()
        reference.step()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q, rtol=0, atol=2e-3 if "moments" in more else 1e-5)


def test_centralize_belongs_to_a_group():
    row, vector = torch.nn.Parameter(torch.ones(1, 4)), torch.nn.Parameter(torch.ones(4))
    off, on = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2, 2))
    optimizer = SGD([{"params": [off]}, {"params": [row, vector, on], "centralize": True}], lr=1.0)
    for p in (row, vector, off, on):
        p.grad = torch.tensor([1.0, 3.0, 2.0, 6.0]).reshape(p.shape)
    optimizer.step()
    assert row.tolist() == [[0, -2, -1, -5]] and vector.tolist() == [0, -2, -1, -5] and off.tolist() == [[0, -2], [-1, -5]]
    assert on.tolist() == [[2, 0], [3, -1]]
    with pytest.raises(ValueError, match="centralize"):
        SGD([on], lr=1.0, centralize="rows")
