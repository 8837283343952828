"""torch's own OptimizerInfos (the arguments that its test suite tries) and AMP cases, with our classes in theirs' place."""

import pytest
import torch

pytest.importorskip("expecttest", reason="torch.testing._internal needs expecttest")
from torch.testing._internal.common_cuda import _create_scaling_case
from torch.testing._internal.common_optimizers import optim_db

import stepfuse.torch as ours

INFOS = [i for i in optim_db if hasattr(ours, i.optim_cls.__name__)]
INPUTS = [(i.optim_cls, entry) for i in INFOS for entry in i.optim_inputs_func("cpu")
          if not {"capturable", "differentiable"} & {k for k, v in entry.kwargs.items() if v}]
ERRORS = [(i.optim_cls, entry) for i in INFOS for entry in i.optim_error_inputs_func("cpu", torch.float32)
          # Ours refuse complex numbers in words of their own, and Muon takes batches of matrices.
          if not any(word in entry.optimizer_error_input.desc for word in ("complex", "2D parameters"))]


def name(value):
    return getattr(value, "__name__", None) or getattr(value, "desc", None)


def test_there_are_some():
    assert {i.optim_cls.__name__ for i in INFOS} == {
        "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"}
    assert len(INPUTS) > 25 and len(ERRORS) > 15


@pytest.mark.parametrize(("theirs", "entry"), INPUTS, ids=name)
def test_inputs(theirs, entry):
    def trained(cls):
        torch.manual_seed(3)
        weight, bias = torch.nn.Parameter(torch.randn(8, 5)), torch.nn.Parameter(torch.randn(8))
        optimizer = cls([weight] if theirs.__name__ == "Muon" else [weight, bias], **entry.kwargs)  # which takes matrices
        x = torch.randn(5)
        for _ in range(10):
            optimizer.zero_grad()
            (weight.mv(x) + bias).pow(2).sum().backward()
            optimizer.step()
        return weight, bias, optimizer.state_dict()

    a, b = trained(getattr(ours, theirs.__name__)), trained(theirs)
    torch.testing.assert_close(a[:2], b[:2], atol=1e-5, rtol=1e-4)
    assert a[2]["param_groups"] == b[2]["param_groups"]
    assert {i: s.keys() for i, s in a[2]["state"].items()} == {i: s.keys() for i, s in b[2]["state"].items()}


@pytest.mark.parametrize(("theirs", "entry"), ERRORS, ids=lambda v: name(v) or name(v.optimizer_error_input))
def test_errors(theirs, entry):
    given = entry.optimizer_error_input
    params = given.params if given.params is not None else [torch.nn.Parameter(torch.ones(8))]
    said = pytest.warns if issubclass(entry.error_type, Warning) else pytest.raises
    with said(entry.error_type, match=entry.error_regex):
        optimizer = getattr(ours, theirs.__name__)(params, **given.kwargs)
        if entry.error_on.name == "STEP_ERROR":
            optimizer.step()


SCALERS = {"torch": lambda **kw: torch.amp.GradScaler("cpu", **kw), "ours": lambda **kw: ours.GradScaler("cpu", **kw),
           "deferred": lambda **kw: ours.GradScaler("cpu", defer_unscale=True, **kw),
           "deferred, exact": lambda **kw: ours.GradScaler("cpu", defer_unscale=True, exact_skips=True, **kw)}


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize("clip", [None, 0.2])
@pytest.mark.parametrize(("cls", "kw"), [
    ("SGD", {}), ("SGD", {"momentum": 0.9, "foreach": True}), ("Adam", {"fused": True}), ("Adam", {"amsgrad": True}),
    ("AdamW", {"fused": True}), ("AdamW", {"foreach": True})], ids=str)
def test_amp_scaling_case(cls, kw, clip, scaler):
    """torch's own case, one of whose steps overflows: the scaled model beside one that is not scaled."""
    torch.manual_seed(8)
    control, scaled, control_opt, scaled_opt, data, loss_fn, skip = _create_scaling_case(
        "cpu", optimizer_ctor=getattr(ours, cls), optimizer_kwargs={**kw, "lr": 0.1})
    made = SCALERS[scaler](init_scale=128.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=1)
    expected = 128.0
    for i, (x, target) in enumerate(data):
        control_opt.zero_grad()
        scaled_opt.zero_grad()
        loss_fn(control(x), target).backward()
        made.scale(loss_fn(scaled(x), target)).backward()
        if i == skip:
            scaled[1].weight.grad.data.fill_(float("inf"))
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(control.parameters(), clip)
            made.unscale_(scaled_opt)
            ours.clip_grad_norm_(scaled.parameters(), clip)
        if i != skip:
            control_opt.step()
        made.step(scaled_opt)
        made.update()
        expected *= 0.5 if i == skip else 2.0
        assert made.get_scale() == expected
    for p, q in zip(control.parameters(), scaled.parameters(), strict=True):
        torch.testing.assert_close(p, q, atol=1e-7, rtol=1e-5)
