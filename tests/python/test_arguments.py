"""What constructors, groups and setters refuse: at once, as ValueError, in Python's words."""

import re

import pytest
import torch

import stepfuse.torch
from stepfuse.torch import AdamW, Lion, LossScaler

NAN = float("nan")
WRONG = [("max_norm", -1), ("max_norm", NAN), ("max_norm", "1"), ("max_norm", True), ("norm_type", 3), ("norm_type", "a"), ("norm_type", 1.0),
         ("external_norm", 3), ("external_norm", True), ("scaler", 3), ("scaler", LossScaler), ("weight_rounding", "x"), ("seed", 1.5),
         ("seed", 1 << 63), ("ema_decay", 2), ("ema_decay", "0.9"), ("moments", "x"), ("moments", 3), ("moments_min", -1),
         ("moments_min", 1.5), ("master", "x"), ("skip_nonfinite", 3), ("skip_norm", -1), ("clip", "x"), ("clip_z", "a"), ("monitor", 3), ("clip_factor", 0), ("clip_factor", -1), ("copy_scale", "x"), ("lr", -1), ("lr", NAN),
         ("lr", "1")]
OF_GROUPS = ("weight_rounding", "seed", "ema_decay", "moments", "moments_min", "master", "clip_factor", "copy_scale", "lr")


def parameters():
    return [torch.nn.Parameter(torch.ones(8)), torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16))]


def says(name, value, error):
    text = str(error.value)
    assert "--" not in text and "StepOptions" not in text
    assert re.match(f"{name}\\b", text) and repr(value) in text, text


@pytest.mark.parametrize(("name", "value"), WRONG, ids=str)
def test_constructors_refuse(name, value):
    more = {} if name in ("max_norm", "external_norm", "scaler", "clip_factor", "lr") or value == 1.0 else {"max_norm": 1.0}
    for cls in (Lion, AdamW):
        with pytest.raises(TypeError if cls is AdamW and (name, value) == ("lr", "1") else ValueError) as error:  # torch's
            cls(parameters(), **more, **{name: value})
        if cls is Lion or name != "lr":
            says(name, value, error)


@pytest.mark.parametrize(("name", "value"), [w for w in WRONG if w[0] in OF_GROUPS], ids=str)
def test_groups_are_refused(name, value):
    a, b = parameters()
    with pytest.raises(ValueError) as error:
        AdamW([{"params": [a]}, {"params": [b], name: value}])
    says(name, value, error)
    optimizer = AdamW([a])
    with pytest.raises(ValueError) as error:
        optimizer.add_param_group({"params": [b], name: value})
    says(name, value, error)
    assert len(optimizer.param_groups) == 1


WRONG_IN_GROUPS = {
    "AdamW": [("betas", (0.9, 2.0), "betas[1]: expected a number >= 0 and < 1; got 2.0"), ("betas", (0.9,), "betas: expected a sequence of 2 numbers; got (0.9,)"),
              ("betas", (0.9, 0.9, 0.9), "betas: expected a sequence of 2 numbers; got (0.9, 0.9, 0.9)"), ("betas", 0.9, "betas: expected a sequence of 2 numbers; got 0.9"),
              ("betas", (0.9, "a"), "betas[1]: expected a number; got 'a'"), ("betas", (0.9, None), "betas[1]: expected a number; got None"),
              ("betas", (0.9, NAN), "betas[1]: expected a number >= 0 and < 1; got nan"), ("eps", -1, "eps: expected a number >= 0; got -1"),
              ("eps", None, "eps: expected a number; got None"), ("eps", "1", "eps: expected a number; got '1'"),
              ("weight_decay", -1, "weight_decay: expected a number >= 0; got -1"), ("clip_eps", 0, "clip_eps: expected a number > 0; got 0"),
              ("lr_scales", (1.0, 2.0), "lr_scales: expected a sequence of 1 number, one per parameter of the group; got (1.0, 2.0); set_scale"),
              ("lr_scales", "a", "lr_scales: expected a sequence of 1 number, one per parameter of the group; got 'a'"),
              ("weight_decay_scales", (-1.0,), "weight_decay_scales[0]: expected a number >= 0; got -1.0"),
              ("differentiable", True, "differentiable=True: AdamW does not support it; leave it out")],
    "SGD": [("momentum", "a", "momentum: expected a number; got 'a'"), ("dampening", "a", "dampening: expected a number; got 'a'"),
            ("nesterov", True, "nesterov=True needs momentum > 0 and dampening = 0")],
    "Adafactor": [("eps", -1, "eps: expected a sequence of 2 numbers; got -1"), ("eps", (None, None), "eps[1]: expected a number; got None"),
                  ("eps", (None, -1), "eps[1]: expected a number >= 0; got -1"), ("beta2_decay", "a", "beta2_decay: expected a number; got 'a'")],
    "Rprop": [("etas", (2.0, 0.5), "etas: expected two numbers, the first > 0 and < 1, the second > 1; got (2.0, 0.5)"),
              ("step_sizes", (1,), "step_sizes: expected a sequence of 2 numbers; got (1,)")],
    "Muon": [("eps", -1, "eps: expected a number >= 0; got -1"), ("ns_steps", 1.5, "ns_steps: expected an integer from 0 to 99; got 1.5"),
             ("ns_coefficients", (1, 2), "ns_coefficients: expected a sequence of 3 numbers; got (1, 2)"),
             ("adjust_lr_fn", "x", "adjust_lr_fn: expected one of original, match_rms_adamw, or None; got 'x'"),
             ("momentum", -1, "momentum: expected a number >= 0; got -1"), ("weight_decay", -1, "weight_decay: expected a number >= 0; got -1")],
    "ScheduleFreeAdamW": [("warmup_steps", "a", "warmup_steps: expected a number; got 'a'"), ("betas", (0.9, 1), "betas[1]: expected a number >= 0 and < 1; got 1")],
}


@pytest.mark.parametrize(("cls", "name", "value", "says"), [(c, *case) for c, cases in WRONG_IN_GROUPS.items() for case in cases], ids=str)
def test_numbers_of_groups_are_refused_at_once(cls, name, value, says):
    if not hasattr(torch.optim, cls) and cls in ("Adafactor", "Muon"):
        pytest.skip(f"skipped: this torch has no {cls}")
    one, two = (torch.nn.Parameter(torch.ones(4, 4)) for _ in "ab")
    optimizer = getattr(stepfuse.torch, cls)([one], **{"clip_factor": 0.1} if name == "clip_eps" else {})
    with pytest.raises(ValueError, match="^" + re.escape(says)):
        optimizer.add_param_group({"params": [two], name: value})
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [two]})
    one.grad, two.grad = torch.ones(4, 4), torch.ones(4, 4)
    optimizer.step()
    assert not torch.equal(two, torch.ones(4, 4))
    if name in ("dampening", "etas") or value == (0.9, 0.9, 0.9):  # no step looks at them
        return
    optimizer.param_groups[1][name] = value  # later, it is refused at the step by the group's index
    with pytest.raises((ValueError, TypeError), match=r"^param_groups\[1\]: " + re.escape(name)):
        optimizer.step()


@pytest.mark.parametrize(("options", "says"), [
    ({"max_norm": -1}, "max_norm: expected a number >= 0; got -1"),
    ({"skip_norm": NAN}, "skip_norm: expected a number >= 0; got nan"),
    ({"ema_decay": 2}, "ema_decay: expected a number >= 0 and <= 1; got 2"),
    ({"moments": 8}, "moments: expected the name of a storage type or of a format, such as 'bf16' or 'fp8', or None; got 8"),
    ({"monitor": 3}, "monitor: expected True or False; got 3"),
    ({"norm_type": 3}, "norm_type: expected 1, 2 or inf; got 3"),
    ({"norm_type": 1.0}, "norm_type=1.0 needs max_norm=; add it"),
    ({"external_norm": True}, "external_norm=True needs max_norm=; add it"),
    ({"clip": "zclip"}, "clip='zclip' needs max_norm=, the limit until there are averages; add it"),
    ({"clip_z": 1.0}, "clip_z= needs clip='zclip'; add it"),
    ({"clip_decay": 0.9}, "clip_decay= needs clip='zclip' or 'adagc'; add it"),
    ({"skip_norm": 1.0, "skip_nonfinite": False}, "skip_nonfinite=False contradicts skip_norm=, which skips steps with inf and NaN; leave out one of them"),
    ({"orientation": "both"}, "orientation='both' needs copies of weights; give the group copy_scale=, too"),
], ids=str)
def test_messages_say_what_was_expected_or_is_missing(options, says):
    with pytest.raises(ValueError) as error:
        AdamW([torch.nn.Parameter(torch.ones(8))], **options)
    assert str(error.value) == says


def test_what_torch_says_stays():
    with pytest.raises(ValueError, match="^Invalid learning rate: -1$"):
        AdamW(parameters(), lr=-1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_nrm'"):
        AdamW(parameters(), max_nrm=1)


def test_clipping_says_what_it_takes():
    p = torch.nn.Parameter(torch.ones(8))
    for wrong in (torch.optim.AdamW([p]), 3):
        for clip in (stepfuse.torch.clip_grad_norm_, stepfuse.torch.clip_grad_value_):
            with pytest.raises(TypeError, match=r"^parameters: expected a tensor, several tensors such as model.parameters\(\).*; got "):
                clip(wrong, 1.0)


def test_muon_takes_matrices_only():
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("skipped: this torch has no Muon")
    optimizer = stepfuse.torch.Muon([torch.nn.Parameter(torch.ones(4, 4))])
    with pytest.raises(ValueError, match=r"Muon takes matrices and batches of matrices; a parameter has shape \(4,\)"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(4))]})


def stepped(**given):
    weight = torch.nn.Parameter(torch.ones(8))
    weight.grad = torch.ones(8)
    optimizer = AdamW([{"params": [weight]}, {"params": [torch.nn.Parameter(torch.ones(8))]}], **given)
    optimizer.param_groups[1]["params"][0].grad = torch.ones(8)
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(("name", "value", "says"), [
    ("lr", -1, "param_groups[1]: lr: expected a number >= 0; got -1"),
    ("lr", NAN, "param_groups[1]: lr: expected a number >= 0; got nan"),
    ("lr", "1", "param_groups[1]: lr: expected a number; got '1'"),
    ("lr", None, "param_groups[1]: lr: expected a number; got None"),
    ("lr", torch.ones(2), "param_groups[1]: lr: expected a number; got tensor([1., 1.])"),
    ("betas", (0.9, 2.0), "param_groups[1]: betas[1]: expected a number >= 0 and < 1; got 2.0"),
    ("betas", (0.9,), "param_groups[1]: betas: expected at least 2 numbers; got (0.9,)"),
    ("eps", -1, "param_groups[1]: eps: expected a number >= 0; got -1"),
    ("weight_decay", NAN, "param_groups[1]: weight_decay: expected a number >= 0; got nan"),
    ("ema_decay", 3, "param_groups[1]: ema_decay: expected a number >= 0 and <= 1; got 3"),
    ("moments", "x", "param_groups[1]: moments='x': there is no format 'x'"),
    ("copy_scale", "x", "param_groups[1]: copy_scale: expected one of"),
    ("master", "x", "param_groups[1]: master: expected one of f32, remainder, ecc24, or None; got 'x'"),
    ("seed", 1.5, "param_groups[1]: seed: expected an integer of 64 bits; got 1.5"),
    ("weight_rounding", "x", "param_groups[1]: weight_rounding: expected one of nearest, stochastic, kahan, or None; got 'x'"),
    ("moments_min", -1, "param_groups[1]: moments_min: expected an integer >= 0; got -1"),
], ids=str)
def test_a_group_that_became_wrong_is_refused_by_name(name, value, says):
    optimizer = stepped(ema_decay=0.9)
    weights = [g["params"][0].detach().clone() for g in optimizer.param_groups]
    before = dict(optimizer.param_groups[1])
    optimizer.param_groups[1][name] = value
    with pytest.raises(TypeError if says.endswith(("expected a number; got '1'", "expected a number; got None")) else ValueError) as error:
        optimizer.step()
    assert str(error.value).startswith(says) and "StepOptions" not in str(error.value)
    assert all(torch.equal(w, g["params"][0]) for w, g in zip(weights, optimizer.param_groups))
    optimizer.param_groups[1].clear()
    optimizer.param_groups[1].update(before)
    optimizer.step()
    assert not torch.equal(weights[1], optimizer.param_groups[1]["params"][0])
    assert all(float(optimizer.state[g["params"][0]]["step"]) == 2 for g in optimizer.param_groups)


def test_a_formula_of_the_users_has_no_negative_rate():
    weight = torch.nn.Parameter(torch.ones(8))
    weight.grad = torch.ones(8)
    optimizer = stepfuse.torch.Formula([weight], formula="optimizer mine { hyper lr = 1, other = 1  w = w - lr * other * g }")
    optimizer.param_groups[0].update(lr=0.5, other=-1)
    optimizer.step()
    assert weight[0] == 1.5
    optimizer.param_groups[0]["lr"] = -1
    with pytest.raises(ValueError, match=r"param_groups\[0\]: lr: expected a number >= 0; got -1"):
        optimizer.step()


def test_factors_are_refused():
    optimizer = stepped()
    with pytest.raises(ValueError, match="^lr: expected a number >= 0; got -1$"):
        optimizer.set_scale(optimizer.param_groups[0]["params"], lr=-1)


def test_the_norm_may_not_become_wrong():
    optimizer = AdamW(parameters(), max_norm=1.0)
    for wrong in (-1, NAN, "1"):
        with pytest.raises(ValueError, match="^max_norm: expected a number >= 0; got "):
            optimizer.max_norm = wrong
    optimizer.max_norm = 0.5
    assert optimizer.max_norm == 0.5


def test_what_is_right_is_taken():
    AdamW(parameters(), lr=torch.tensor(0.1), max_norm=float("inf"), norm_type=1, scaler=LossScaler(), seed=-5, ema_decay=0,
          weight_rounding="stochastic", moments="int8", moments_min=0)
    AdamW(parameters(), lr=0, max_norm=0, external_norm=True, master="ecc24")
    Lion([{"params": parameters(), "clip_factor": None}], clip_factor=0.01)


def test_what_was_given_is_shown():
    shown = repr(AdamW(parameters(), max_norm=0.5, norm_type=1.0, scaler=LossScaler(256.0), ema_decay=0.9))
    for line in ("max_norm: 0.5", "norm_type: 1.0", "scaler: LossScaler(scale=256.0, growth_factor=2.0,", "ema_decay: 0.9", "Parameter Group 0"):
        assert line in shown, shown
    assert repr(AdamW(parameters())).splitlines()[1:] == repr(torch.optim.AdamW(parameters())).splitlines()[1:]


def test_the_package_shows_what_is_for_users():
    assert [name for name in dir(stepfuse.torch) if not name.startswith("__")] == sorted(stepfuse.torch.__all__)
