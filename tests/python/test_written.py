"""Writes to weights with an f32 master: the next step takes them into the master, as torch would."""

import copy
import pickle

import pytest
import torch
from trained import parameter, stepped

import stepfuse.torch as sft
from stepfuse.torch import AdamW, Muon, SGD, stored

LR = 2.0**-10


def values(n=64):
    return torch.randn(n, generator=torch.Generator().manual_seed(3))


def load(model, best):
    model.load_state_dict(best)


def write(model, best):
    with torch.no_grad():
        model.weight.copy_(best["weight"])


def clamp(model, _):
    with torch.no_grad():
        largest = float(model.weight.abs().max()) / 2
        model.weight.clamp_(-largest, largest)


def zero(model, _):
    torch.nn.init.zeros_(model.weight)


def replace(model, best):
    model.weight.data = best["weight"].clone()


def one_element(model, _):
    with torch.no_grad():
        model.weight[0, 3] += 7.0


def swap(model, best):
    model.weight.grad = None
    torch.utils.swap_tensors(model.weight, torch.nn.Parameter(best["weight"].clone()))


def there_and_back(model, best):
    model.float()
    with torch.no_grad():
        model.weight.mul_(2)
    model.bfloat16()


WRITES = [load, write, clamp, zero, replace, one_element, swap, there_and_back]


def trained(dtype=torch.bfloat16, **kw):
    torch.manual_seed(5)
    model = torch.nn.Linear(16, 4, bias=False).to(dtype)
    best = copy.deepcopy(model.state_dict())
    optimizer = SGD(model.parameters(), lr=LR, **kw)
    for _ in range(5):
        model.weight.grad = torch.full_like(model.weight, 3.0)
        optimizer.step()
    return model, best, optimizer


def check_taken(before, written, master, after):
    """Written elements have the new value less a step; the others have their master's less a step."""
    touched = written.float() != before["weight"].float()
    assert touched.any()
    want = torch.where(touched, written.float(), before["master"])
    assert torch.equal(master, want - LR * 3.0)
    assert torch.equal(after, master.to(after.dtype))


def check_next_step(change, model, best, optimizer):
    before = {"weight": model.weight.detach().clone(), "master": optimizer.state[model.weight]["master"].clone()}
    change(model, best)
    written = model.weight.detach().clone()
    model.weight.grad = torch.full_like(model.weight, 3.0)
    optimizer.step()
    check_taken(before, written, optimizer.state[model.weight]["master"], model.weight)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("change", WRITES, ids=lambda change: change.__name__)
def test_is_in_the_master(change, dtype):
    if change is there_and_back and dtype is not torch.bfloat16:
        pytest.skip("this case needs bfloat16")
    model, best, optimizer = trained(dtype)
    for _ in range(2):  # the second write is noticed as well
        check_next_step(change, model, best, optimizer)
        # The step's own writes do not count.
        assert not optimizer._engine.walk.written()
        for _ in range(3):
            optimizer.step()
        optimizer.zero_grad()


def test_bits_below_the_type_survive_what_does_not_change_a_weight():
    def run(between):
        params = [parameter(values())]
        optimizer = AdamW(params, lr=1e-4)
        for seed in range(6):
            stepped(optimizer, params, 1, seed)
            with torch.no_grad():
                between(params[0])
        return params[0].detach(), optimizer.state[params[0]]["master"]

    def through_f32(p):
        p.data = p.data.float()
        p.data = p.data.bfloat16()

    plain = run(lambda p: None)
    for between in (lambda p: p.mul_(1), lambda p: p.copy_(p.clone()), through_f32, lambda p: p.share_memory_()):
        assert all(torch.equal(x, y) for x, y in zip(run(between), plain))


def test_steps_in_f32_in_between():
    model, _, optimizer = trained()
    model.float()
    model.weight.grad = torch.full_like(model.weight, 3.0)
    optimizer.step()
    assert stored.find_rest(optimizer.state[model.weight]) is None
    model.bfloat16()
    before = model.weight.detach().clone()
    model.weight.grad = torch.full_like(model.weight, 3.0)
    optimizer.step()
    assert torch.equal(optimizer.state[model.weight]["master"], before.float() - LR * 3.0)


@pytest.mark.parametrize("kw", [{"max_norm": 1e9}, {"clip_factor": 1e9}, {"ema_decay": 0.5}, {"momentum": 0.0}], ids=str)
def test_with_options(kw):
    model, best, optimizer = trained(**kw)
    model.load_state_dict(best)
    model.weight.grad = torch.full_like(model.weight, 3.0)
    optimizer.step()
    assert torch.equal(optimizer.state[model.weight]["master"], best["weight"].float() - LR * 3.0)
    if "ema_decay" in kw:
        with optimizer.averaged():
            pass
        assert not masters_changed(optimizer, model)


def masters_changed(optimizer, model):
    before = optimizer.state[model.weight]["master"].clone()
    model.weight.grad = torch.zeros_like(model.weight)
    optimizer.step()
    return not torch.equal(before, optimizer.state[model.weight]["master"])


def test_averages_leave_masters_alone():
    params = [parameter(values())]
    optimizer = AdamW(params, lr=1e-4, ema_decay=0.9)
    stepped(optimizer, params, 5)
    master = optimizer.state[params[0]]["master"]
    before = master.clone()
    with optimizer.averaged():
        pass
    params[0].grad = None
    optimizer.step()
    assert torch.equal(before, optimizer.state[params[0]]["master"])


def test_a_deferred_step():
    model, best, _ = trained()
    optimizer = SGD(model.parameters(), lr=LR)
    scaler = sft.GradScaler("cpu", defer_unscale=True, init_scale=1.0)
    for i in range(3):
        scaler.scale(torch.ones(()))
        model.weight.grad = torch.full_like(model.weight, 3.0)
        if i == 2:
            model.load_state_dict(best)
        scaler.unscale_(optimizer)
        sft.clip_grad_norm_(model.parameters(), 1e9)
        scaler.step(optimizer)
        scaler.update()
    assert torch.equal(optimizer.state[model.weight]["master"], best["weight"].float() - LR * 3.0)


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")
def test_both_halves_of_muon():
    torch.manual_seed(1)
    model = torch.nn.Linear(8, 4, bias=False).bfloat16()
    best = copy.deepcopy(model.state_dict())
    optimizer = Muon(model.parameters(), lr=1e-3, weight_decay=0.0)

    def step():
        model.weight.grad = torch.ones_like(model.weight)
        optimizer.step()

    step()
    assert not optimizer._second()._engine.walk.written()
    step()
    model.load_state_dict(best)
    step()
    assert (optimizer.state[model.weight]["master"] - best["weight"].float()).abs().max() < 2e-3


@pytest.mark.parametrize("way", ["delayed", "current", "mx", "block128"])
def test_scaled_copies(way):
    def run(write):
        p = torch.nn.Parameter(torch.zeros(64, 32, dtype=torch.float8_e4m3fn))
        optimizer = SGD([p], lr=LR, copy_scale=way)
        optimizer.set_weight(p, values(2048).view(64, 32))
        for step in range(4):
            p.grad = torch.full((64, 32), 0.5).to(torch.float8_e4m3fn)
            if step == 2 and write == "nothing":
                with torch.no_grad():
                    p.copy_(p.clone())
            if step == 2 and write == "some":
                with torch.no_grad():
                    p.view(torch.uint8)[0].zero_()
                    torch.autograd.graph.increment_version(p)
            optimizer.step()
        return optimizer.state[p]["master"]

    plain, nothing, some = map(run, (None, "nothing", "some"))
    assert torch.equal(plain, nothing)
    assert torch.equal(some[1:], plain[1:]) and torch.equal(some[0], torch.full((32,), -2 * LR * 0.5))


def reloaded(model, optimizer):
    """A new run from files, whose model is loaded first."""
    other = torch.nn.Linear(16, 4, bias=False).to(model.weight.dtype)
    other.load_state_dict(model.state_dict())
    second = SGD(other.parameters(), lr=LR)
    second.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return other, second


def loaded_into_itself(model, optimizer):
    optimizer.load_state_dict(optimizer.state_dict())
    return model, optimizer


def away_and_back(model, optimizer):
    group = optimizer.param_groups.pop()
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))]})
    optimizer.step()
    optimizer.param_groups[:] = [group]
    return model, optimizer


AGAIN = [reloaded, loaded_into_itself, away_and_back, lambda *both: copy.deepcopy(both), lambda *both: pickle.loads(pickle.dumps(both))]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("change", [load, clamp, zero, replace, one_element], ids=lambda change: change.__name__)
@pytest.mark.parametrize("again", AGAIN, ids=["reloaded", "loaded into itself", "away and back", "deepcopy", "pickle"])
def test_after_a_load_or_a_copy(again, change, dtype):
    model, best, optimizer = trained(dtype)
    model, optimizer = again(model, optimizer)
    check_next_step(change, model, best, optimizer)


def test_a_group_that_was_away_is_written_to():
    model, _, optimizer = trained()
    group = optimizer.param_groups.pop()
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))]})
    optimizer.step()
    torch.nn.init.zeros_(model.weight)
    optimizer.param_groups[:] = [group]
    model.weight.grad = torch.full_like(model.weight, 3.0)
    optimizer.step()
    assert optimizer.state[model.weight]["master"].eq(-LR * 3.0).all()


def test_loaded_masters_are_taken_as_they_are():
    """Even if the weights are not these rounded, as those of an averaged model are not."""
    model, best, optimizer = trained()
    other = torch.nn.Linear(16, 4, bias=False).bfloat16()
    other.load_state_dict(best)
    second = SGD(other.parameters(), lr=LR)
    second.load_state_dict(optimizer.state_dict())
    for m, o in ((model, optimizer), (other, second)):
        m.weight.grad = torch.full_like(m.weight, 3.0)
        o.step()
    assert torch.equal(second.state[other.weight]["master"], optimizer.state[model.weight]["master"])


@pytest.mark.parametrize("way", [None, *(way for way in sft.arguments.COPY_SCALES if not way.startswith("nvfp4"))])
@pytest.mark.parametrize("change", ["nothing", "loads the model", "some"])
def test_scaled_copies_after_a_load(way, change):
    p = torch.nn.Parameter(torch.zeros(64, 32, dtype=torch.float8_e4m3fn))
    optimizer = SGD([p], lr=LR, copy_scale=way)
    optimizer.set_weight(p, values(2048).view(64, 32))
    for _ in range(3):
        p.grad = torch.full((64, 32), 0.5).to(torch.float8_e4m3fn)
        optimizer.step()
    q = torch.nn.Parameter(p.detach().clone())
    loaded = SGD([q], lr=0.0, copy_scale=way)
    loaded.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    master = optimizer.state[p]["master"].clone()
    with torch.no_grad():
        if change == "loads the model":
            q.copy_(p)
        elif change == "some":
            q.view(torch.uint8)[0].zero_()
            torch.autograd.graph.increment_version(q)
            master[0] = 0
    q.grad = torch.zeros_like(q)
    loaded.step()
    assert torch.equal(loaded.state[q]["master"], master)
