"""What a torch.optim.Optimizer has to do, each beside torch's own class."""

import copy
import io
import pickle

import peer
import pytest
import torch
from pairs import Pair, needs_names, same_state, step_counts

import stepfuse.torch
from stepfuse.torch import SGD, Adagrad, Adam, AdamW, Lion, RMSprop, binding, private
from stepfuse.torch.optimizers import ADAM_DECOUPLES

FUSED = [
    (AdamW, {"fused": True}),
    (AdamW, {"fused": True, "amsgrad": True, "maximize": True, "weight_decay": 0.3}),
    (Adam, {"fused": True, "weight_decay": 0.1}),
    *([(Adam, {"fused": True, "decoupled_weight_decay": True, "weight_decay": 0.1})] if ADAM_DECOUPLES else []),
    (SGD, {"lr": 0.01}),
    (SGD, {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (SGD, {"lr": 0.01, "momentum": 0.9, "dampening": 0.2, "maximize": True}),
    (Adagrad, {"fused": True, "lr_decay": 0.01, "initial_accumulator_value": 0.5}),
]


@pytest.mark.parametrize(("cls", "kw"), FUSED, ids=lambda x: getattr(x, "__name__", str(x)))
def test_bits_of_torch(cls, kw):
    pair = Pair(cls, getattr(torch.optim, cls.__name__), **kw)
    pair.steps(500)
    assert pair.equal()
    assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())


@pytest.mark.parametrize(("name", "kw"), [
    ("NAdam", {"weight_decay": 0.1}), ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {"weight_decay": 0.1}), ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adamax", {"weight_decay": 0.1}), ("Adadelta", {"weight_decay": 0.1, "maximize": True}),
    ("ASGD", {"lambd": 0.01, "t0": 20, "weight_decay": 0.1}), ("Rprop", {"etas": (0.4, 1.3)})], ids=str)
def test_bits_of_the_for_loop(name, kw):
    cls, theirs = getattr(stepfuse.torch, name), getattr(torch.optim, name)
    with peer.ieee_sqrt():
        pair = Pair(cls, theirs, foreach=False, **kw)
        pair.steps(100)
        assert pair.equal()
        ours, other = copy.deepcopy(pair.ours.state_dict()), copy.deepcopy(pair.theirs.state_dict())
        assert same_state(ours, other)
        pair.ours.load_state_dict(other)
        pair.theirs.load_state_dict(ours)
        pair.steps(10)
        assert pair.equal()


@pytest.mark.parametrize("kw", [{}, {"centered": True, "momentum": 0.9}], ids=str)
def test_rmsprop_is_near(kw):  # torch's square root on the CPU is not correctly rounded
    pair = Pair(RMSprop, torch.optim.RMSprop, **kw)
    pair.steps(100)
    for p, q in zip(pair.a, pair.b):
        torch.testing.assert_close(p, q, atol=1e-5, rtol=1e-5)


def test_lion():
    p = torch.nn.Parameter(torch.ones(10))
    before = p.detach().clone()
    optimizer = Lion([p], lr=0.1)
    p.grad = torch.arange(10.0) - 4
    optimizer.step()
    torch.testing.assert_close(p.detach(), before - 0.1 * torch.sign(p.grad))


@pytest.mark.parametrize("exchange", [private.EXCHANGE, None], ids=["DLPack", "methods"])
def test_without_libtorchs_functions(monkeypatch, exchange):
    monkeypatch.setattr(private, "EXCHANGE", exchange)
    monkeypatch.setattr(binding, "INSIDE", [])
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    pair.steps(20)
    pair.a[0].data = pair.a[0].detach().clone()
    pair.steps(20)
    assert pair.equal()


def test_groups_and_their_kinds():
    kw = {"lr": 0.01, "momentum": 0.9}
    pair = Pair(SGD, torch.optim.SGD, **kw)
    pair.steps(3)
    for optimizer, params in ((pair.ours, pair.a), (pair.theirs, pair.b)):
        params.append(torch.nn.Parameter(torch.full((24,), 0.5)))
        params.append(torch.nn.Parameter(torch.full((8,), 0.5)))
        optimizer.add_param_group({"params": params[-2], "lr": 0.3, "weight_decay": 0.1})
        optimizer.add_param_group({"params": params[-1], "momentum": 0.0, "maximize": True})
    pair.steps(5)
    assert pair.equal()
    for optimizer in (pair.ours, pair.theirs):
        optimizer.param_groups[2]["momentum"] = 0.5
        optimizer.param_groups[0]["nesterov"] = True
    pair.steps(5)
    assert pair.equal()
    assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())


def test_missing_gradients_have_no_state():
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    pair.steps(3, missing=(1,))
    assert len(pair.ours.state) == 2
    pair.steps(3, missing=(0,))
    pair.steps(3)
    assert pair.equal()
    assert step_counts(pair.ours) == step_counts(pair.theirs)


def test_shapes_and_strides():
    def params():
        torch.manual_seed(2)
        wide = torch.randn(8, 32)
        return [torch.nn.Parameter(x) for x in (
            torch.randn(()), torch.randn(16, 8).t(), wide[:, ::2], torch.empty(0, 3),
            torch.randn(2, 4, 3, 3).contiguous(memory_format=torch.channels_last), torch.randn(3, 1, 5))]

    a, b = params(), params()
    ours, theirs = AdamW(a, lr=0.01), torch.optim.AdamW(b, lr=0.01)
    assert [p.stride() for p in a] == [p.stride() for p in b]
    for _ in range(10):
        for p, q in zip(a, b):
            g = torch.randn(p.shape)
            p.grad, q.grad = g, g.clone()
        ours.step()
        theirs.step()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q, atol=1e-6, rtol=1e-5)
    assert [p.stride() for p in a] == [p.stride() for p in b]


@pytest.mark.parametrize("tensor_lr", [False, True])
def test_schedulers(tensor_lr):
    def lr():
        return torch.tensor(0.05) if tensor_lr else 0.05

    pair = Pair(AdamW, torch.optim.AdamW, lr=lr(), theirs_kw={"lr": lr(), "fused": True}, fused=True)
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=20) for o in (pair.ours, pair.theirs)]
    for _ in range(30):
        pair.steps(1)
        for schedule in schedules:
            schedule.step()
    assert pair.equal()


@needs_names
def test_closure_hooks_and_named_parameters():
    model = torch.nn.Linear(8, 8)
    optimizer = AdamW(model.named_parameters(), lr=0.1)
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 8)).square().mean()
        loss.backward()
        seen.append("closure")
        return loss

    first = optimizer.step(closure).item()
    assert optimizer.step(closure).item() < first
    assert seen == ["before", "closure", "after"] * 2
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_copies_go_on_alike(how):
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    pair.steps(3)
    if how == "deepcopy":
        pair.a, pair.ours = copy.deepcopy((pair.a, pair.ours))
    else:
        pair.a, pair.ours = pickle.loads(pickle.dumps((pair.a, pair.ours)))
    pair.steps(3)
    assert pair.equal()


@pytest.mark.parametrize("how", [copy.deepcopy, lambda optimizer: pickle.loads(pickle.dumps(optimizer))], ids=["deepcopy", "pickle"])
def test_copies_check_new_groups(how):
    optimizer = how(AdamW([torch.nn.Parameter(torch.ones(4, 8))]))
    for wrong, message in (({"betas": (2.0, 3.0)}, r"betas\[0\]: expected a number >= 0 and < 1; got 2.0"), ({"moments": "nonsense"}, "no format 'nonsense'")):
        with pytest.raises(ValueError, match=message):
            optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(4, 8))], **wrong})
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize(("cls", "kw"), FUSED[1:2] + FUSED[5:6] + FUSED[7:], ids=lambda x: getattr(x, "__name__", ""))
def test_checkpoints_both_ways(cls, kw):
    pair = Pair(cls, getattr(torch.optim, cls.__name__), **kw)
    pair.steps(5)
    file = io.BytesIO()
    torch.save([pair.ours.state_dict(), pair.theirs.state_dict()], file)
    file.seek(0)
    ours, theirs = torch.load(file, weights_only=True)
    pair.ours.load_state_dict(theirs)
    pair.theirs.load_state_dict(ours)
    pair.steps(5)
    assert pair.equal()
    assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())


def test_loading_copies_and_keeps_f32():
    first = Pair(AdamW, torch.optim.AdamW, dtype=torch.bfloat16)
    first.gradients()
    first.ours.step()
    saved = first.ours.state_dict()
    assert {v.dtype for v in saved["state"][0].values()} == {torch.float32}
    second = Pair(AdamW, torch.optim.AdamW, dtype=torch.bfloat16)
    second.ours.load_state_dict(saved)
    assert same_state(second.ours.state_dict(), saved)
    assert second.ours.state[second.a[0]]["exp_avg"].data_ptr() != first.ours.state[first.a[0]]["exp_avg"].data_ptr()
    second.theirs.load_state_dict(saved)  # torch casts, and does not mind the master
    with torch.no_grad():
        for p, q in zip(first.a, second.a):
            q.copy_(p)
    for _ in range(3):
        for p, q in zip(first.a, second.a):
            p.grad = torch.randn(p.shape).bfloat16()
            q.grad = p.grad.clone()
        first.ours.step()
        second.ours.step()
    assert all(torch.equal(p, q) for p, q in zip(first.a, second.a))
    assert all(torch.equal(p.detach(), first.ours.state[p]["master"].bfloat16()) for p in first.a)


def test_state_replaced_and_written_to():
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    pair.steps(3)
    for optimizer in (pair.ours, pair.theirs):
        for p in list(optimizer.state):
            optimizer.state[p] = {k: v.clone() for k, v in optimizer.state[p].items()}
            optimizer.state[p]["step"].fill_(7.0)
    pair.steps(3)
    assert pair.equal()
    assert set(step_counts(pair.ours)) == {10.0}


def test_autograd_notices_the_step():
    w = torch.nn.Parameter(torch.ones(8))
    optimizer = SGD([w], lr=0.1)
    loss = (w * w).sum()
    w.grad = torch.ones(8)
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@needs_names
def test_refused_by_name():
    embedding = torch.nn.Embedding(8, 8, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match="sparse gradients; the gradient of table is sparse"):
        AdamW([("table", embedding.weight)]).step()

    def refuse(p, error, message):
        p.grad = torch.ones_like(p)
        with pytest.raises(error, match=message):
            AdamW([("w", p)]).step()

    refuse(torch.ones(8, dtype=torch.float64, requires_grad=True), TypeError, "w is torch.float64; convert it to float32, or give it to a separate optimizer")
    refuse(torch.ones(1).expand(4).detach().requires_grad_(), RuntimeError, "elements of w share memory")
    with torch._subclasses.FakeTensorMode():
        fake = torch.ones(8, requires_grad=True)
        refuse(fake, TypeError, "w is a .*FakeTensor")
    p = torch.nn.Parameter(torch.ones(16))
    q = torch.nn.Parameter(p.detach()[8:])
    p.grad, q.grad = torch.ones(16), torch.ones(8)
    with pytest.raises(RuntimeError, match="share memory"):
        AdamW([p, q]).step()
    with pytest.raises(ValueError, match="differentiable"):
        AdamW([p], differentiable=True)


VIEWS = {
    "gaps in both": lambda base: (base[:, :4], base[:, 2:]),
    "gaps in one": lambda base: (base[::2], base[1], base),
    "gaps in the first": lambda base: (base[:, ::2], base[1]),
    "several between": lambda base: (base[:, 0], base[:, 1], base[:, 2], base[2:, 3:], base[:3, 5]),
    "types": lambda base: (base[:, :3], base.view(torch.bfloat16)[:, 5:8]),
}


@pytest.mark.parametrize("views", VIEWS.values(), ids=VIEWS)
def test_views_with_a_common_element_are_refused(views):
    base = torch.arange(24.0).view(4, 6)
    params = [torch.nn.Parameter(view) for view in views(base)]
    before = base.clone()
    for p in params:
        p.grad = torch.ones_like(p)
    with pytest.raises(RuntimeError, match="share memory"):
        SGD(params, lr=0.1).step()
    assert torch.equal(base, before)


def test_views_of_one_tensor_without_a_common_element_are_stepped():
    def split(base):
        return base[:, :4], base[:, 4::2], base[:3, 5], base[3, 5:6], base[:, 7:].view(torch.bfloat16)[:, 1:]

    base, other = torch.arange(32.0).view(4, 8), torch.arange(32.0).view(4, 8)
    for optimizer, params in ((SGD, split(base)), (torch.optim.SGD, split(other))):
        params = [torch.nn.Parameter(view) for view in params]
        for p in params:
            p.grad = torch.ones_like(p)
        optimizer(params, lr=0.5).step()
    assert torch.equal(base, other)


def test_help_answers():
    import inspect
    signature = inspect.signature(AdamW)
    theirs = inspect.signature(torch.optim.AdamW)
    assert list(signature.parameters)[:len(theirs.parameters)] == list(theirs.parameters)
    assert "max_norm" in signature.parameters and "OptimizerOptions" in AdamW.__doc__
    assert isinstance(AdamW([torch.ones(1, requires_grad=True)]), torch.optim.AdamW)


def test_autograd_hears_of_every_weight_that_was_written():
    params = [torch.nn.Parameter(torch.ones(2)) for _ in range(300)]
    idle = {127, 255, 299}  # the walk tells autograd of 128 at once
    for i, p in enumerate(params):
        p.grad = None if i in idle else torch.ones(2)
    optimizer = AdamW(params)
    optimizer.step()
    for i in range(3):
        before = [p._version for p in params]
        optimizer.step()
        assert [p._version - v for p, v in zip(params, before)] == [int(j not in idle) for j in range(300)], i
