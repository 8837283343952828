"""Moments in bf16 and in formats, stored, saved and loaded bit for bit, combined with all other features."""

import copy
import io
import itertools
import pickle

import pytest
import torch

import stepfuse.torch as sft
from stepfuse import Error, _core
from stepfuse.torch import state_dicts, stored
from stepfuse.torch.torchao import to_torchao

FORMATS = ("fp8", "int8", "dyn4")
BOTH = "exp_avg=int8|exp_avg_sq=sqrt8"
HAS_MUON = hasattr(torch.optim, "Muon")  # from PyTorch 2.9 on
SHAPES = ((70, 100), (5000,), (33,))  # with ragged last blocks; the last one is small


def parameters(dtype=torch.float32, shapes=SHAPES):
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(s).to(dtype)) for s in shapes]


def train(optimizer, steps, missing=()):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    for k in steps:
        generator = torch.Generator().manual_seed(k)
        for i, p in enumerate(params):
            p.grad = None if (k, i) in missing else torch.randn(p.shape, generator=generator).to(p.dtype)
        optimizer.step()


def through_file(value, weights_only=True):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


def bits(tensor):
    tensor = tensor.detach().contiguous()
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()])


def equal(a, b):
    """Compares the names and bits of two state_dicts."""
    a, b = a["state"], b["state"]
    return a.keys() == b.keys() and all(
        a[i].keys() == b[i].keys() and all(a[i][k].dtype == b[i][k].dtype and torch.equal(bits(a[i][k]), bits(b[i][k])) for k in a[i])
        for i in a)


def same_weights(a, b):
    return all(torch.equal(p, q) for p, q in zip(a, b))


def classes():
    """FusedAdam's moments are by other arguments, in test_fused_adam.py."""
    return [cls for name in sft.__all__ for cls in [getattr(sft, name)]
            if isinstance(cls, type) and issubclass(cls, sft.fused.Fused) and cls not in (sft.Formula, sft.FusedAdam)
            and (HAS_MUON or cls is not sft.Muon)]


@pytest.mark.parametrize(("cls", "form"), list(zip(classes(), itertools.cycle(FORMATS))), ids=lambda v: getattr(v, "__name__", v))
def test_every_optimizer_keeps_its_moments_in_a_form_or_says_why_not(cls, form):
    p = parameters(shapes=((15, 20),))
    try:
        optimizer = cls(p, moments=form, moments_min=0, **({"momentum": 0.9} if cls in (sft.SGD, sft.RMSprop) else {}))
    except ValueError as e:
        assert "has no moments" in str(e)
        return
    train(optimizer, range(2))
    state = optimizer.state[p[0]]
    assert p[0].isfinite().all()
    assert any(f".{form}." in name for name in state)


@pytest.mark.parametrize("form", ["bf16", "fp8"])
def test_an_optimizer_without_moments_refuses_it(form):
    with pytest.raises(ValueError, match="^moments: sgd has no moments; leave it out$"):
        sft.SGD(parameters(), moments=form)


@pytest.mark.parametrize("form", ["bf16", *FORMATS, BOTH])
def test_a_step_is_the_formula_between_decode_and_encode(form):
    """A step in a format equals decoding, the step in f32, and encoding."""
    p, q = parameters(), parameters()
    ours = sft.AdamW(p, lr=1e-2, moments=form, moments_min=0)
    train(ours, range(3))
    wide = sft.AdamW(q, lr=1e-2)
    wide.load_state_dict(ours.plain_state_dict())
    with torch.no_grad():
        for a, b in zip(p, q):
            b.copy_(a)
    train(ours, range(3, 4))
    train(wide, range(3, 4))
    assert same_weights(p, q)
    narrow = sft.AdamW(parameters(), lr=1e-2, moments=form, moments_min=0)
    narrow.load_state_dict(wide.state_dict())
    narrow._make_state()
    assert equal(narrow.state_dict(), ours.state_dict())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("form", ["bf16", *FORMATS, BOTH])
def test_goes_on_from_a_file_to_the_bit(form, dtype):
    whole, params = parameters(dtype), parameters(dtype)
    train(first := sft.AdamW(whole, moments=form), range(5))
    train(half := sft.AdamW(params, moments=form), range(2))
    again = [torch.nn.Parameter(p.detach().clone()) for p in params]
    second = sft.AdamW(again, moments=form)
    second.load_state_dict(through_file(half.state_dict()))
    assert equal(second.state_dict(), half.state_dict())
    second._make_state()  # binding neither moves nor rounds
    assert equal(second.state_dict(), half.state_dict())
    train(second, range(2, 5))
    assert same_weights(whole, again)
    assert equal(first.state_dict(), second.state_dict())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"])
def test_copies_go_on_to_the_bit(copied):
    p = parameters()
    optimizer = sft.AdamW(p, moments="fp8")
    train(optimizer, range(2))
    other = copied(optimizer)
    assert equal(other.state_dict(), optimizer.state_dict())
    assert other.param_groups[0]["moments"] == "fp8"
    train(optimizer, range(2, 4))
    train(other, range(2, 4))
    assert equal(other.state_dict(), optimizer.state_dict())
    assert same_weights(p, other.param_groups[0]["params"])


@pytest.mark.parametrize("form", ["bf16", *FORMATS])
def test_torchs_checkpoint_goes_in_and_comes_out(form):
    q = parameters()
    theirs = torch.optim.AdamW(q)
    train(theirs, range(3))
    p = [torch.nn.Parameter(x.detach().clone()) for x in q]
    ours = sft.AdamW(p, moments=form, moments_min=0)
    ours.load_state_dict(theirs.state_dict())
    train(ours, range(3, 4))
    train(theirs, range(3, 4))
    # The step ran on moments rounded once, so they are within the format's precision.
    for a, b in zip(p, q):
        assert (a - b).norm() < 2e-4 * b.norm()
    out = torch.optim.AdamW(p)
    out.load_state_dict(through_file(ours.plain_state_dict()))
    for i, s in out.state_dict()["state"].items():
        assert s.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(v.dtype == torch.float32 for v in s.values())
        near = theirs.state_dict()["state"][i]["exp_avg"]
        assert (s["exp_avg"] - near).norm() < (0.25 if form == "dyn4" else 0.1) * near.norm()
    out.step()
    assert "moments" not in ours.plain_state_dict()["param_groups"][0]


def test_an_optimizer_keeps_its_own_form_whatever_it_loads():
    saved = {}
    for form in (None, "bf16", "fp8", BOTH):
        train(optimizer := sft.AdamW(parameters(), moments=form), range(2))
        saved[form] = optimizer.state_dict()
    for source, state in saved.items():
        for target in saved:
            optimizer = sft.AdamW(parameters(), moments=target)
            optimizer.load_state_dict(copy.deepcopy(state))
            assert optimizer.param_groups[0].get("moments") == target
            train(optimizer, range(2, 3))
            names = set(optimizer.state_dict()["state"][0])
            assert names == set(saved[target]["state"][0]), (source, target)


def test_a_group_changes_its_form_between_steps():
    p = parameters()
    optimizer = sft.AdamW(p, moments="fp8")
    train(optimizer, range(2))
    wide = sft.AdamW(q := [torch.nn.Parameter(x.detach().clone()) for x in p])
    wide.load_state_dict(optimizer.plain_state_dict())
    optimizer.param_groups[0]["moments"] = "f32"
    train(optimizer, range(2, 4))
    train(wide, range(2, 4))
    assert same_weights(p, q)
    assert equal(optimizer.state_dict(), wide.state_dict())


def test_groups_of_their_own_and_moving_between_them():
    a, b, c = parameters(shapes=((5000,), (5000,), (5000,)))
    optimizer = sft.AdamW([{"params": [a]}, {"params": [b], "moments": "int8"}], moments="fp8")
    train(optimizer, range(1))
    optimizer.add_param_group({"params": [c], "moments": "bf16"})
    train(optimizer, range(1, 2))
    forms = [{stored.split_name(n)[1] for n in optimizer.state[p] if n != "step"} for p in (a, b, c)]
    assert forms == [{"fp8"}, {"int8"}, {""}]
    before = state_dicts.plain(optimizer.state_dict(), [a, b, c])["state"][0]["exp_avg"]
    optimizer.move(a, 1)
    train(optimizer, range(2, 2))
    optimizer._make_state()
    assert {stored.split_name(n)[1] for n in optimizer.state[a] if n != "step"} == {"int8"}
    after = state_dicts.plain(optimizer.state_dict(), [b, a, c])["state"][1]["exp_avg"]
    assert 0 < (after - before).norm() < 0.02 * before.norm()


def test_small_parameters_keep_f32():
    p = parameters(shapes=((4095,), (4096,)))
    optimizer = sft.AdamW(p, moments="fp8", max_norm=1.0)
    train(optimizer, range(2))
    assert [sorted(optimizer.state[x]) for x in p] == [
        ["exp_avg", "exp_avg_sq", "step"],
        ["exp_avg.fp8.code", "exp_avg.fp8.scale", "exp_avg_sq.fp8.code", "exp_avg_sq.fp8.scale", "step"]]
    assert len(optimizer._engine.parts) == 1  # one launch
    # One norm for both.
    torch.manual_seed(0)
    for x in p:
        x.grad = torch.randn_like(x)
    optimizer.step()
    norm = torch.cat([x.grad for x in p]).double().norm()
    assert abs(optimizer.stats()["grad_norm"] / norm - 1) < 1e-6
    # bf16 is not a format and has no blocks.
    train(optimizer := sft.AdamW(p, moments="bf16"), range(1))
    assert optimizer.state[p[0]]["exp_avg"].dtype == torch.bfloat16


@pytest.mark.parametrize("cls", [sft.AdamW, sft.Lion, sft.SGD, *([sft.Muon] if HAS_MUON else [])], ids=lambda c: c.__name__)
@pytest.mark.parametrize("form", ["int8", "fp8"])
def test_small_parameters_step_as_in_f32_and_others_as_in_the_form(cls, form):
    shapes = ((63, 60), (70, 70), (3, 5), (64, 64), (4095, 1))
    kw = {"momentum": 0.9} if cls is sft.SGD else {}
    a, b, c = (parameters(shapes=shapes) for _ in range(3))
    both, narrow, wide = cls(a, moments=form, **kw), cls(b, moments=form, moments_min=0, **kw), cls(c, **kw)
    for optimizer in (both, narrow, wide):
        train(optimizer, range(4), missing={(2, 1), (1, 2)})
    for i, (x, y, z) in enumerate(zip(a, b, c)):
        like, mine, its = (wide, x, z) if x.numel() < 4096 else (narrow, x, y)
        assert torch.equal(mine, its), i
        assert equal({"state": {0: both.state[mine]}}, {"state": {0: like.state[its]}}), i
    assert len(both._engine.parts) == 1


def test_the_border_moves_between_steps():
    """State converts to the current form in both directions; a limit above all sizes exempts every tensor."""
    p = parameters()
    optimizer = sft.AdamW(p, moments="fp8", moments_min=1 << 60)
    train(optimizer, range(2))
    assert all("exp_avg" in optimizer.state[x] for x in p)
    for border, kept in ((6000, [True, False, False]), (0, [True, True, True]), (5001, [True, False, False]), (10**9, [False] * 3)):
        optimizer.param_groups[0]["moments_min"] = border
        train(optimizer, range(2, 3))
        assert ["exp_avg.fp8.code" in optimizer.state[x] for x in p] == kept
        assert ["exp_avg" in optimizer.state[x] for x in p] == [not k for k in kept]


def test_a_formula_that_couples_parameters_has_no_exemption():
    p = parameters()
    optimizer = sft.Prodigy(p, moments="fp8")
    train(optimizer, range(2))
    assert all("exp_avg.fp8.code" in optimizer.state[x] for x in p)


def test_missing_gradients_leave_codes_alone():
    p = parameters()
    optimizer = sft.AdamW(p, moments="fp8", moments_min=0)
    train(optimizer, range(2), missing={(0, 1)})
    before = copy.deepcopy(optimizer.state_dict())
    train(optimizer, range(2, 3), missing={(2, 0)})
    after = optimizer.state_dict()
    assert all(torch.equal(bits(before["state"][0][k]), bits(after["state"][0][k])) for k in after["state"][0])
    assert not torch.equal(bits(before["state"][1]["exp_avg.fp8.code"]), bits(after["state"][1]["exp_avg.fp8.code"]))
    assert [int(after["state"][i]["step"]) for i in range(3)] == [2, 2, 3]


def test_skipped_steps_leave_codes_alone():
    p = parameters()
    scaler = sft.LossScaler(init_scale=8.0)
    optimizer = sft.AdamW(p, moments=BOTH, scaler=scaler)
    train(optimizer, range(2))
    before = copy.deepcopy(optimizer.state_dict())
    p[0].grad[0, 0] = float("inf")
    optimizer.step()
    assert equal(before, optimizer.state_dict())


def test_blocks_lie_in_the_order_of_memory():
    """A parameter in channels_last steps in memory order; its state is encoded again when loaded into a different order."""
    torch.manual_seed(3)
    values = torch.randn(8, 16, 9, 9)
    p = torch.nn.Parameter(values.clone().to(memory_format=torch.channels_last))
    flat = torch.nn.Parameter(values.permute(0, 2, 3, 1).reshape(-1).clone())
    gradient = torch.randn(values.shape)
    p.grad = gradient.to(memory_format=torch.channels_last)
    flat.grad = gradient.permute(0, 2, 3, 1).reshape(-1).clone()
    a, b = (sft.AdamW([x], moments="fp8") for x in (p, flat))
    a.step()
    b.step()
    code = a.state[p]["exp_avg.fp8.code"]
    assert torch.equal(bits(code.permute(0, 2, 3, 1)).reshape(-1), bits(b.state[flat]["exp_avg.fp8.code"]))
    other = torch.nn.Parameter(values.clone())
    c = sft.AdamW([other], moments="fp8")
    c.load_state_dict(a.state_dict())
    c._make_state()
    assert c.state[other]["exp_avg.fp8.code"].is_contiguous()
    x, y = (o.plain_state_dict()["state"][0]["exp_avg"] for o in (a, c))
    assert 0 < (x - y).norm() < 0.1 * x.norm()


def test_adagrads_first_value_is_encoded():
    p = parameters(shapes=((5000,),))
    optimizer = sft.Adagrad(p, initial_accumulator_value=0.5, moments="sqrt8")
    optimizer._make_state()
    p[0].grad = torch.zeros_like(p[0])
    optimizer._make_state()
    assert (optimizer.plain_state_dict()["state"][0]["sum"] - 0.5).abs().max() < 1e-6


def test_what_does_not_fit_is_refused_by_name():
    with pytest.raises(ValueError, match="fp9.*fp8"):
        sft.AdamW(parameters(), moments="fp9")
    with pytest.raises(ValueError, match="exp_avg, exp_avg_sq"):
        sft.AdamW(parameters(), moments="momentum=fp8")
    p = parameters()
    train(optimizer := sft.AdamW(p, moments="fp8"), range(1))
    state = optimizer.state_dict()
    for damage, words in (
            (lambda s: s.pop("exp_avg.fp8.scale"), "'exp_avg' of parameter 0 of group 0 has no 'exp_avg.fp8.scale'"),
            (lambda s: s.update({"exp_avg.fp8.scale": torch.zeros(3)}), "3 values in torch.float32; .* has 28"),
            (lambda s: s.update({"exp_avg.fp8.code": torch.zeros(70, 100)}), "7000 values in torch.float32")):
        spoiled = copy.deepcopy(state)
        damage(spoiled["state"][0])
        fresh = sft.AdamW(parameters(), moments="fp8")
        fresh.load_state_dict(spoiled)
        with pytest.raises(ValueError, match=words):
            train(fresh, range(1))


def test_the_names_are_the_librarys():
    """A new format of the library needs no change here: forms and parts come from its conversions."""
    with pytest.raises(Error) as said:
        _core.conversion("f32", "?")
    for form in str(said.value).split("there are ")[1].split(", "):
        p = parameters(shapes=((5000,),))
        optimizer = sft.Lion(p, moments=form)
        train(optimizer, range(2))
        assert stored.find_arrays(optimizer.state[p[0]], "exp_avg") == ["exp_avg" + part for part in stored.buffers(form)]


def test_a_state_for_torchao_has_a_tensor_as_learning_rate():
    optimizer = sft.AdamW(parameters(), lr=0.25, moments="fp8")
    (group,) = to_torchao(optimizer.state_dict())["param_groups"]
    assert torch.equal(group["lr"], torch.tensor(0.25)) and optimizer.param_groups[0]["lr"] == 0.25
