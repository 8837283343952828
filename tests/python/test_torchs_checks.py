"""torch's own checks of distributed state dicts, which its wheel has, driven with our optimizers and with torch's."""

import copy

import pytest
import torch
from processes import good, run
from test_ddp import loss_of, network
from test_fsdp import sharded
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.nn.parallel import DistributedDataParallel

import stepfuse.torch

pytest.importorskip("expecttest", reason="torch's checks need expecttest")


def check(rank, world, ours, way, kw):
    from torch.testing._internal.common_utils import TestCase
    from torch.testing._internal.distributed.common_state_dict import VerifyStateDictMixin

    class Check(VerifyStateDictMixin, TestCase):
        pass

    cls = getattr(stepfuse.torch if ours else torch.optim, kw.pop("name"))
    alone = network()
    spread = {"DDP": lambda: DistributedDataParallel(network()), "FSDP2": sharded}[way]()
    optimizers = [cls(m.parameters(), **kw) for m in (alone, spread)]
    for model, optimizer in zip((alone, spread), optimizers):
        loss_of(model, 0, 0, False).backward()  # one batch: the same gradients
        optimizer.step()
        optimizer.zero_grad()
    check = Check()
    model_state, state = get_state_dict(spread, optimizers[1])
    check._verify_msd(alone.state_dict(), model_state)
    check._verify_osd(alone, optimizers[0], optimizers[0].state_dict(), copy.copy(state))
    again = network()
    check._verify_osd_by_load(again, optimizers[0], cls(again.parameters(), **kw), state)


@pytest.mark.parametrize("way", ["DDP", "FSDP2"])
@pytest.mark.parametrize("kw", [{"name": "AdamW", "lr": 0.01}, {"name": "Adam", "lr": 0.01, "amsgrad": True},
                                {"name": "SGD", "lr": 0.01, "momentum": 0.9}], ids=lambda kw: kw["name"])
@pytest.mark.parametrize("ours", [False, True], ids=["torch", "stepfuse"])
def test_state_dicts(ours, way, kw):
    good(run(2, check, ours, way, dict(kw)))
