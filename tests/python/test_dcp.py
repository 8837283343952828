"""torch.distributed.checkpoint's state dicts, for which a fresh optimizer is stepped with zeros."""

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

from stepfuse.torch import SGD, AdamW, LossScaler


def make(cls, **kw):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
    return model, cls(model.parameters(), **kw)


def train(model, optimizer, steps):
    for i in steps:
        torch.manual_seed(i)
        optimizer.zero_grad()
        loss = model(torch.randn(3, 8)).square().mean()
        (optimizer.scale(loss) if getattr(optimizer, "scaler", None) else loss).backward()
        optimizer.step()


@pytest.mark.parametrize(("cls", "kw"), [
    (AdamW, {"lr": 0.01}), (SGD, {"lr": 0.01, "momentum": 0.9}), (AdamW, {"lr": torch.tensor(0.01), "amsgrad": True}),
    (AdamW, {"lr": 0.01, "moments": "fp8", "moments_min": 0}),
    (AdamW, {"lr": 0.01, "max_norm": 1.0, "scaler": LossScaler(growth_interval=2)})], ids=str)
def test_goes_on_from_a_checkpoint(cls, kw):
    scaled = "scaler" in kw
    model, optimizer = make(cls, **kw)
    train(model, optimizer, range(5))
    saved = get_optimizer_state_dict(model, optimizer)
    weights, scale = model.state_dict(), optimizer.scaler.state_dict() if scaled else None

    again, fresh = make(cls, **{**kw, **({"scaler": LossScaler(growth_interval=2)} if scaled else {})})
    start = [p.detach().clone() for p in again.parameters()]
    set_optimizer_state_dict(again, fresh, saved)
    assert all(torch.equal(p, q) for p, q in zip(again.parameters(), start))
    if scaled:
        assert fresh.scaler.state_dict() == LossScaler(growth_interval=2).state_dict()
        fresh.scaler.load_state_dict(scale)
    again.load_state_dict({k: v.clone() for k, v in weights.items()})
    train(again, fresh, range(5, 9))
    train(model, optimizer, range(5, 9))
    assert all(torch.equal(p, q) for p, q in zip(again.parameters(), model.parameters()))


def test_codes_and_scales_go_through_files_to_the_bit(tmp_path):
    model, optimizer = make(AdamW, lr=0.01, moments="exp_avg=int8|exp_avg_sq=fp8", moments_min=0)
    train(model, optimizer, range(3))
    saved = get_optimizer_state_dict(model, optimizer)
    dcp.save(saved, checkpoint_id=tmp_path, no_dist=True)
    again, fresh = make(AdamW, lr=0.01, moments="exp_avg=int8|exp_avg_sq=fp8", moments_min=0)
    found = get_optimizer_state_dict(again, fresh)
    dcp.load(found, checkpoint_id=tmp_path, no_dist=True)
    set_optimizer_state_dict(again, fresh, found)
    for name, state in saved["state"].items():
        loaded = get_optimizer_state_dict(again, fresh)["state"][name]
        assert len(state) == 5 and state.keys() == loaded.keys()
        assert all(v.dtype == loaded[k].dtype and torch.equal(v.float(), loaded[k].float()) for k, v in state.items())


def test_a_fresh_state_is_torchs():
    (a, weights), (b, others) = ((get_optimizer_state_dict(model, optimizer), list(model.parameters()))
                                 for model, optimizer in (make(AdamW, lr=0.01), make(torch.optim.AdamW, lr=0.01)))
    assert a["param_groups"] == b["param_groups"]
    for name, state in b["state"].items():
        assert state.keys() == a["state"][name].keys()
        assert all(torch.equal(value, a["state"][name][key]) for key, value in state.items())
    assert all(torch.equal(p, q) for p, q in zip(weights, others))


def test_a_warm_up_from_zero_is_a_step_like_any_other():
    model, optimizer = make(AdamW, lr=0.0, scaler=LossScaler(init_scale=8.0, growth_interval=1))
    train(model, optimizer, range(1))
    assert optimizer.scaler.get_scale() == 16.0
