"""torch's own OptimizerInfos (the arguments that its test suite tries), with our classes in the place of theirs."""

import pytest
import torch

pytest.importorskip("expecttest", reason="torch.testing._internal needs expecttest")
from torch.testing._internal.common_optimizers import optim_db

import stepfuse.torch as ours

INFOS = [i for i in optim_db if hasattr(ours, i.optim_cls.__name__)]
INPUTS = [(i.optim_cls, entry) for i in INFOS for entry in i.optim_inputs_func("cpu")
          if not {"capturable", "differentiable"} & {k for k, v in entry.kwargs.items() if v}]
ERRORS = [(i.optim_cls, entry) for i in INFOS for entry in i.optim_error_inputs_func("cpu", torch.float32)]


def name(value):
    return getattr(value, "__name__", None) or getattr(value, "desc", None)


def test_there_are_some():
    assert {i.optim_cls.__name__ for i in INFOS} == {"Adagrad", "Adam", "AdamW", "RMSprop", "SGD"}
    assert len(INPUTS) > 25 and len(ERRORS) > 15


@pytest.mark.parametrize(("theirs", "entry"), INPUTS, ids=name)
def test_inputs(theirs, entry):
    def trained(cls):
        torch.manual_seed(3)
        weight, bias = torch.nn.Parameter(torch.randn(8, 5)), torch.nn.Parameter(torch.randn(8))
        optimizer = cls([weight, bias], **entry.kwargs)
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
