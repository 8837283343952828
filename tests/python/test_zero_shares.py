"""ZeRO where shares are odd: ranks without one, a second optimizer over the same model, formulas over rows."""

import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from processes import good, run, run_each
from test_zero import loss_of, network
from torch import nn

import stepfuse.torch
from stepfuse.torch import LossScaler, ZeroRedundancyOptimizer
from stepfuse.torch.ranks import PIECE


def small(rank, world, more, way, folder):
    """Of a model of less than one piece only one rank has a share; a run that is resumed goes on as one that is not."""
    models = [nn.Sequential(nn.Linear(40, 5)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = []
    for model in models:
        scaler = LossScaler(init_scale=256.0) if more.get("scaler") else None
        optimizers.append(ZeroRedundancyOptimizer(model.parameters(), **{**more, "scaler": scaler}))
        if len(optimizers) == 1:
            train_small(model, optimizers[0], rank, range(2))
    first, second = optimizers
    models[1].load_state_dict(models[0].state_dict())
    if way == "whole":
        first.consolidate_state_dict()
        states = [first.state_dict() if rank == 0 else None]
        dist.broadcast_object_list(states)
        second.load_state_dict(states[0])
    else:
        dcp.save({"o": first.sharded_state_dict()}, checkpoint_id=folder)
        state = {"o": second.sharded_state_dict()}
        dcp.load(state, checkpoint_id=folder)
        second.load_sharded_state_dict(state["o"])
    if first.scaler is not None:
        second.scaler.load_state_dict(first.scaler.state_dict())
    for model, optimizer in zip(models, optimizers):
        train_small(model, optimizer, rank, range(2, 4))
    assert all(len(o._shard) == (2 if rank == 0 else 0) for o in optimizers)
    return all(torch.equal(p, q) for p, q in zip(*(m.parameters() for m in models)))


def train_small(model, optimizer, rank, steps):
    for step in steps:
        optimizer.zero_grad()
        loss = loss_of(model, step, rank)
        (loss if optimizer.scaler is None else optimizer.scale(loss)).backward()
        optimizer.step()


@pytest.mark.parametrize("way", ["whole", "sharded"])
def test_ranks_without_a_share_resume(way):
    cases = [(more, way) for exact in (False, True) for more in ({"max_norm": 0.1, "exact": exact}, {"scaler": True, "exact": exact})]
    with tempfile.TemporaryDirectory() as folder:
        results = run_each(3, small, [(*case, f"{folder}/{i}") for i, case in enumerate(cases)])
    assert all(all(each) for each in results)


def twice(rank, world):
    model = network()
    first = ZeroRedundancyOptimizer(model.parameters())
    with pytest.raises(RuntimeError, match="parameter 0 of group 0 already belongs to a different ZeroRedundancyOptimizer"):
        ZeroRedundancyOptimizer(model.parameters())
    loss_of(model, 0, rank).backward()
    first.step()
    del first
    second = ZeroRedundancyOptimizer(model.parameters())
    loss_of(model, 1, rank).backward()
    second.step()


def test_a_model_has_one_at_a_time():
    good(run(2, twice))


ROWS = """
optimizer rows "each row by its gradient's size" {
  hyper lr = 1e-2
  w = w - lr * g / (sqrt(mean(g * g, row)) + 0.01)
}
"""


def over_rows(rank, world, exact):
    cut = nn.Parameter(torch.zeros(3, 30000))
    with pytest.raises(ValueError, match="Formula has values of rows, and a row of parameter 0 of group 0, of 30000 elements, is divided between two ranks"):
        ZeroRedundancyOptimizer([cut], stepfuse.torch.Formula, formula=ROWS, max_norm=0.5, exact=exact)
    found = []
    for name in ("alone", "sharded"):
        torch.manual_seed(2)
        model = nn.Linear(PIECE, 2 * world, bias=False)  # ranks have whole rows
        more = {"formula": ROWS, "max_norm": 0.5}
        optimizer = (stepfuse.torch.Formula(model.parameters(), **more) if name == "alone" else
                     ZeroRedundancyOptimizer(model.parameters(), stepfuse.torch.Formula, exact=exact, **more))
        for i in range(3):
            model(torch.randn(4, PIECE, generator=torch.Generator().manual_seed(i))).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        found.append(model.weight.detach().clone())
    return torch.equal(*found) if exact else torch.allclose(*found)


@pytest.mark.parametrize("exact", [False, True])
def test_formulas_over_rows_step_whole_rows_and_refuse_others_on_all_ranks(exact):
    assert all(good(run(2, over_rows, exact)))
