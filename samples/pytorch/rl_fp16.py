#!/usr/bin/env python3
"""Reinforcement learning in fp16: FSDP2 shards a policy, and the optimizer's step scales its loss and skips overflows.

A policy learns to answer a sequence of digits with the sorted sequence. For each question it samples a group of answers; an
answer's reward is the share of its digits that are right, and its advantage is the reward compared with the group's (as in
GRPO). Gradients of such losses are small, and fp16 loses them unless the loss is scaled. fp16 has three more bits of
precision than bf16, so that a trainer's log probabilities stay near those of the engine that sampled the answers.

    samples/pytorch/rl_fp16.py                      # two processes with gloo, on the CPU, below a minute
    torchrun --nproc-per-node 2 samples/pytorch/rl_fp16.py

Prints the mean reward, the loss scale, skipped steps and the largest difference between the log probabilities of sampling
and of training.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import stepfuse.torch

DIGITS, LENGTH, WIDTH, GROUP = 4, 3, 64, 16


class Policy(nn.Module):
    """The log probabilities of each digit at each place of the answer."""

    def __init__(self) -> None:
        super().__init__()
        self.digits = nn.Embedding(DIGITS, WIDTH)
        self.hidden = nn.Sequential(nn.Linear(LENGTH * WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.answer = nn.Linear(WIDTH, LENGTH * DIGITS)

    def forward(self, questions: torch.Tensor) -> torch.Tensor:
        logits = self.answer(self.hidden(self.digits(questions).flatten(1)))
        return logits.unflatten(1, (LENGTH, DIGITS)).float().log_softmax(-1)


def make_policy(dtype: torch.dtype) -> Policy:
    torch.manual_seed(0)
    policy = Policy()
    precision = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    for module in (policy.hidden, policy):
        fully_shard(module, mp_policy=precision)
        module.set_force_sum_reduction_for_comms(True)  # gloo has no mean
    return policy


def log_probability(policy: Policy, questions: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    return policy(questions).gather(-1, answers.unsqueeze(-1)).squeeze(-1).sum(-1)


def sample(policy: Policy, count: int, draw: torch.Generator) -> tuple[torch.Tensor, ...]:
    """Questions, answers, their log probabilities and advantages."""
    questions = torch.randint(DIGITS, (count, LENGTH), generator=draw).repeat_interleave(GROUP, 0)
    with torch.no_grad():
        probabilities = policy(questions)
    answers = torch.multinomial(probabilities.exp().flatten(0, 1), 1, generator=draw).view(-1, LENGTH)
    rewards = (answers == questions.sort(-1).values).float().mean(-1).view(count, GROUP)
    advantages = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    old = probabilities.gather(-1, answers.unsqueeze(-1)).squeeze(-1).sum(-1)
    return questions, answers, old, advantages.flatten(), rewards.mean()


def train(rank: int, world: int, options: argparse.Namespace) -> list[dict[str, float]]:
    """Returns the reports of all steps; they are the same on all ranks."""
    torch.set_num_threads(1)
    policy = make_policy(torch.float16)
    scaler = stepfuse.torch.LossScaler(init_scale=options.init_scale, growth_interval=20)
    optimizer = stepfuse.torch.AdamW(policy.parameters(), lr=3e-3, max_norm=1.0, scaler=scaler)
    draw = torch.Generator().manual_seed(rank + 1)
    reports = []
    for step in range(options.steps):
        questions, answers, old, advantages, reward = sample(policy, options.questions, draw)
        new = log_probability(policy, questions, answers)
        ratio = (new - old).exp()
        loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        optimizer.zero_grad()
        optimizer.scale(loss).backward()
        optimizer.step()  # unscales, looks for overflows on all ranks, clips, updates and adapts the scale
        stats = optimizer.stats()
        words = torch.tensor([reward.item(), (new - old).abs().max().item()])
        dist.all_reduce(words)
        reports.append({"reward": words[0].item() / world, "difference": words[1].item() / world, "loss_scale": stats["loss_scale"],
                        "skipped": stats["skipped"]})
        if rank == 0 and (step + 1) % options.every == 0:
            last = reports[-options.every:]
            print(f"step {step + 1:4}: reward {sum(r['reward'] for r in last) / len(last):.3f}, loss scale {stats['loss_scale']:g}, "
                  f"{sum(r['skipped'] for r in reports):.0f} steps skipped, log probabilities differ by {max(r['difference'] for r in last):.1e}", flush=True)
    return reports


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--questions", type=int, default=16, help="questions per rank and step")
    parser.add_argument("--every", type=int, default=20, help="steps from one line of output to the next")
    parser.add_argument("--processes", type=int, default=2, help="without torchrun")
    parser.add_argument("--init-scale", type=float, default=2.0**24, help="the first loss scale, which overflows at first")
    return parser.parse_args(arguments)


def run(rank: int, world: int, store: str, options: argparse.Namespace) -> None:
    dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world)
    train(rank, world, options)
    dist.destroy_process_group()


def main() -> None:
    options = parse()
    if "RANK" in os.environ:  # torchrun
        dist.init_process_group("gloo")
        train(dist.get_rank(), dist.get_world_size(), options)
        dist.destroy_process_group()
        return
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run, (options.processes, os.path.join(folder, "store"), options), nprocs=options.processes)


if __name__ == "__main__":
    main()
