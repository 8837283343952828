"""8-bit parameters as scaled copies of f32 masters (copy_scale=), bit for bit the C++ step's and the published rules'."""

import copy
import io
import re

import pytest
import torch

import stepfuse.torch as sft
from stepfuse import _core
from stepfuse.torch import AdamW, stored
from stepfuse.torch.checks import COPY_SCALES
from copied import EXACT, HOWS, LARGE, MX, ON_CUDA, SHAPES, SQUARES, TYPES, WIDE, bits, everything, fits, gradients, parameters, parts_of, same, train


class Walked:
    """The attributes of a tensor that a step's walk reads."""

    def __init__(self, tensor):
        self.tensor, self.grad = tensor, None

    def data_ptr(self):
        return self.tensor.data_ptr()

    def size(self):
        return (self.tensor.numel(),)

    def stride(self):
        return (1,)

    def is_neg(self):
        return False

    dtype, device = "any", "cpu"
    _version = property(lambda self: 0)


class Native:
    """The C++ step itself, over the test's own arrays."""

    def __init__(self, params, how, dtype):
        options = [f"grad={'f32' if WIDE else 'f8' + parts_of(params[0])}", "profile=torch-foreach", f"model=f8{parts_of(params[0])}",
                   "master=f32", f"copy-scale={how}"]
        self.program = _core.Program("adamw", options)
        self.codes = [p.detach().flatten().clone() for p in params]
        self.arrays = {"weight": self.codes, "master": [c.float() for c in self.codes],
                       "exp_avg": [torch.zeros(c.numel()) for c in self.codes], "exp_avg_sq": [torch.zeros(c.numel()) for c in self.codes]}
        columns = [p.shape[-1] if p.ndim > 1 and p.numel() else 0 for p in params]
        if how in MX:
            self.arrays["weight_scale"] = [torch.full((-(-c.numel() // 32),), 127, dtype=torch.uint8) for c in self.codes]
        if how in SQUARES:
            self.arrays["weight_scale"] = [
                torch.ones(-(-p.numel() // (c or p.numel() or 1) // 128), -(-(c or p.numel()) // 128)) for p, c in zip(params, columns)]
        self.step = _core.Step(self.program, [(f"t{i}", c.numel(), 0, False, i, 0, c.numel(), columns[i]) for i, c in enumerate(self.codes)],
                               0, 0, 1, None, False)
        for name, arrays in self.arrays.items():
            self.step.bind(name, [a.data_ptr() for a in arrays])
        self.step.adopt_state()
        for index, name in enumerate(self.program.args()):
            self.step.set(index, -1, {"lr": 0.01, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 1e-2}[name])
        self.params = [Walked(c) for c in self.codes]
        self.groups = [{"params": self.params}]
        self.walk = _core.Walk(None, Walked, ())
        for slot, p in enumerate(self.params):
            self.walk.add(p, 0, slot, p, p, False)
        self.walk.watch({}, self.groups, [], set())

    def run(self, params):
        for mine, p in zip(self.params, params):
            mine.grad = Walked(p.grad.flatten())
        assert self.walk.scan(self.groups, {}, list) == []
        self.step.run(self.walk, 0, 0)

    def numbers(self, name):
        return torch.tensor(self.step.read_state(name), dtype=torch.int64).to(torch.int32).view(torch.float32)


@pytest.mark.skipif(ON_CUDA, reason="its C++ step is on the CPU")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("how", HOWS)
def test_bits_are_those_of_the_step_in_cpp(how, dtype):
    params = parameters(dtype)
    optimizer, native = AdamW(params, lr=0.01, copy_scale=how), Native(params, how, dtype)
    for k in range(40):
        gradients(params, k)
        native.run(params)
        optimizer.step()
        for i, p in enumerate(params):
            state = optimizer.state[p]
            assert torch.equal(bits(p).flatten(), bits(native.codes[i]))
            assert torch.equal(bits(state["master"]).flatten(), bits(native.arrays["master"][i]))
            if how in EXACT:
                assert torch.equal(state["weight_scale"].flatten(), native.arrays["weight_scale"][i].flatten())
            else:
                assert torch.equal(state["copy_scale_inv"], native.numbers("copy_scale_inv")[i])
    optimizer.state_dict()
    for i, p in enumerate(params if how == "delayed" else ()):
        assert torch.equal(optimizer.state[p]["copy_scale"], native.numbers("copy_scale")[i])
        assert torch.equal(optimizer.state[p]["amax_history"], torch.stack([native.numbers(f"amax_{a + 1}")[i] for a in range(15)]))


@pytest.mark.parametrize("how", HOWS)
def test_masters_are_those_of_plain_copies(how):
    params, plain = parameters(), parameters()
    norm = None if how in SQUARES else 0.5  # their rows change the order of a norm's sum
    a, b = AdamW(params, lr=0.01, max_norm=norm, copy_scale=how), AdamW(plain, lr=0.01, max_norm=norm)
    train(a, range(8))
    train(b, range(8))
    for p, q in zip(params, plain):
        assert torch.equal(a.state[p]["master"], b.state[q]["master"])
        assert how == "delayed" or p.numel() == 0 or fits(a, p, exactly=how in EXACT)


def test_delayed_scales_follow_the_published_rule():
    (p,) = params = parameters(shapes=((64, 64),))
    optimizer = AdamW(params, lr=0.5, copy_scale="delayed")
    history, scale = [0.0] * 16, 1.0
    for k in range(30):
        train(optimizer, [k])
        master = optimizer.state[p]["master"]
        assert optimizer.copy_scale_inv(p) == 1 / torch.tensor(scale)
        assert torch.equal(bits((master * scale).to(p.dtype)), bits(p))
        history = [master.abs().max().item(), *history[:15]]
        scale = (torch.tensor(448.0) / torch.tensor(max(history))).item()
    assert scale != 1


def classes():
    """FusedAdam has no copies: its signature says how weights are kept."""
    return [cls for name in sft.__all__ for cls in [getattr(sft, name)]
            if isinstance(cls, type) and issubclass(cls, sft.fused.Fused) and cls not in (sft.Formula, sft.FusedAdam)]


@pytest.mark.skipif(ON_CUDA, reason="many kernels")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("cls", classes(), ids=lambda v: v.__name__)
def test_every_optimizer_has_it_or_says_why_not(cls, how):
    params = parameters(shapes=((15, 20),))
    optimizer = cls(params, copy_scale=how)
    try:
        train(optimizer, range(2))
    except Exception as e:
        assert how in MX and re.search("per-column values|rows of 20, which are not a multiple of the blocks", str(e))
        return
    assert params[0].float().isfinite().all()
    if not isinstance(optimizer, sft.formula.ScheduleFree):
        assert stored.find_scales(optimizer.state[params[0]]) == stored.scales_name(how)


@pytest.mark.parametrize("how", HOWS)
def test_goes_on_from_a_file_to_the_bit(how):
    whole, half = parameters(), parameters()
    train(first := AdamW(whole, copy_scale=how, scaler=sft.LossScaler(init_scale=2.0)), range(20))
    train(second := AdamW(half, copy_scale=how, scaler=sft.LossScaler(init_scale=2.0)), range(9))
    file = io.BytesIO()
    torch.save({"model": [p.detach() for p in half], "optimizer": second.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again = parameters()
    third = AdamW(again, copy_scale=how, scaler=sft.LossScaler(init_scale=2.0))
    scales = [third.copy_scale_inv(p) for p in again]  # as a model would have them
    with torch.no_grad():
        for p, q in zip(again, saved["model"]):
            p.copy_(q)
    third.load_state_dict(saved["optimizer"])
    assert all(torch.equal(bits(s), bits(second.copy_scale_inv(q))) for s, q in zip(scales, half))
    assert same(everything(third), everything(second))
    third._make_state()
    assert same(everything(third), everything(second))
    train(third, range(9, 20))
    assert same(everything(third), everything(first))
    assert all(s.data_ptr() == third.copy_scale_inv(p).data_ptr() for s, p in zip(scales, again))
    assert all(torch.equal(bits(s), bits(first.copy_scale_inv(q))) for s, q in zip(scales, whole))


def test_copies_of_the_optimizer_have_scales_of_their_own():
    params = parameters(shapes=((40, 32),))
    train(optimizer := AdamW(params, copy_scale="delayed"), range(3))
    other = copy.deepcopy(optimizer)
    before = everything(optimizer)
    train(other, range(3, 5))
    assert same(everything(optimizer), before)
    train(optimizer, range(3, 5))
    assert same(everything(optimizer), everything(other))


def deep_copy(both):
    return copy.deepcopy(both)


def through_a_file(both):
    torch.save(both, file := io.BytesIO())
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("again", [deep_copy, through_a_file])
@pytest.mark.parametrize("how", HOWS)
def test_a_copied_model_has_the_scales_of_the_copied_optimizer(how, again):
    model = torch.nn.Module()
    (model.weight,) = parameters(shapes=((130, 256),))
    optimizer = AdamW(model.parameters(), lr=0.1, copy_scale=how)
    model.register_buffer("scale", optimizer.copy_scale_inv(model.weight))
    train(optimizer, range(3))
    other, second = again((model, optimizer))
    assert same(everything(second), everything(optimizer))
    train(second, range(3, 5))
    assert other.scale.data_ptr() == second.copy_scale_inv(other.weight).data_ptr()
    assert not torch.equal(bits(other.weight), bits(model.weight)) and fits(optimizer, model.weight, exactly=how in EXACT)


@pytest.mark.parametrize("source", [None, *HOWS])
@pytest.mark.parametrize("target", HOWS)
def test_a_file_of_another_way_is_right_at_once(source, target):
    """Works before the first step as well: reading scales or values, setting weights, averaging."""
    (p,) = parameters(shapes=(LARGE,))
    train(optimizer := AdamW([p], lr=0.1, copy_scale=source, ema_decay=0.9), range(3))
    master = optimizer.state[p]["master"]

    def near(loaded, q, values):
        return (loaded.dequantized(q) - values).abs().max() <= values.abs().max() * 0.13

    for use in range(4):
        q = torch.nn.Parameter(p.detach().clone())
        loaded = AdamW([q], lr=0.1, copy_scale=target, ema_decay=0.9)
        scales = loaded.copy_scale_inv(q)
        loaded.load_state_dict(optimizer.state_dict())
        if use == 0:
            assert loaded.copy_scale_inv(q).data_ptr() == scales.data_ptr()
        elif use == 1:
            loaded.set_weight(q, master * 3)
            # the old scale mode left nothing
            assert stored.find_scales(loaded.state[q]) == stored.scales_name(target)
        elif use == 2:
            with loaded.averaged():
                assert near(loaded, q, loaded.state[q]["ema"])
        expected = master * 3 if use == 1 else q.detach().float() if source is None and use != 2 else master
        assert near(loaded, q, expected)
        train(loaded, range(3, 5))
        assert target == "delayed" or near(loaded, q, loaded.state[q]["master"])


@pytest.mark.parametrize("source", [None, *HOWS])
@pytest.mark.parametrize("target", [None, *HOWS])
def test_a_group_changes_its_way_between_steps(source, target):
    params = parameters()
    optimizer = AdamW(params, copy_scale=source)
    train(optimizer, range(4))
    masters = [optimizer.state[p]["master"].clone() for p in params]
    codes = [bits(p) for p in params]
    optimizer.param_groups[0]["copy_scale"] = target
    if target is not None:  # reads the first one's before new ones are made
        (one,) = parameters(shapes=SHAPES[:1])
        asked, fresh = optimizer.copy_scale_inv(params[0]), AdamW([one], copy_scale=target).copy_scale_inv(one)
        assert (asked.shape, asked.dtype) == (fresh.shape, fresh.dtype)
    optimizer._make_state()
    for p, master, code in zip(params, masters, codes):
        assert torch.equal(optimizer.state[p]["master"], master)
        if source is None or target is not None and COPY_SCALES[source] == COPY_SCALES[target]:
            assert torch.equal(bits(p), code)
        elif target is None:
            assert torch.equal(bits(p), bits(master.to(p.dtype)))
        else:
            assert p.numel() == 0 or fits(optimizer, p, exactly=target in EXACT)
        left = {name for name in stored.STATES if name in optimizer.state[p]}
        assert left == {None: set(), "current": {"copy_scale_inv"},
                        "delayed": {"copy_scale_inv", "copy_scale", "amax_history"}}.get(target, {"weight_scale"})
    train(optimizer, range(4, 6))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("dtype", "kw"), [(torch.float32, {}), (torch.bfloat16, {}), (torch.bfloat16, {"weight_rounding": "stochastic"}),
                                           (torch.bfloat16, {"master": "remainder"}), (torch.float32, {"copy_scale": "nvfp4"}),
                                           (TYPES[0], {"weight_rounding": "nearest"})], ids=str)
@pytest.mark.parametrize("given", ["the master", "the values of the copy"])
def test_weights_of_another_type_continue_from_the_master(how, dtype, kw, given):
    (p,) = parameters(shapes=((128, 160),))
    train(optimizer := AdamW([p], lr=1e-3, copy_scale=how), range(3))
    master = optimizer.state[p]["master"].clone()
    if dtype == TYPES[0]:
        q = torch.nn.Parameter(p.detach().clone())
    else:
        q = torch.nn.Parameter((master.clone() if given == "the master" else optimizer.dequantized(p).detach()).to(dtype))
    other = AdamW([q], lr=1e-3, **kw)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    other.param_groups[0].update(lr=0.0, weight_decay=0.0)
    q.grad = torch.zeros_like(q)
    other.step()
    assert torch.equal(bits(q) if dtype == TYPES[0] else q, bits(master.to(dtype)) if dtype == TYPES[0] else master.to(dtype))
    assert stored.find_scales(other.state[q]) is None
    kept = stored.find_rest(other.state[q])
    assert kept == (None if dtype == torch.float32 or "weight_rounding" in kw else kw.get("master", "master"))
    assert kept is None or torch.equal(stored.to_f32(other.state[q], q), master)


def test_a_group_gives_up_scales_and_8_bits_between_steps():
    (p,) = parameters(shapes=((128, 160),))
    train(optimizer := AdamW([p], lr=1e-3, copy_scale="delayed"), range(3))
    master = optimizer.state[p]["master"].clone()
    p.grad, p.data = None, optimizer.dequantized(p).detach()
    if WIDE:
        p.grad_dtype = None
    optimizer.param_groups[0].update(copy_scale=None, lr=0.0, weight_decay=0.0)
    p.grad = torch.zeros(128, 160)
    optimizer.step()
    assert torch.equal(p, master) and "master" not in optimizer.state[p]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("how", HOWS)
def test_weights_are_set_to_f32(how, dtype):
    p, q = parameters(dtype, shapes=((40, 64), (40, 64)))
    optimizer = AdamW([p, q], lr=0.0, weight_decay=0.0, copy_scale=how)
    inv = optimizer.copy_scale_inv(p)
    values = torch.randn(40, 64) * 0.02
    for _ in range(2):  # before the first step, and later
        values = values * 3
        optimizer.set_weight(p, values)
        assert torch.equal(optimizer.state[p]["master"], values)
        assert (optimizer.dequantized(p) - values).abs().max() <= values.abs().max() * (0.125 if how in EXACT or dtype != TYPES[0] else 0.04)
        assert inv.data_ptr() == optimizer.copy_scale_inv(p).data_ptr()
        code, scale = bits(p), bits(inv)
        train(optimizer, range(3))
        assert torch.equal(bits(p), code) and torch.equal(bits(inv), scale)
        assert torch.equal(optimizer.state[p]["master"], values)
    assert torch.equal(optimizer.state[q]["master"], parameters(dtype, shapes=((40, 64), (40, 64)))[1].float())


@pytest.mark.parametrize("kw", [{}, {"master": "remainder"}, {"weight_rounding": "nearest"}], ids=str)
def test_other_weights_are_set_too(kw):
    p = torch.nn.Parameter(torch.zeros(300, dtype=torch.bfloat16))
    optimizer = AdamW([p], lr=0.0, weight_decay=0.0, **kw)
    for _ in range(2):
        values = torch.randn(300)
        optimizer.set_weight(p, values)
        p.grad = torch.randn(300).bfloat16()
        optimizer.step()
        kept = sft.stored.to_f32(optimizer.state[p], p)
        assert torch.equal(kept.float(), values if "weight_rounding" not in kw else values.bfloat16().float())


@pytest.mark.parametrize("how", HOWS)
def test_given_codes_and_scales_make_the_master(how):
    (p,) = parameters(shapes=((40, 64),))
    optimizer = AdamW([p], lr=0.0, weight_decay=0.0, copy_scale=how)
    if how in MX:
        optimizer.copy_scale_inv(p).view(torch.uint8).fill_(120)
    else:
        optimizer.copy_scale_inv(p).fill_(2.0**-7)
    expected = p.detach().float() * 2.0**-7
    assert torch.equal(optimizer.dequantized(p), expected)
    train(optimizer, range(1))
    assert torch.equal(optimizer.state[p]["master"], expected)


@pytest.mark.skipif(not WIDE, reason="this torch has no grad_dtype")
@pytest.mark.parametrize("how", HOWS)
def test_gradients_reach_the_parameter_through_the_copy(how):
    (p,) = parameters(shapes=((40, 64),))
    optimizer = AdamW([p], copy_scale=how)
    p.grad_dtype = torch.float32
    values = torch.randn(40, 64)
    optimizer.set_weight(p, values * 0.01)
    (optimizer.dequantized(p) * values).sum().backward()
    assert p.grad.dtype == torch.float32 and torch.equal(p.grad, values)
    assert optimizer.dequantized(p, torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.parametrize("how", HOWS)
def test_averages_are_shown_with_scales_of_their_own(how):
    params = parameters(shapes=((40, 64), (33,)))
    optimizer = AdamW(params, lr=0.1, copy_scale=how, ema_decay=0.9)
    train(optimizer, range(4))
    before = everything(optimizer)
    with optimizer.averaged():
        for p in params:
            ema = optimizer.state[p]["ema"]
            assert (optimizer.dequantized(p) - ema).abs().max() <= ema.abs().max() * 0.125
    assert same(everything(optimizer), before)


@pytest.mark.parametrize("how", HOWS)
def test_schedule_free_moves_masters_and_copies(how):
    params, plain = parameters(), parameters()
    a, b = sft.ScheduleFreeAdamW(params, copy_scale=how), sft.ScheduleFreeAdamW(plain)
    for optimizer in (a, b):
        train(optimizer, range(3))
        optimizer.eval()
    for p, q in zip(params, plain):
        assert torch.equal(a.state[p]["master"], b.state[q]["master"])
        assert p.numel() == 0 or fits(a, p, exactly=how in EXACT)
    for optimizer in (a, b):
        optimizer.train()
        train(optimizer, range(3, 5))
    assert all(torch.equal(a.state[p]["master"], b.state[q]["master"]) for p, q in zip(params, plain))


@pytest.mark.parametrize("how", HOWS)
def test_parameters_in_other_orders_in_memory(how):
    """Parameters in channels_last and with gaps step in memory order, with the same masters."""
    torch.manual_seed(3)
    start = torch.randn(8, 4, 5, 5).to(TYPES[0])
    plain = torch.nn.Parameter(start.clone())
    last = torch.nn.Parameter(start.clone().contiguous(memory_format=torch.channels_last))
    gaps = torch.nn.Parameter(torch.zeros(8, 4, 5, 10, dtype=TYPES[0])[..., ::2])
    gaps.data.copy_(start)
    made = []
    for p in (plain, last, gaps):
        made.append(AdamW([p], lr=0.1, copy_scale=how))
        train(made[-1], range(4))
    for p, optimizer in zip((last, gaps), made[1:]):
        assert torch.equal(optimizer.state[p]["master"], made[0].state[plain]["master"])
        if how in EXACT:
            assert torch.allclose(optimizer.dequantized(p), optimizer.state[p]["master"], atol=0.2, rtol=0.13)
        else:
            assert torch.equal(bits(p), bits(plain))
    assert torch.equal(bits(gaps), bits(plain))
    # State saved from one layout loads into a different one.
    other = torch.nn.Parameter(last.detach().clone().contiguous())
    optimizer = AdamW([other], copy_scale=how)
    optimizer.load_state_dict(made[1].state_dict())
    optimizer._make_state()
    assert torch.equal(bits(other), bits(plain)) and torch.equal(optimizer.dequantized(other), made[0].dequantized(plain))


def test_skipped_steps_and_missing_gradients_leave_scales_alone():
    p, q = params = parameters(shapes=((40, 64), (33,)))
    optimizer = AdamW(params, lr=0.1, copy_scale="delayed", scaler=sft.LossScaler(init_scale=2.0))
    train(optimizer, range(3))
    before = everything(optimizer)
    gradients(params, 3)
    p.grad = torch.full_like(p.grad, torch.inf if WIDE else torch.nan)
    optimizer.step()
    assert same(everything(optimizer), before)
    gradients(params, 4)
    q.grad = None
    optimizer.step()
    after = everything(optimizer)
    assert same(after[1:], before[1:]) and not torch.equal(after[0]["amax_history"], before[0]["amax_history"])


@pytest.mark.parametrize("how", HOWS)
def test_a_parameter_that_is_moved_keeps_its_values(how):
    """A parameter stored by columns, or with gaps in an unusual order, steps like one that was never moved."""
    p, still = (parameters(shapes=(LARGE,))[0] for _ in range(2))
    made = [AdamW([q], lr=0.1, copy_scale=how) for q in (p, still)]
    for k, change in enumerate((lambda t: t.clone(), lambda t: t.t().contiguous().t(),
                                lambda t: torch.zeros(258, 260, dtype=TYPES[0])[::2, ::2].t().copy_(t))):
        for optimizer in made:
            train(optimizer, [k])
        p.data, p.grad = change(p.data), None
        master = made[0].state[p]["master"]
        assert how == "delayed" or (made[0].dequantized(p) - master).abs().max() <= master.abs().max() * 0.13  # at once, too
        for optimizer in made:
            train(optimizer, [k + 10])
        assert torch.equal(made[0].state[p]["master"], made[1].state[still]["master"])
        assert fits(made[1], still, exactly=how in EXACT) or how == "delayed"
        assert k == 1 and how in MX or torch.equal(made[0].dequantized(p), made[1].dequantized(still))
    for q, optimizer in zip((p, still), made):
        optimizer.set_weight(q, torch.linspace(-1, 1, 130 * 129).reshape(LARGE).roll(77, 1))
    made[0]._make_state()  # binds it again
    assert torch.equal(bits(p), bits(still)) and torch.equal(bits(made[0].copy_scale_inv(p)), bits(made[1].copy_scale_inv(still)))
    p.data, p.grad = torch.zeros(64, 64, dtype=TYPES[0]), None
    with pytest.raises(ValueError, match=r"state 'master' of .*\(130, 129\)"):
        train(made[0], [20])
    made[0].set_weight(p, torch.linspace(-1, 1, 64 * 64).reshape(64, 64))  # the documented remedy
    assert fits(made[0], p, exactly=how in EXACT)


def test_in_torchs_terms():
    params = parameters()
    train(optimizer := AdamW(params, copy_scale="delayed"), range(3))
    plain = optimizer.plain_state_dict()
    assert plain["state"][0].keys() == {"step", "exp_avg", "exp_avg_sq", "master"}
    assert "copy_scale" not in plain["param_groups"][0]
    torch.optim.AdamW([p.detach().float() for p in params]).load_state_dict(plain)


def test_groups_have_their_own_beside_f32():
    a, b = parameters(shapes=((40, 64), (40, 64)))
    c, d = torch.nn.Parameter(torch.randn(40)), torch.nn.Parameter(torch.randn(40).bfloat16())
    optimizer = sft.Lion([{"params": [a, c]}, {"params": [b], "copy_scale": "mx"}, {"params": [d], "copy_scale": None}], copy_scale="current")
    for p in (c, d):
        p.grad = torch.randn(40).to(p.dtype)
    gradients((a, b), 0)
    optimizer.step()
    assert [stored.find_scales(optimizer.state[p]) for p in (a, b, c, d)] == ["copy_scale_inv", "weight_scale", None, None]
    optimizer.move(b, 0)
    optimizer._make_state()
    assert stored.find_scales(optimizer.state[b]) == "copy_scale_inv"


def test_what_does_not_go_together_is_refused():
    params = parameters()
    with pytest.raises(ValueError, match="copy_scale: expected one of delayed, current, mx, mx-rceil, mxfp8, mxfp8-rceil, block128, block128-f32, nvfp4, nvfp4-delayed, or None; got 'fp8'"):
        AdamW(params, copy_scale="fp8")
    for other in ({"master": "remainder"}, {"weight_rounding": "nearest"}):
        with pytest.raises(ValueError, match="leave out weight_rounding= and master="):
            AdamW(params, copy_scale="mx", **other)
    for how in SQUARES:
        with pytest.raises(ValueError, match=f"copy_scale='{how}' counts blocks from the start of each row, but moments='exp_avg=fp8' from the first element; give parameter 0"):
            AdamW(params, copy_scale=how, moments="exp_avg=fp8")
        train(AdamW(parameters(shapes=((5, 40),)), copy_scale=how, moments="bf16"), range(1))
    later = AdamW(params)
    later.param_groups[0]["copy_scale"] = "fp8"
    with pytest.raises(ValueError, match="copy_scale: expected one of delayed"):
        train(later, range(1))
    later = AdamW(params, copy_scale="mx")
    with pytest.raises(ValueError, match=r"AdamW.set_weight\(\): expected values of the parameter's shape, \(70, 96\); got \(96,\)"):
        later.set_weight(params[0], torch.zeros(96))
    assert not later.state
    wide, low = torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(3).bfloat16())
    with pytest.raises(ValueError, match="there are none; convert those .* torch.float8_e4m3fn"):
        AdamW([wide], copy_scale="mx")
    with pytest.raises(TypeError, match="but weight is torch.bfloat16; give it its own group with copy_scale=None"):
        AdamW([("weight", low)], copy_scale="mx")
    optimizer = AdamW(params, copy_scale="mx")
    with pytest.raises(TypeError, match="parameter 0 of group 1 is torch.bfloat16; give it"):
        optimizer.add_param_group({"params": [low]})
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [low], "copy_scale": None})
    with pytest.raises(ValueError, match=r"shape \(3,\) in torch.bfloat16 has no scale; convert it to 8 bits"):
        optimizer.copy_scale_inv(low)
    train(optimizer := AdamW(params, copy_scale="mx"), range(1))
    spoiled = copy.deepcopy(optimizer.state_dict())
    spoiled["state"][0]["weight_scale"] = torch.zeros(3, dtype=torch.uint8)
    fresh = AdamW(parameters(), copy_scale="mx")
    fresh.load_state_dict(spoiled)
    with pytest.raises(ValueError, match=r"state 'weight_scale' of a parameter of shape \(70, 96\) has 3 values, not 210"):
        fresh._make_state()
