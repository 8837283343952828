#!/usr/bin/env python3
"""Trains a network on the digits and a small GPT with moments and weights kept in fewer bytes: losses and bytes of each.

Same seeds, same batches, same AdamW; only how weights and moments are kept differs. Prints losses and measured bytes a
parameter, and draws the losses with --svg.
"""

from __future__ import annotations

import argparse
import math
import pathlib

import torch
from torch.nn.functional import cross_entropy
from train_gpt import BATCH, CONTEXT, TEXT, Gpt, groups
from weight_rounding import TRAIN, digits, kept_bytes, network, panel, svg

import stepfuse.torch

LOW = torch.bfloat16
WAYS = {  # the weights' type, what the optimizer is told, and a colour
    "f32": (torch.float32, {}, "#222222"),
    "bf16 remainder": (LOW, {"master": "remainder"}, "#e377c2"),
    "bf16 ecc24": (LOW, {"master": "ecc24"}, "#bcbd22"),
    "bf16 stochastic": (LOW, {"weight_rounding": "stochastic"}, "#2ca02c"),
    "bf16 kahan": (LOW, {"weight_rounding": "kahan"}, "#9467bd"),
    "moments bf16": (torch.float32, {"moments": "bf16"}, "#8c564b"),
    "moments fp8": (torch.float32, {"moments": "fp8"}, "#1f77b4"),
    "moments int8": (torch.float32, {"moments": "int8"}, "#d62728"),
    "moments 8 bits": (torch.float32, {"moments": "exp_avg=dyn8|exp_avg_sq=dyn8u"}, "#ff7f0e"),
    "moments 4 bits": (torch.float32, {"moments": "exp_avg=dyn4|exp_avg_sq=lin4"}, "#7f7f7f"),
    "8 bits, stochastic": (LOW, {"moments": "exp_avg=dyn8|exp_avg_sq=dyn8u", "weight_rounding": "stochastic"}, "#17becf"),
}


def state_bytes(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> float:
    return kept_bytes(model, optimizer) - next(model.parameters()).element_size()


def optimizer_of(params, lr: float, seed: int, told: dict) -> torch.optim.Optimizer:
    return stepfuse.torch.AdamW(params, lr=lr, max_norm=1.0, seed=seed, **told)


def on_digits(way: str, epochs: int, seed: int) -> dict:
    dtype, told, _ = WAYS[way]
    model = network(seed, dtype)
    optimizer = optimizer_of(model.parameters(), 1e-3, seed, told)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: 0.5 + 0.5 * math.cos(math.pi * e / epochs))
    images, labels = digits()
    order = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for batch in torch.randperm(TRAIN, generator=order).split(48):
            loss = cross_entropy(model(images[batch].to(dtype)).float(), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        schedule.step()
        losses.append(total / TRAIN)
    return {"losses": losses, "bytes": kept_bytes(model, optimizer), "state": state_bytes(model, optimizer)}


def on_text(way: str, steps: int, seed: int) -> dict:
    dtype, told, _ = WAYS[way]
    letters = TEXT.read_text(encoding="utf-8")
    symbols = sorted(set(letters))
    text = torch.tensor([symbols.index(c) for c in letters])
    torch.manual_seed(seed)
    model = Gpt(len(symbols)).to(dtype)
    optimizer = optimizer_of(groups(model), 3e-3, seed, told)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1, (i + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * i / steps)))
    draw = torch.Generator().manual_seed(seed)
    losses, recent = [], []
    for _ in range(steps):
        starts = torch.randint(len(text) - CONTEXT - 1, (2 * BATCH,), generator=draw)
        batch = torch.stack([text[s:s + CONTEXT + 1] for s in starts.tolist()])
        loss = cross_entropy(model(batch[:, :-1]).float().flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        recent.append(loss.item())
        if len(recent) == 10:
            losses.append(sum(recent) / 10)
            recent = []
    return {"losses": losses, "bytes": kept_bytes(model, optimizer), "state": state_bytes(model, optimizer)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tasks = {"digits": (on_digits, options.epochs, f"digits: training loss over {options.epochs} epochs"),
             "GPT": (on_text, options.steps, f"small GPT: training loss over {options.steps} steps, means of 10")}
    runs = {task: {way: train(way, length, options.seed) for way in WAYS} for task, (train, length, _) in tasks.items()}
    print("| kept | digits: last loss | state, bytes a parameter | with weights | GPT: last loss | state | with weights |\n"
          "|---|---|---|---|---|---|---|")
    for way in WAYS:
        cells = [f"{run['losses'][-1]:.4f} | {run['state']:.2f} | {run['bytes']:.2f}" for run in (runs["digits"][way], runs["GPT"][way])]
        print(f"| {way} | {' | '.join(cells)} |")
    if options.svg is not None:
        colors = {way: color for way, (_, _, color) in WAYS.items()}
        options.svg.write_text(svg(*(panel(runs[task], colors, caption) for task, (_, _, caption) in tasks.items())), encoding="utf-8")


if __name__ == "__main__":
    main()
