"""Muon: two kernels around torch's matrix products, bit-identical to torch.optim.Muon."""

import copy
import pickle

import pytest
import torch
from pairs import Pair, same_state

from stepfuse.torch import AdamW, GradScaler, LossScaler, Muon
from stepfuse.torch.fused import Fused

if not hasattr(torch.optim, "Muon"):
    pytest.skip("torch < 2.9 has no Muon", allow_module_level=True)

MATRICES = ((16, 8), (8, 16), (33, 7), (1, 5), (5, 1), (130, 140), (0, 3))
OVERFLOWS = {2, 5, 6}


def pair_of(shapes=MATRICES, **kw):
    return Pair(Muon, torch.optim.Muon, shapes=shapes, **kw)


@pytest.mark.parametrize("kw", [{}, {"nesterov": False}, {"adjust_lr_fn": "original", "weight_decay": 0.0},
                                {"adjust_lr_fn": "match_rms_adamw", "momentum": 0.3}, {"ns_steps": 2, "eps": 1e-3}], ids=str)
def test_equals_torchs_to_the_bit(kw):
    pair = pair_of(lr=0.02, **kw)
    schedules = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (pair.ours, pair.theirs)]
    for i in range(20):
        pair.steps(1, missing=(i % 3, 4) if i % 2 else ())
        for schedule in schedules:
            schedule.step()
    assert pair.equal()
    assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())


def test_many_matrices_of_one_shape_equal_torchs():
    # On a CPU with instructions for bf16, some of these would have different bits if torch multiplied them in a batch.
    pair = pair_of(shapes=((40, 9),) * 300, lr=0.02)
    pair.steps(3)
    assert pair.equal()


def test_groups_options_and_gradients_that_lie_otherwise():
    torch.manual_seed(2)
    a = [torch.nn.Parameter(torch.randn(12, 20)) for _ in range(3)] + [torch.nn.Parameter(torch.randn(9, 6).t())]
    b = [torch.nn.Parameter(p.detach().clone()) for p in a]
    kw = [{"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw", "lr": 0.1}, {"weight_decay": 0.0}]
    sides = [cls([{"params": p[:1]}, {"params": p[1:2], **kw[1]}, {"params": p[2:], **kw[2]}], lr=0.02, **kw[0])
             for cls, p in ((Muon, a), (torch.optim.Muon, b))]
    for i in range(12):
        for p, q in zip(a, b):
            g = torch.randn(p.shape[1], p.shape[0]).t() if i % 2 else torch.randn(p.shape)
            p.grad, q.grad = g, g.clone(memory_format=torch.contiguous_format)
        kept = [p.grad for p in a]
        for side in sides:
            side.step()
        # the second half keeps no gradients of its own
        assert all(p.grad is g for p, g in zip(a, kept))
        if i == 5:
            for side in sides:
                side.param_groups[0].update(nesterov=True, adjust_lr_fn="match_rms_adamw")
    assert all(torch.equal(p, q) for p, q in zip(a, b))


def test_checkpoints_go_both_ways_and_pickles_go_on():
    pair = pair_of(lr=0.02)
    pair.steps(3)
    mine, theirs = copy.deepcopy(pair.ours.state_dict()), copy.deepcopy(pair.theirs.state_dict())
    pair.ours.load_state_dict(theirs)
    pair.theirs.load_state_dict(mine)
    pair.steps(3)
    assert pair.equal()
    pair.ours = pickle.loads(pickle.dumps(pair.ours))
    pair.a = pair.ours.param_groups[0]["params"]
    pair.steps(3)
    assert pair.equal()


@pytest.mark.parametrize("deferred", [True, False])
def test_skips_what_torchs_scaler_skips(deferred):
    pair = pair_of(lr=0.02)
    scales = {"init_scale": 1024.0, "growth_interval": 3}
    ours, theirs = GradScaler("cpu", defer_unscale=deferred, **scales), torch.amp.GradScaler("cpu", **scales)
    for s in (ours, theirs):
        s.scale(torch.ones(()))
    for i in range(10):
        assert ours.get_scale() == theirs.get_scale()
        pair.gradients(theirs.get_scale())
        if i in OVERFLOWS:
            for side in (pair.a, pair.b):
                side[1].grad[0, 0] = float("inf")
        for scaler, optimizer in ((ours, pair.ours), (theirs, pair.theirs)):
            scaler.step(optimizer)
            scaler.update()
        assert pair.ours.last_step_skipped.item() == (i in OVERFLOWS)
        assert pair.equal(), i
    assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())


def test_clip_and_loss_scale_inside_of_the_step():
    """Gradients whose norm is exact in any order of summation."""
    scaler = LossScaler(init_scale=8.0)
    pair = pair_of(lr=0.02, max_norm=4.0, scaler=scaler, theirs_kw={"lr": 0.02})
    for i in range(8):
        for p, q in zip(pair.a, pair.b):
            q.grad = torch.randint(-8, 9, p.shape).float() / 8
            p.grad = q.grad * scaler.get_scale()
        if i in OVERFLOWS:
            pair.a[2].grad[3, 3] = float("nan")
        else:
            torch.nn.utils.clip_grad_norm_(pair.b, 4.0)
            pair.theirs.step()
        pair.ours.step()
        assert pair.ours.stats()["skipped"] == (i in OVERFLOWS)
        for p, q in zip(pair.a, pair.b):
            # intermediate bf16 values, from norms that differ by an ulp
            torch.testing.assert_close(p, q, rtol=2e-2, atol=2e-3)
        for p, q in zip(pair.a, pair.b):
            with torch.no_grad():
                q.copy_(p)


def test_masters_of_bf16_weights_are_what_f32_weights_would_be():
    torch.manual_seed(3)
    a = [torch.nn.Parameter(torch.randn(s).bfloat16()) for s in MATRICES]
    b = [torch.nn.Parameter(p.detach().float()) for p in a]
    c = [torch.nn.Parameter(p.detach().clone()) for p in a]
    ours, theirs = Muon(a, lr=0.02, ema_decay=0.9), torch.optim.Muon(b, lr=0.02)
    fewer = Muon(c, lr=0.02, master="remainder")
    for _ in range(6):
        for p, q, r in zip(a, b, c):
            p.grad = r.grad = torch.randn(p.shape).bfloat16()
            q.grad = p.grad.float()
        for optimizer in (ours, theirs, fewer):
            optimizer.step()
    for i, (p, q) in enumerate(zip(a, b)):
        assert torch.equal(ours.state[p]["master"], q)
        assert torch.equal(fewer.plain_state_dict()["state"][i]["master"], q)
        assert torch.equal(p, q.bfloat16())
    with ours.averaged():
        assert all(torch.equal(p, ours.state[p]["ema"].bfloat16()) for p in a)


def test_options_of_both_halves():
    pair = pair_of(shapes=((70, 70),), lr=0.02, moments="int8", moments_min=0, theirs_kw={"lr": 0.02})
    pair.ours.set_scale(pair.a, lr=0.5)
    pair.theirs.param_groups[0].update(lr=0.01, weight_decay=0.2)
    pair.steps(5)
    assert set(pair.ours.state[pair.a[0]]) == {"momentum_buffer.int8.code", "momentum_buffer.int8.scale"}
    torch.testing.assert_close(pair.a[0], pair.b[0], rtol=0.05, atol=0.02)
    rounded = torch.nn.Parameter(torch.randn(8, 8).bfloat16())
    optimizer = Muon([rounded], weight_rounding="kahan")
    rounded.grad = torch.randn(8, 8).bfloat16()
    optimizer.step()
    assert set(optimizer.state[rounded]) == {"momentum_buffer", "kahan"}


def test_normalized_updates_have_norm_1():
    class Normalized(Muon):
        def _options(self, group):
            return [*super()._options(group), "with=normalize"]

    torch.manual_seed(5)
    p = [torch.nn.Parameter(torch.randn(s)) for s in ((40, 50), (200, 300), (4, 4))]
    optimizer = Normalized(p)
    for q in p:
        q.grad = torch.randn(q.shape) * 100
    p[2].grad.zero_()
    Fused.step(optimizer)
    for q, made in zip(p, optimizer._engine.parts[0].outputs["update"]):
        update = q.grad.lerp(torch.zeros_like(q).lerp(q.grad, 0.05), 0.95).bfloat16()
        wanted = update / update.norm().clamp(min=1e-7)
        assert made.dtype == torch.bfloat16
        # norms differ by at most one ulp of bf16
        torch.testing.assert_close(made, wanted, rtol=2**-7, atol=0)


def by_svd(matrices):
    """As torch.linalg.svd does, it refuses what is not finite."""
    assert matrices.isfinite().all()
    left, _, right = torch.linalg.svd(matrices.float(), full_matrices=False)
    return (left @ right).to(matrices.dtype)


def test_a_function_of_the_users_survives_pickles_and_skipped_steps():
    torch.manual_seed(6)
    start = [torch.randn(s) for s in ((12, 8), (12, 8), (5, 9))]
    optimizers = []
    for interrupts in (False, True):
        params = [torch.nn.Parameter(w.clone()) for w in start]
        optimizer = Muon(params, lr=0.02, skip_nonfinite=True, orthogonalize=by_svd)
        for step in range(4):
            draw = torch.Generator().manual_seed(step)
            for p in params:
                p.grad = torch.randn(p.shape, generator=draw)
            before = [p.detach().clone() for p in params]
            if step == 1:
                params[1].grad[0, 0] = float("nan")
            optimizer.step()
            assert all(torch.equal(p, q) for p, q in zip(params, before)) == (step == 1)
            if interrupts:
                optimizer = pickle.loads(pickle.dumps(optimizer))
                params = optimizer.param_groups[0]["params"]
        optimizers.append(optimizer)
    assert all(torch.equal(p, q) for p, q in zip(*(o.param_groups[0]["params"] for o in optimizers)))


def test_what_is_refused():
    with pytest.raises(ValueError, match="only supports 2D parameters"):
        Muon([torch.nn.Parameter(torch.randn(3))])
    with pytest.raises(ValueError, match="Adjust learning rate function"):
        Muon([torch.nn.Parameter(torch.randn(3, 3))], adjust_lr_fn="mine")


def test_trains_beside_another_optimizer():
    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    x = torch.randn(64, 8)
    y = (x * torch.arange(8)).sum(1, keepdim=True).sin()
    matrices = [p for p in model.parameters() if p.ndim == 2]
    optimizers = [Muon(matrices, lr=0.02), AdamW([p for p in model.parameters() if p.ndim != 2], lr=0.01)]
    losses = []
    for _ in range(150):
        loss = (model(x) - y).square().mean()
        model.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4
