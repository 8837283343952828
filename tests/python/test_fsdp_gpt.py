"""The sample's GPT under FSDP2 with moments in 8 bits, clipping and overflows: on four ranks the bits of one process with plain
tensors, and on two and three ranks the same bits after a checkpoint.

A long run (STEPFUSE_LONG=1) has 300 steps. Rank 0 has the batch and the others have its loss times 0, so that gradients summed
over ranks have one process's bits.
"""

import importlib.util
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from processes import good, run
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from stepfuse.torch import AdamW, LossScaler

LONG = os.environ.get("STEPFUSE_LONG") == "1"
# Steps, those before the checkpoint, and those whose loss overflows.
STEPS, HALF, BAD = (300, 150, (4, 5, 15, 20, 120, 151, 152, 260)) if LONG else (24, 12, (4, 5, 15, 20))
SYMBOLS = 40
PATIENCE = 1200 if LONG else 120  # seconds


def sample():
    where = pathlib.Path(__file__).parents[2] / "samples/pytorch/train_gpt.py"
    spec = importlib.util.spec_from_file_location("train_gpt", where)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.WIDTH, module.CONTEXT, module.LAYERS = 256, 8, 1  # rows of whole blocks
    return module


class Training:
    def __init__(self, shard):
        gpt = sample()
        torch.manual_seed(1)
        self.model = gpt.Gpt(SYMBOLS)
        self.shard = shard
        if shard:
            for block in self.model.blocks:
                fully_shard(block)
            fully_shard(self.model)
            for module in (*self.model.blocks, self.model):
                module.set_force_sum_reduction_for_comms(True)  # gloo has no other
                module.set_gradient_divide_factor(1.0)
        self.scaler = LossScaler(init_scale=1024.0, growth_interval=5)
        self.optimizer = AdamW(gpt.groups(self.model), lr=3e-3, moments="dyn8", max_norm=0.5, exact=True, scaler=self.scaler)
        self.context = gpt.CONTEXT
        self.seen = []

    def train(self, steps):
        for step in steps:
            draw = torch.Generator().manual_seed(step)
            text = torch.randint(SYMBOLS, (2, self.context + 1), generator=draw)
            loss = nn.functional.cross_entropy(self.model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
            if step in BAD:
                loss = loss * float("inf")
            if self.shard and dist.get_rank() > 0:
                loss = loss.nan_to_num(0.0, 0.0, 0.0) * 0.0
            self.optimizer.zero_grad()
            self.optimizer.scale(loss).backward()
            self.optimizer.step()
            stats = self.optimizer.stats()
            self.seen.append((repr(stats["grad_norm"]), stats["skipped"], stats["loss_scale"]))

    def weights(self):
        return [(p.full_tensor() if isinstance(p, DTensor) else p).detach().clone() for p in self.model.parameters()]

    def forms(self):
        """How many parameters have moments in 8 bits."""
        return sum(any(".dyn8." in name for name in state) for state in self.optimizer.state.values())


def whole(rank, world, folder):
    training = Training(True)
    training.train(range(HALF))
    state = {"model": training.model.state_dict(), "optimizer": get_optimizer_state_dict(training.model, training.optimizer),
             "scaler": training.scaler.state_dict()}
    dcp.save(state, checkpoint_id=folder)
    training.train(range(HALF, STEPS))
    return training.weights(), training.seen, training.forms()


def resumed(rank, world, folder):
    training = Training(True)
    state = {"model": training.model.state_dict(), "optimizer": get_optimizer_state_dict(training.model, training.optimizer),
             "scaler": training.scaler.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    training.model.load_state_dict(state["model"])
    set_optimizer_state_dict(training.model, training.optimizer, state["optimizer"])
    training.scaler.load_state_dict(state["scaler"])
    training.train(range(HALF, STEPS))
    return training.weights(), training.seen


def test_four_ranks_have_the_bits_of_one_process_and_go_on_as_two_and_three():
    alone = Training(False)
    alone.train(range(STEPS))
    assert alone.forms() == 6 and [i for i, (_, skipped, _) in enumerate(alone.seen) if skipped] == list(BAD)
    with tempfile.TemporaryDirectory() as folder:
        for weights, seen, forms in good(run(4, whole, folder, patience=PATIENCE)):
            assert forms == alone.forms() and seen == alone.seen
            assert all(torch.equal(p, q) for p, q in zip(weights, alone.weights(), strict=True))
        for world in (2, 3):
            for weights, seen in good(run(world, resumed, folder, patience=PATIENCE)):
                assert seen == alone.seen[HALF:]
                assert all(torch.equal(p, q) for p, q in zip(weights, alone.weights(), strict=True))
