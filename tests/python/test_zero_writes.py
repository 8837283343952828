"""What becomes of the model's weights between two steps of ZeroRedundancyOptimizer: each rank's share follows them."""

import copy

import pytest
import torch
from processes import good, run, run_each
from test_zero import BUCKET, loss_of, network

from stepfuse.torch import AdamW, ZeroRedundancyOptimizer


def roll_back(model, best):
    model.load_state_dict(best)


def replace(model, best):
    for name, p in model.named_parameters():
        p.data = best[name].clone()


def through_f64(model, _):
    dtype = next(model.parameters()).dtype
    model.double()
    with torch.no_grad():
        model[0].weight.mul_(2)
    model.to(dtype)


def by_columns(model, _):
    model[0].weight.data = (model[0].weight.data * 2).t().contiguous().t()


def nothing(model, _):
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(p.clone())


def whole(model, optimizer, world, step, dtype):
    if isinstance(optimizer, ZeroRedundancyOptimizer):
        loss_of(model, step, 0).backward()  # alike on all ranks: sums are exact
        optimizer.step()
    else:
        optimizer.zero_grad()
        loss_of(model, step, 0).backward()
        optimizer.step()


def trained(rank, world, change, dtype, overlap):
    models = [network(dtype), network(dtype)]
    zero = ZeroRedundancyOptimizer(models[0].parameters(), AdamW, lr=0.01, bucket_bytes=BUCKET, overlap_gather=overlap, ema_decay=0.5)
    plain = AdamW(models[1].parameters(), lr=0.01, ema_decay=0.5)
    best = None
    for step in range(6):
        for model, optimizer in zip(models, (zero, plain)):
            whole(model, optimizer, world, step, dtype)
        zero.wait()
        if step == 1:
            best = copy.deepcopy(models[1].state_dict())
        if step in (3, 4):
            for model in models:
                change(model, best)
            if step == 4:
                for optimizer in (zero, plain):
                    with optimizer.averaged():
                        pass
                zero.wait()
    assert all(p.data_ptr() == home.data_ptr() for bucket in zero._buckets for p, home in zip(bucket.params, bucket.homes))
    return all(torch.equal(p, q) for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True))


@pytest.mark.parametrize("world", [1, 2])
def test_is_what_one_process_makes_of_it(world):
    cases = [(change, dtype, change is replace) for dtype in (torch.float32, torch.bfloat16)
             for change in (roll_back, replace, through_f64, by_columns, nothing)]
    for case, results in zip(cases, run_each(world, trained, cases)):
        assert all(results), case


def another_type(rank, world):
    model = network()
    optimizer = ZeroRedundancyOptimizer(model.named_parameters(), AdamW, lr=0.01)
    loss_of(model, 0, rank).backward()
    optimizer.step()
    model.bfloat16()
    loss_of(model, 1, rank).backward()
    for _ in range(2):
        with pytest.raises(TypeError, match=r"0\.weight is torch\.bfloat16 of shape \(900, 40\) on cpu, but was torch\.float32 .* make a new optimizer"):
            optimizer.step()


def test_another_type_is_refused_by_name():
    good(run(1, another_type))


def after_a_load(rank, world):
    """The head's weights are set after both checkpoints, and a master of its own replaces a checkpoint's rounding."""
    same = []
    for source, kw in (({}, {}), ({"weight_rounding": "stochastic"}, {"master": "remainder"})):
        first = network(torch.bfloat16)
        saved = AdamW(first.parameters(), lr=0.01, **source)
        whole(first, saved, world, 0, torch.bfloat16)
        models = [network(torch.bfloat16), network(torch.bfloat16)]
        optimizers = (ZeroRedundancyOptimizer(models[0].parameters(), AdamW, lr=0.01, bucket_bytes=BUCKET, **kw),
                      AdamW(models[1].parameters(), lr=0.01, **kw))
        for model, optimizer in zip(models, optimizers):
            model.load_state_dict(first.state_dict())
            optimizer.load_state_dict(copy.deepcopy(saved.state_dict()))
            torch.nn.init.zeros_(model[0].weight)
            whole(model, optimizer, world, 1, torch.bfloat16)
        optimizers[0].wait()
        same += [torch.equal(p, q) for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True)]
        same.append(float(models[1][0].weight.abs().max()) < 0.02)
    return all(same)


@pytest.mark.parametrize("world", [1, 2])
def test_after_a_load(world):
    assert all(good(run(world, after_a_load)))
