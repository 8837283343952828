"""What refuses a copy's scales leaves masters, copies and scales as they were."""

import pytest
import torch

import stepfuse.torch as sft
from stepfuse.torch import AdamW, stored
from copied import everything, fits, parameters, same, train


def test_schedule_free_that_is_refused_moves_nothing():
    params = parameters()
    optimizer = sft.ScheduleFreeAdamW([{"params": params[:1]}, {"params": params[1:]}], copy_scale="mx")
    train(optimizer, range(3))
    before = everything(optimizer)
    optimizer.param_groups[1]["copy_scale"] = "fp8"
    with pytest.raises(ValueError, match="fp8"):
        optimizer.eval()
    optimizer.param_groups[1]["copy_scale"] = "mx"
    assert same(everything(optimizer), before)
    optimizer.eval()
    after = everything(optimizer)
    assert not any(torch.equal(x["master"], y["master"]) for p, x, y in zip(params, before, after) if p.numel())


def test_scales_that_cannot_be_made_leave_those_that_were(monkeypatch):
    p, = parameters(shapes=((40, 64),))
    optimizer = AdamW([p], lr=0.1, copy_scale="delayed")
    train(optimizer, range(3))
    before = everything(optimizer)
    optimizer.param_groups[0]["copy_scale"] = "mx"
    with monkeypatch.context() as without, pytest.raises(MemoryError):
        without.setattr(stored, "encode", lambda *_: (_ for _ in ()).throw(MemoryError))
        optimizer.copy_scale_inv(p)
    assert same(everything(optimizer), before)
    optimizer.copy_scale_inv(p)
    assert fits(optimizer, p)
