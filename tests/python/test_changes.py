"""Whatever changes between two steps the next one sees, as torch's does; and who listens to steps hears of them."""

import pytest
import torch
from pairs import Pair, same_state
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

import stepfuse.torch
from stepfuse.torch import SGD, AdamW, parts

ON_CUDA = parts.on_cuda(torch.device("cpu"))


def swap(optimizer):
    first, second = optimizer.param_groups
    first["params"], second["params"] = second["params"], first["params"]


def replace_dict(optimizer):
    optimizer.param_groups[0] = {**optimizer.param_groups[0], "lr": 0.02}


def replace_lr(optimizer):
    optimizer.param_groups[0]["lr"] = torch.tensor(0.04)


def fill_lr(optimizer):
    optimizer.param_groups[1]["lr"].fill_(0.004)


def change_betas(optimizer):
    optimizer.param_groups[1]["betas"] = (0.5, 0.75)


def integer(optimizer):
    optimizer.param_groups[0]["weight_decay"] = 1


def replace_data(optimizer):
    p = optimizer.param_groups[0]["params"][1]
    p.data = p.detach().clone()


def write_weight(optimizer):
    with torch.no_grad():
        optimizer.param_groups[1]["params"][0].mul_(0.5)


def write_moment(optimizer):
    optimizer.state[optimizer.param_groups[0]["params"][0]]["exp_avg"].mul_(0.5)


def replace_moment(optimizer):
    state = optimizer.state[optimizer.param_groups[0]["params"][0]]
    state["exp_avg"] = state["exp_avg"] * 0.5


def forget_state(optimizer):
    del optimizer.state[optimizer.param_groups[0]["params"][0]]


def swap_moments(optimizer):
    state = optimizer.state[optimizer.param_groups[0]["params"][0]]
    state["exp_avg"], state["exp_avg_sq"] = state["exp_avg_sq"], state["exp_avg"].abs()


def write_count(optimizer):
    optimizer.state[optimizer.param_groups[0]["params"][0]]["step"].fill_(100)


def replace_count(optimizer):
    optimizer.state[optimizer.param_groups[0]["params"][0]]["step"] = torch.tensor(50.0)


def switch(optimizer):
    optimizer.param_groups[0]["maximize"] = True


def own_key(optimizer):
    optimizer.param_groups[0]["mine"] = object()


def tuple_of_parameters(optimizer):
    optimizer.param_groups[0]["params"] = tuple(optimizer.param_groups[0]["params"])


def no_parameters(optimizer):
    optimizer.param_groups[0]["params"].clear()


def no_groups(optimizer):
    optimizer.param_groups.clear()


@pytest.mark.parametrize("change", [swap, replace_dict, replace_lr, fill_lr, change_betas, integer, replace_data, write_weight,
                                    write_moment, replace_moment, forget_state, swap_moments, write_count, replace_count,
                                    switch, own_key, tuple_of_parameters, no_parameters, no_groups], ids=lambda change: change.__name__)
def test_is_seen_by_the_next_step(change):
    if ON_CUDA and change is write_count:
        pytest.skip("a GPU's counts are the step's own until state_dict()")

    def groups(params):
        return [{"params": params[:2], "lr": 0.01}, {"params": params[2:], "lr": torch.tensor(0.02)}]

    pair = Pair(lambda p, **kw: AdamW(groups(p), **kw), lambda p, **kw: torch.optim.AdamW(groups(p), **kw), fused=True)
    pair.steps(3)
    assert pair.equal()
    for optimizer in (pair.ours, pair.theirs):
        change(optimizer)
    pair.steps(3)
    assert pair.equal()
    if change not in (no_parameters, no_groups):  # whose state_dict() torch refuses
        assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())


def test_a_momentum_that_begins_and_ends():
    pair = Pair(SGD, torch.optim.SGD, lr=0.01, momentum=0.0)
    for momentum in (0.0, 0.9, 0.8, 0.0, 0.5):
        for optimizer in (pair.ours, pair.theirs):
            optimizer.param_groups[0]["momentum"] = momentum
        pair.steps(2)
        assert pair.equal()


def test_gradients_that_come_and_go():
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    for missing in ((), (0,), (0, 1, 2), (2,), (), (1,)):
        pair.steps(2, missing=missing)
        for p, q in zip(pair.a, pair.b):  # kept, and written to
            if p.grad is not None:
                p.grad.mul_(2)
                q.grad.mul_(2)
        pair.ours.step()
        pair.theirs.step()
        assert pair.equal()


def test_a_gradient_may_be_a_parameter():
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    for _ in range(3):
        pair.gradients()
        for p in (*pair.a, *pair.b):
            p.grad = torch.nn.Parameter(p.grad)
        pair.ours.step()
        pair.theirs.step()
    assert pair.equal()


def test_a_number_that_is_none_changes_nothing():
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    pair.steps(2)
    before = [p.detach().clone() for p in pair.a]
    pair.gradients()
    for wrong, error in (("fast", TypeError), (None, TypeError)):
        pair.ours.param_groups[0]["lr"] = wrong
        with pytest.raises(error):
            pair.ours.step()
    del pair.ours.param_groups[0]["lr"]
    with pytest.raises(KeyError, match="lr"):
        pair.ours.step()
    assert all(torch.equal(p, q) for p, q in zip(pair.a, before))
    pair.ours.param_groups[0]["lr"] = 1e-3
    pair.ours.step()
    pair.theirs.step()
    assert pair.equal()


def test_a_parameter_whose_class_has_its_own_grad():
    class Elsewhere(torch.nn.Parameter):
        grad = property(lambda self: self.halved)

    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    pair.steps(2)
    pair.gradients()
    for p, q in zip(pair.a, pair.b):
        p.halved = p.grad * 0.5
        p.__class__ = Elsewhere
        q.grad.mul_(0.5)
    pair.ours.step()
    pair.theirs.step()
    assert pair.equal()


def labels(optimizer):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        optimizer.step()
    return [e.name for e in profile.events() if e.name.startswith("Optimizer.step") and e.is_user_annotation]


def test_who_listens_hears_of_a_step():
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    pair.steps(1)
    assert labels(pair.ours) == labels(pair.theirs) == ["Optimizer.step#AdamW.step"]
    heard = []
    hooks = [register(lambda *_, name=name: heard.append(name)) for name, register in (
        ("before all", register_optimizer_step_pre_hook), ("before", pair.ours.register_step_pre_hook),
        ("after", pair.ours.register_step_post_hook), ("after all", register_optimizer_step_post_hook))]
    pair.ours.step()
    assert heard == ["before all", "before", "after", "after all"]
    for hook in hooks:
        hook.remove()
        heard.clear()
        pair.ours.step()
    assert heard == []


def test_a_class_with_a_step_of_its_own():
    class Counted(AdamW):
        steps = 0

        def step(self, closure=None):
            self.steps += 1
            return super().step(closure)

    optimizer = Counted([p := torch.nn.Parameter(torch.ones(8))], lr=0.1)
    heard = []
    optimizer.register_step_post_hook(lambda *_: heard.append(optimizer.steps))
    p.grad = torch.ones(8)
    optimizer.step()
    assert optimizer.steps == 1 and heard[0] == 1 and p[0] < 1


def test_gradients_stay_enabled_whatever_a_step_raises():
    optimizer = AdamW([p := torch.nn.Parameter(torch.ones(8))], lr=0.1)
    p.grad = torch.ones(8)
    optimizer.step()
    p.grad = torch.ones(8).to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        optimizer.step()
    assert torch.is_grad_enabled()
    with torch.no_grad():
        with pytest.raises(RuntimeError, match="sparse"):
            optimizer.step()
        assert not torch.is_grad_enabled()


@pytest.mark.parametrize("name", ["AdamW", "SGD", "NAdam", "Adagrad"])
@pytest.mark.parametrize("begins", [True, False])
def test_a_parameter_without_elements_is_stepped_if_it_has_a_gradient(name, begins):
    shown = []
    for module in (stepfuse.torch, torch.optim):
        empty, full = (torch.nn.Parameter(torch.ones(n)) for n in (0, 3))
        optimizer = getattr(module, name)([empty, full], lr=0.1, **({"momentum": 0.9} if name == "SGD" else {}))
        for has_gradient in (begins, False, True, False, False, True):
            full.grad = torch.ones(3)
            empty.grad = torch.ones(0) if has_gradient else None
            optimizer.step()
        state = optimizer.state_dict()["state"]
        shown.append([full.tolist(), {i: {n: v.tolist() for n, v in kept.items() if v is not None} for i, kept in state.items()}])
    assert shown[0] == shown[1]
