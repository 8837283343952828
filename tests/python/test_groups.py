"""What a group of parameters may have beside torch's keys: a factor for each parameter, a moving average; and moving between groups."""

import copy

import peer
import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from stepfuse import _core
from stepfuse.torch import LAMB, SGD, AdamW, Formula, LossScaler, RMSprop
from stepfuse.torch.tensors import random_id

SIZES = (300, 17000, 5)
CLASSES = [(AdamW, torch.optim.AdamW, {"weight_decay": 0.1}), (SGD, torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
           (RMSprop, torch.optim.RMSprop, {"weight_decay": 0.1})]


def parameters(dtype=torch.float32):
    torch.manual_seed(1)
    return [nn.Parameter(torch.randn(n).to(dtype)) for n in SIZES]


def give(params, step):
    draw = torch.Generator().manual_seed(step)
    for p in params:
        p.grad = torch.randn(p.shape, generator=draw).to(p.dtype)


def equal(a, b):
    return all(torch.equal(p, q) for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize(("ours", "theirs", "more"), CLASSES, ids=[c[0].__name__ for c in CLASSES])
def test_scales_are_groups_of_one_parameter(ours, theirs, more):
    a, b = parameters(), parameters()
    mine = ours([{"params": a[:2]}, {"params": a[2:]}], lr=0.01, **more)
    its = theirs([{"params": [p]} for p in b], lr=0.01, foreach=False, **more)
    compiled = []
    for step in range(6):
        if step in (1, 3):
            factors = [(0.3, 1.0, 2.5), (1.0, 0.125, 0.0)][step == 3]
            for p, q, factor in zip(a, its.param_groups, factors):
                mine.set_scale(p, lr=factor, weight_decay=factor / 2)
                q["scale"] = factor
        rate = 0.01 / (1 + step)
        for g in mine.param_groups:
            g["lr"] = rate
        for g in its.param_groups:
            g["lr"] = rate * g.get("scale", 1.0)
            g["weight_decay"] = 0.1 * (g.get("scale", 2.0) / 2)
        with peer.ieee_sqrt():
            for params, optimizer in ((a, mine), (b, its)):
                give(params, step)
                optimizer.step()
        assert equal(a, b), step
        compiled.append(mine._engine.parts[0].step)
    assert compiled[1] is not compiled[0]  # the first factors make another step, others do not
    assert all(made is compiled[1] for made in compiled[1:])


def test_scales_go_with_the_state_and_may_be_given_by_name():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer = AdamW(model.named_parameters(), lr=0.1)
    optimizer.set_scale(["0.weight", "1.bias"], lr=0.5)
    optimizer.set_scale(model[1].weight, lr=2)
    assert optimizer.param_groups[0]["lr_scales"] == (0.5, 1.0, 2.0, 0.5)
    other = AdamW(copy.deepcopy(model).named_parameters(), lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["lr_scales"] == (0.5, 1.0, 2.0, 0.5)
    for wrong, error in (("2.weight", KeyError), (nn.Parameter(torch.ones(2)), ValueError)):
        with pytest.raises(error, match="the optimizer (has no|does not have)"):
            optimizer.set_scale(wrong, lr=1.0)
    with pytest.raises(TypeError, match=r"set_scale\(\) has no argument 'eps' for this group; it has lr and weight_decay"):
        optimizer.set_scale("0.bias", eps=1.0)
    optimizer.param_groups[0]["lr_scales"] = (1.0,)
    give(model.parameters(), 0)
    with pytest.raises(ValueError, match=r"param_groups\[0\]: lr_scales: expected a sequence of 4 numbers, one per parameter of the group; got \(1.0,\)"):
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_parameter_moves_to_another_group_with_its_state(dtype):
    a, b = parameters(dtype), parameters(dtype)
    moved = AdamW([{"params": a[:2]}, {"params": a[2:], "lr": 0.5, "amsgrad": True}], lr=0.01)
    there = AdamW([{"params": b[:2]}, {"params": b[2:], "lr": 0.01, "amsgrad": False}], lr=0.01)
    for step in range(6):
        if step == 3:
            moved.set_scale(a[2], lr=0.02)
            moved.move(a[2], 0)
            assert moved.param_groups[0]["params"] == a and moved.param_groups[1]["params"] == []
            assert moved.param_groups[0]["lr_scales"] == (1.0, 1.0, 0.02)
            moved.set_scale(a[2], lr=1.0)
        if step < 3:
            moved.param_groups[1].update(lr=0.01, amsgrad=False)
        for params, optimizer in ((a, moved), (b, there)):
            give(params, step)
            optimizer.step()
        assert equal(a, b), step
    assert moved.state_dict()["state"][2]["step"] == 6


def test_a_parameter_moves_with_its_name():
    a, b, c = (nn.Parameter(torch.ones(4)) for _ in range(3))
    optimizer = SGD([{"params": [("a", a)]}, {"params": [("b", b), ("c", c)]}], lr=1.0)
    optimizer.move("b", 0)
    assert [group["param_names"] for group in optimizer.param_groups] == [["a", "b"], ["c"]]
    optimizer.set_scale("c", lr=0.5)
    give((a, b, c), 0)
    optimizer.step()
    assert torch.equal(b, 1 - b.grad) and torch.equal(c, 1 - 0.5 * c.grad)


def test_a_parameter_that_moves_to_its_neighbours_group_is_noticed():
    """The order of all parameters stays."""
    a, b, c = (nn.Parameter(torch.ones(4)) for _ in range(3))
    optimizer = SGD([{"params": [a], "lr": 1.0}, {"params": [b, c], "lr": 0.0}])
    give((a, b, c), 0)
    optimizer.step()
    optimizer.move(b, 0)
    optimizer.step()
    assert torch.equal(b, 1 - b.grad)
    optimizer.param_groups[1]["params"].insert(0, optimizer.param_groups[0]["params"].pop())
    optimizer.step()
    assert torch.equal(b, 1 - b.grad)


@pytest.mark.parametrize("more", [{}, {"max_norm": 0.5}], ids=["plain", "clipped"])
@pytest.mark.parametrize("cls", [AdamW, LAMB], ids=lambda c: c.__name__)
def test_the_average_is_torchs(cls, more):
    a, b = parameters(), parameters()
    ours, plain = cls(a, lr=0.01, ema_decay=0.9, **more), cls(b, lr=0.01, **more)
    model = nn.ParameterList(b)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for step in range(5):
        for params, optimizer in ((a, ours), (b, plain)):
            give(params, step)
            optimizer.step()
        average.update_parameters(model)
        assert equal(a, b)
        assert equal([ours.state[p]["ema"] for p in a], average.module.parameters()), step
        if step == 2:  # goes on from a checkpoint
            saved = copy.deepcopy(ours.state_dict())
            assert saved["param_groups"][0]["n_averaged"] == 3
            a = [nn.Parameter(p.detach().clone()) for p in a]
            ours = cls(a, lr=0.01, ema_decay=0.9, **more)
            ours.load_state_dict(saved)


@pytest.mark.parametrize("kind", [{}, {"amsgrad": True}], ids=["one step", "a step of its own"])
@pytest.mark.parametrize("late", [0, 1])
def test_the_average_goes_on_when_a_group_is_unfrozen(late, kind):
    torch.manual_seed(1)
    a = [nn.Parameter(torch.randn(40)) for _ in range(2)]
    b = [nn.Parameter(p.detach().clone()) for p in a]
    groups = [[{"params": [p], **(kind if index == late else {})} for index, p in enumerate(params)] for params in (a, b)]
    ours, plain = AdamW(groups[0], lr=0.1, ema_decay=0.9), AdamW(groups[1], lr=0.1)
    model = nn.ParameterList(b)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for step in range(6):
        for params, optimizer in ((a, ours), (b, plain)):
            give(params, step)
            if step < 4:
                params[late].grad = None
            optimizer.step()
        average.update_parameters(model)
        averages = list(average.module.parameters())
        for index, p in enumerate(a):
            assert torch.equal(ours.state[p]["ema"] if index != late or step >= 4 else p, averages[index]), step
    assert [group["n_averaged"] for group in ours.state_dict()["param_groups"]] == [6, 6]


@pytest.mark.parametrize("how", ["inserted", "an older checkpoint"])
def test_a_first_group_that_lacks_the_shared_values_takes_them(how):
    params = parameters()
    optimizer = AdamW([{"params": params[:1]}, {"params": params[1:]}], lr=0.1, max_norm=0.5, clip="zclip", ema_decay=0.9)
    for step in range(3):
        give(params, step)
        optimizer.step()
    saved = optimizer.state_dict()
    assert saved["param_groups"][1]["clip_count"] == saved["param_groups"][1]["n_averaged"] == 3
    if how == "inserted":
        params.append(nn.Parameter(torch.ones(4)))
        optimizer.add_param_group({"params": params[-1]})
        optimizer.param_groups.insert(0, optimizer.param_groups.pop())
    else:
        for name in ("clip_count", "n_averaged"):
            del saved["param_groups"][0][name]
        optimizer.load_state_dict(saved)
    give(params, 3)
    optimizer.step()
    assert all(group["clip_count"] == group["n_averaged"] == 4 for group in optimizer.state_dict()["param_groups"])


def test_averaged_shows_the_average_and_puts_the_weights_back():
    params = parameters(torch.bfloat16)
    optimizer = AdamW(params, lr=0.1, ema_decay=0.5, scaler=LossScaler(init_scale=1.0))
    with pytest.raises(RuntimeError, match="has no averages"), optimizer.averaged():
        pass
    for step in range(3):
        give(params, step)
        optimizer.step()
    before = [p.detach().clone() for p in params]
    with pytest.raises(ZeroDivisionError), optimizer.averaged():
        assert equal(params, [optimizer.state[p]["ema"].bfloat16() for p in params]) and not equal(params, before)
        with pytest.raises(RuntimeError, match=r"step\(\) was called inside averaged\(\); leave the `with` block first"):
            optimizer.step()
        raise ZeroDivisionError
    assert equal(params, before)
    optimizer.step()
    assert not equal(params, before)


def test_an_average_begun_in_mid_run_begins_with_the_weights_there():
    params = parameters()
    first = SGD(params, lr=0.1)
    give(params, 0)
    first.step()
    second = SGD(params, lr=0.1, ema_decay=0.9)
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["ema_decay"] == 0.9
    second.step()
    assert equal(params, [second.state[p]["ema"] for p in params])


def test_parameters_without_a_name_are_stepped():
    params = [torch.nn.Parameter(torch.ones(4)) for _ in range(3)]
    optimizer = SGD(params, lr=0.5)
    optimizer.param_groups[0]["param_names"] = ["first"]  # as a group that something was appended to has it
    for p in params:
        p.grad = torch.ones(4)
    optimizer.step()
    assert all(p.eq(0.5).all() for p in params)


def test_ids_of_random_numbers_are_those_of_parts():
    ids = [random_id(number, part) for number in (0, 5, (1 << 20) - 1, 1 << 20) for part in (0, 1, 4095, 4096, 9000)]
    assert len(set(ids)) == len(ids) and all(0 <= i < 1 << 32 for i in ids)
    assert random_id(5, 3) == 5 | 3 << 20  # what runs that go on have
    with pytest.raises(OverflowError, match="4294967296 of a tensor does not fit"):
        _core.Step(_core.Program("sgd", ()), [("w", 4, 0, False, 1 << 32)], 0, 0, 0, None, False)


def copied(optimizer):
    optimizer.param_groups = [dict(group) for group in optimizer.param_groups]


def copied_in_other_order(optimizer):
    optimizer.param_groups = [dict(group) for group in optimizer.param_groups[::-1]]


@pytest.mark.parametrize("replace", [copied, copied_in_other_order])
def test_a_dict_that_replaces_a_groups_is_that_group(replace):
    a, b = parameters(), parameters()
    replaced, kept = (SGD([{"params": params[:1]}, {"params": params[1:]}], lr=0.1) for params in (a, b))
    for step in range(4):
        for optimizer, params in ((replaced, a), (kept, b)):
            if step == 2 and optimizer is replaced:
                replace(optimizer)
            optimizer.set_scale(params, lr=step + 1.0)
            give(params, step)
            optimizer.step()
    assert equal(a, b)


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("replace", [copied, copied_in_other_order])
def test_a_dict_that_replaces_a_groups_has_its_state(replace, steps):
    class Counts(Formula):
        formula = """
        optimizer counts "counts steps of each group" {
          hyper lr = 0.1
          state count : group f32, all : step
          count = count + max(abs(g) >= 0 ? 1 : 0, group)
          all = all + 1
          w = w - lr * g * count
        }
        """

    a, b = parameters(), parameters()
    replaced, kept = (Counts([{"params": params[:1]}, {"params": params[1:], "lr": 0.2}]) for params in (a, b))
    for step in range(3 + steps):
        for optimizer, params in ((replaced, a), (kept, b)):
            if step == 3 and optimizer is replaced:
                replace(optimizer)
            give(params, step)
            optimizer.step()
    if steps == 0:
        replace(replaced)
    assert equal(a, b)
    for group in replaced.state_dict()["param_groups"]:
        assert group["count"] == group["all"] == 3.0 + steps


@pytest.mark.parametrize(("key", "value"), [("ema_decay", 0.5), ("clip_factor", 0.1)])
def test_an_option_may_become_none_and_a_number_again(key, value):
    a, b = parameters(), parameters()

    def make(params, first, second):
        return SGD([{"params": params[:1], key: first}, {"params": params[1:], key: second}], lr=0.1)

    changed = make(a, value, None)
    before = [torch.zeros_like(p) for p in a[:2]]
    for step, now in enumerate(((value, None), (None, value), (None, None), (value, value), (value / 2, value), (None, value))):
        for group, number in zip(changed.param_groups, now):
            group[key] = number
        give(a, step)
        changed.step()
        other = make(b, *now)
        give(b, step)
        other.step()
        assert equal(a, b), step
        if key == "ema_decay":
            averages = [changed.state[p].get("ema", torch.zeros_like(p)).clone() for p in (a[0], a[1])]
            assert [not torch.equal(p, q) for p, q in zip(averages, before)] == [number is not None for number in now], step
            before = averages
