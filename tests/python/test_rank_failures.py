"""Ranks that die, hang or differ: every rank is told which one, no step is half applied, and fewer ranks can resume."""

import concurrent.futures
import datetime
import os
import re
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from processes import Died, good, run
from test_ddp import digest
from test_zero import BUCKET, groups, loss_of, network, settings

from stepfuse.torch import SGD, AdamW, LossScaler, RankError, ZeroRedundancyOptimizer

VICTIM, LAST = 2, 3  # the rank that fails, and the step in which it fails


def break_at(optimizer, place, how):
    """Makes the rank fail instead of taking part in that collective."""
    begin = optimizer._comm.begin

    def failing(what, call, *args, **kw):
        if place in what:
            how()
        return begin(what, call, *args, **kw)

    optimizer._comm.begin = failing


def die():
    os._exit(9)


def store():
    return dist.distributed_c10d._get_default_store()


def hang():
    store().wait([f"told {rank}" for rank in range(VICTIM)], datetime.timedelta(seconds=100))


def train(rank, world, place, how, exact, overlap=False):
    model = network()
    optimizer = ZeroRedundancyOptimizer(groups(model), exact=exact, bucket_bytes=BUCKET, overlap_gather=overlap, **settings(2.0))
    before = None
    try:
        for step in range(LAST + 1):
            before = digest([*model.parameters(), *(v.reshape(-1) for part, _ in optimizer._shard.values()
                                                    for v in optimizer._inner.state[part].values())])
            if step == LAST and rank == VICTIM:
                break_at(optimizer, place, how)
            optimizer.zero_grad()
            optimizer.scale(loss_of(model, step, rank)).backward()
            optimizer.step()
        loss_of(model, LAST + 1, rank)
    except RankError as error:
        store().set(f"told {rank}", "1")
        after = digest([*model.parameters(), *(v.reshape(-1) for part, _ in optimizer._shard.values()
                                               for v in optimizer._inner.state[part].values())])
        again = None
        try:
            optimizer.sharded_state_dict()
        except RankError as refused:
            again = str(refused)
        return str(error), before == after, again
    return "nothing happened", False, None


BEFORE = [("reduction of bucket 0", False), ("reduction of bucket 1", True), ("all-reduce of the norm", False), ("exchange of pieces", True)]
GATHER = "all-gather of the weights"


@pytest.fixture(scope="module")
def deaths():
    """What the ranks of each case return. They mostly wait for the dead rank to answer, so several cases run at once."""
    cases = [*BEFORE, (GATHER, False, False), (GATHER, False, True)]
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        return dict(zip(cases, pool.map(lambda case: run(4, train, case[0], die, *case[1:]), cases), strict=True))


@pytest.mark.parametrize(("place", "exact"), BEFORE)
def test_a_rank_that_dies_before_the_update_leaves_nothing_of_the_step(deaths, place, exact):
    results = deaths[place, exact]
    assert isinstance(results[VICTIM], Died) and results[VICTIM].args == (9,)
    for rank, result in enumerate(results):
        if rank != VICTIM:
            said, unchanged, refused = result
            assert f"in step {LAST}" in said and "rank 2 does not answer: dead, or stuck elsewhere" in said, said
            assert unchanged and refused is None


@pytest.mark.parametrize("overlap", [False, True])
def test_a_rank_that_dies_after_the_update_leaves_an_optimizer_that_says_so(deaths, overlap):
    results = deaths[GATHER, False, overlap]
    for rank, result in enumerate(results):
        if rank != VICTIM:
            said, _, refused = result
            assert "the all-gather of the weights failed" in said and "rank 2 does not answer" in said
            assert "make new ones, and load the last checkpoint" in refused


def test_a_rank_that_hangs_is_named_after_the_timeout():
    results = run(3, train, "all-reduce of the norm", hang, False, seconds=4.0, patience=40)
    for said, unchanged, _ in results[:VICTIM]:
        assert "rank 2 does not answer" in said and unchanged


def differ(rank, world, what):
    model = network()
    kw = {"lr": 0.01}
    if what == "layout" and rank == 1:
        model[2] = torch.nn.Linear(900, 131)
    if what == "version" and rank == 1:
        import stepfuse.torch.zero

        stepfuse.torch.zero.__version__ = "0.0.9"
    if what == "recipe" and rank == 1:
        kw["lr"] = 0.02
    optimizer = ZeroRedundancyOptimizer(model.parameters(), AdamW if what != "class" or rank != 1 else SGD, max_norm=1.0, **kw)
    if what == "step count":
        for step in range(2):
            optimizer.zero_grad()
            loss_of(model, step, rank).backward()
            optimizer.step()
        optimizer.consolidate_state_dict()
        states = [optimizer.state_dict() if rank == 0 else None]
        dist.broadcast_object_list(states)
        if rank == 1:
            for s in states[0]["state"].values():
                s["step"] += 7
        optimizer.load_state_dict(states[0])
        loss_of(model, 3, rank).backward()
        optimizer.step()


@pytest.mark.parametrize(("what", "said"), [
    ("layout", r"rank 1 has a different layout than ranks 0 and 2: parameter 2 of group 0 \(131, 900\) .* not .*\(130, 900\)"),
    ("version", r"rank 1 has a different version than ranks 0 and 2: 0\.0\.9, not 0\.1"),
    ("recipe", r"rank 1 has a different recipe than ranks 0 and 2: lr=0\.02, not lr=0\.01"),
    ("class", r"rank 1 has a different recipe than ranks 0 and 2: SGD, not AdamW"),
    ("step count", r"rank 1 has a different step count than ranks 0 and 2: 9, not 2")])
def test_ranks_that_differ_are_told_apart(what, said):
    for result in run(3, differ, what):
        assert isinstance(result, RankError) and re.search(said, str(result)), result


def group_of_differing(rank, world):
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = AdamW([p], lr=0.1, max_norm=1.0, scaler=LossScaler(init_scale=4.0 if rank else 8.0))
    optimizer.share_norm(dist.group.WORLD)
    p.grad = torch.ones(4)
    optimizer.step()


def test_ranks_of_a_group_with_other_scales_are_told_apart():
    for result in run(2, group_of_differing):
        assert isinstance(result, RankError) and re.search("a different loss scale than rank . ?: ?[48]", str(result)), result


def without_gradient(rank, world):
    model = network()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), SGD, lr=0.1)
    loss = model[2:](model[:2](torch.ones(2, 40)).detach() if rank == 1 else model[:2](torch.ones(2, 40))).sum()
    loss.backward()
    optimizer.step()


def test_a_rank_without_a_gradient_stops_all():
    first, second = run(2, without_gradient)
    assert isinstance(second, RankError) and "found no gradient of parameter" in str(second)
    assert isinstance(first, RankError) and "rank 1 stopped at a step without all gradients" in str(first)


def until_killed(rank, world, folder):
    model = network()
    optimizer = ZeroRedundancyOptimizer(groups(model), exact=True, bucket_bytes=BUCKET, **settings(2.0))
    for step in range(4):
        if step == 2:
            dcp.save({"model": model.state_dict(), "optimizer": optimizer.sharded_state_dict()}, checkpoint_id=folder)
            saved = optimizer.scaler.state_dict()
        if step == 3 and rank == VICTIM:
            os._exit(9)
        optimizer.zero_grad()
        try:
            optimizer.scale(loss_of(model, step, 0)).backward()  # the same batch on all ranks
            optimizer.step()
        except RankError:
            return saved
    return None


def elastic(rank, world, folder, scale):
    model = network()
    optimizer = ZeroRedundancyOptimizer(groups(model), exact=True, bucket_bytes=BUCKET, **settings(2.0))
    first = 0
    if folder is not None:
        state = {"model": model.state_dict(), "optimizer": optimizer.sharded_state_dict()}
        dcp.load(state, checkpoint_id=folder)
        model.load_state_dict(state["model"])
        optimizer.load_sharded_state_dict(state["optimizer"])
        optimizer.scaler.load_state_dict(scale)
        first = 2
    for step in range(first, 5):
        optimizer.zero_grad()
        optimizer.scale(loss_of(model, step, 0)).backward()
        optimizer.step()
    return digest(model.parameters())


def test_fewer_ranks_go_on_from_the_checkpoint_of_the_ranks_that_were():
    with tempfile.TemporaryDirectory() as folder:
        scale = next(r for r in run(4, until_killed, folder) if isinstance(r, dict))
        # The gradient is the same for 1, 2 and 4 ranks, so the uninterrupted run has the same bits.
        want = good(run(1, elastic, None, None))[0]
        assert good(run(2, elastic, folder, scale)) == [want] * 2
