"""torchtitan's OptimizersContainer, schedules, clipping and checkpoints with our optimizers, under FSDP2 on gloo.

torchtitan's Trainer itself asks for an accelerator and does not start on a CPU.
"""

import os

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.fsdp import fully_shard

pytest.importorskip("torchtitan", reason="torchtitan is not installed")

import stepfuse.torch

STEPS = 4


def network():
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(8, 34), nn.Tanh(), nn.Linear(34, 6))


def sharded():
    model = network()
    for layer in (model[0], model[2]):
        fully_shard(layer)
    return fully_shard(model)


def loss_of(model, step):
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(step))
    return 10 * model(x).square().mean()


def schedules_of(container):
    from torchtitan.components.optimizer import LRSchedulersContainer

    return LRSchedulersContainer.Config(warmup_steps=2, decay_ratio=0.5).build(optimizers=container, training_steps=8)


def train(model, container, schedules, steps):
    """torchtitan's loop: clip, step, schedule."""
    from torchtitan.distributed import utils

    norms = []
    for step in steps:
        container.zero_grad()
        loss_of(model, step).backward()
        norms.append(float(utils.clip_grad_norm_(list(model.parameters()), 0.5, foreach=True)))
        container.step()
        schedules.step()
    return norms


def full(model):
    return [p.full_tensor().detach() for p in model.parameters()]


def trained(clip, steps=STEPS, **kw):
    from stepfuse.torch.torchtitan import default_adamw

    model = sharded()
    container = default_adamw(lr=0.01, clip_in_step=clip, **kw).build(model_parts=[model])
    schedules = schedules_of(container)
    return model, container, schedules, train(model, container, schedules, range(steps))


def check(rank, world, store, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    from stepfuse.torch.torchtitan import OptimizersContainer
    from torchtitan.components import optimizer as titan

    reference = sharded()
    theirs = titan.default_adamw(lr=0.01).build(model_parts=[reference])
    expected = train(reference, theirs, schedules_of(theirs), range(STEPS))
    for clip in (False, True):
        model, container, schedules, norms = trained(clip)
        assert type(container) is OptimizersContainer and type(container.optimizers[0]) is stepfuse.torch.AdamW
        assert norms == pytest.approx(expected, rel=1e-5)
        for p, q in zip(full(model), full(reference)):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-7)
        assert container.optimizers[0].param_groups[0]["lr"] == theirs.optimizers[0].param_groups[0]["lr"]

    dcp.save({"model": model.state_dict(), "optimizer": container.state_dict(), "schedule": schedules.state_dict()},
             checkpoint_id=folder)
    again, other, plan, _ = trained(True, steps=0)
    state = {"model": again.state_dict(), "optimizer": other.state_dict(), "schedule": plan.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    again.load_state_dict(state["model"])
    other.load_state_dict(state["optimizer"])
    plan.load_state_dict(state["schedule"])
    for m, c, s in ((model, container, schedules), (again, other, plan)):
        train(m, c, s, range(STEPS, STEPS + 3))
    assert all(torch.equal(p, q) for p, q in zip(full(model), full(again)))
    dist.barrier()
    os._exit(0)


@pytest.mark.parametrize("world", [1, 2])
def test_the_container_trains_as_torchtitans(world, tmp_path):
    torch.multiprocessing.spawn(check, (world, str(tmp_path / "store"), str(tmp_path / "saved")), nprocs=world)


def test_groups_may_have_optimizers_of_their_own():
    from stepfuse.torch.torchtitan import OptimizersContainer
    from torchtitan.components.optimizer import ParamGroupConfig

    model = network()
    groups = [ParamGroupConfig(pattern="bias", optimizer_name="AdamW", optimizer_kwargs={"lr": 0.01}),
              ParamGroupConfig(pattern="weight", optimizer_name="Lion", optimizer_kwargs={"lr": 0.01, "moments": "bf16"})]
    container = OptimizersContainer.Config(param_groups=groups).build(model_parts=[model])
    assert [type(o) for o in container] == [stepfuse.torch.AdamW, stepfuse.torch.Lion]
    loss_of(model, 0).backward()
    container.step()
    with pytest.raises(ValueError, match="clip_in_step=True: expected one optimizer of stepfuse.torch for all parameters; got AdamW, Lion"):
        OptimizersContainer.Config(param_groups=groups, clip_in_step=True).build(model_parts=[model])
    with pytest.raises(NotImplementedError, match="Optimizer NoSuch not added"):
        OptimizersContainer.Config(param_groups=[ParamGroupConfig(pattern=".*", optimizer_name="NoSuch")]).build(model_parts=[model])
