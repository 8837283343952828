#!/usr/bin/env python3
"""Trains a network on the digits and a small GPT with moments and weights stored in fewer bytes: losses and bytes.

Seeds, batches and AdamW are the same; only the storage of weights and moments differs. With fp8 weights, the matrices
are 8-bit copies of f32 masters, and forward and backward use the copies. Prints losses and measured bytes per
parameter. --json writes them to a file, from which tools/charts.py draws the picture of the documentation.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys

import torch
from torch.nn.functional import cross_entropy
from train_gpt import BATCH, CONTEXT, TEXT, Gpt, groups
from weight_rounding import TRAIN, digits, kept_bytes, network

import stepfuse.torch

LOW, EIGHT = torch.bfloat16, torch.float8_e4m3fn
WAYS = {  # the weights' type and the optimizer's options
    "f32": (torch.float32, {}),
    "bf16 remainder": (LOW, {"master": "remainder"}),
    "bf16 ecc24": (LOW, {"master": "ecc24"}),
    "bf16 stochastic": (LOW, {"weight_rounding": "stochastic"}),
    "bf16 kahan": (LOW, {"weight_rounding": "kahan"}),
    "moments bf16": (torch.float32, {"moments": "bf16"}),
    "moments fp8": (torch.float32, {"moments": "fp8"}),
    "moments int8": (torch.float32, {"moments": "int8"}),
    "moments 8 bits": (torch.float32, {"moments": "exp_avg=dyn8,exp_avg_sq=dyn8u"}),
    "moments 4 bits": (torch.float32, {"moments": "exp_avg=dyn4,exp_avg_sq=lin4"}),
    "8 bits, stochastic": (LOW, {"moments": "exp_avg=dyn8,exp_avg_sq=dyn8u", "weight_rounding": "stochastic"}),
    "weights fp8 delayed": (EIGHT, {"copy_scale": "delayed"}),
    "weights mxfp8": (EIGHT, {"copy_scale": "mx"}),
}


def state_bytes(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> float:
    weights = list(model.parameters())
    return kept_bytes(model, optimizer) - sum(p.numel() * p.element_size() for p in weights) / sum(p.numel() for p in weights)


class LowPrecision:
    """An f32 model whose weights and moments are stored as `way` says. Call it like the model."""

    def __init__(self, way: str, model: torch.nn.Module, divided, lr: float, seed: int) -> None:
        dtype, told = WAYS[way]
        self.model = model
        self.eight = {name: p for name, p in model.named_parameters() if dtype == EIGHT and p.dim() > 1}
        self.input = torch.float32 if dtype == EIGHT else dtype
        values = {name: p.detach().clone() for name, p in self.eight.items()}
        for p in model.parameters():
            p.data = p.data.to(self.input)
        for p in self.eight.values():
            p.data = p.data.to(EIGHT)
            p.grad_dtype = torch.float32
        self.optimizer = stepfuse.torch.AdamW(divided(model), lr=lr, max_norm=1.0, seed=seed, **told)
        for name, p in self.eight.items():
            self.optimizer.set_weight(p, values[name])

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        weights = {name: self.optimizer.dequantized(p) for name, p in self.eight.items()}
        return torch.func.functional_call(self.model, weights, (x,)).float()

    def result(self, losses: list[float]) -> dict:
        return {"losses": losses, "bytes": kept_bytes(self.model, self.optimizer), "state": state_bytes(self.model, self.optimizer)}


def on_digits(way: str, epochs: int, seed: int) -> dict:
    model = LowPrecision(way, network(seed, torch.float32), lambda model: model.parameters(), 1e-3, seed)
    optimizer = model.optimizer
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda e: 0.5 + 0.5 * math.cos(math.pi * e / epochs))
    images, labels = digits()
    order = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for batch in torch.randperm(TRAIN, generator=order).split(48):
            loss = cross_entropy(model(images[batch].to(model.input)), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        schedule.step()
        losses.append(total / TRAIN)
    return model.result(losses)


def on_text(way: str, steps: int, seed: int) -> dict:
    letters = TEXT.read_text(encoding="utf-8")
    symbols = sorted(set(letters))
    text = torch.tensor([symbols.index(c) for c in letters])
    torch.manual_seed(seed)
    model = LowPrecision(way, Gpt(len(symbols)), groups, 3e-3, seed)
    optimizer = model.optimizer
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1, (i + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * i / steps)))
    draw = torch.Generator().manual_seed(seed)
    losses, recent = [], []
    for _ in range(steps):
        starts = torch.randint(len(text) - CONTEXT - 1, (2 * BATCH,), generator=draw)
        batch = torch.stack([text[s:s + CONTEXT + 1] for s in starts.tolist()])
        loss = cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        recent.append(loss.item())
        if len(recent) == 10:
            losses.append(sum(recent) / 10)
            recent = []
    return model.result(losses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=4, help="f32 runs for the range that --json writes (default 4)")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    tasks = {"digits": (on_digits, options.epochs, f"digits: training loss after {options.epochs} epochs", 0.005),
             "GPT": (on_text, options.steps, f"small GPT: training loss after {options.steps} steps", 0.01)}
    runs: dict[str, dict] = {task: {} for task in tasks}
    for task, (train, length, _, _) in tasks.items():
        for way in WAYS:
            print(f"{task}, {way} …", file=sys.stderr)
            runs[task][way] = train(way, length, options.seed)
    print("| kept | digits: last loss | state, bytes per parameter | with weights | GPT: last loss | state | with weights |\n"
          "|---|---|---|---|---|---|---|")
    for way in WAYS:
        cells = [f"{run['losses'][-1]:.4f} | {run['state']:.2f} | {run['bytes']:.2f}" for run in (runs["digits"][way], runs["GPT"][way])]
        print(f"| {way} | {' | '.join(cells)} |")
    if options.json is not None:
        found = [{"title": title, "tick": tick, "f32": f32_range(train, length, options.seeds, runs[task]["f32"]["losses"][-1]),
                  "rows": [{"name": way, "loss": round(run["losses"][-1], 4), "state": round(run["state"], 2), "bytes": round(run["bytes"], 2)}
                           for way, run in runs[task].items()]}
                 for task, (train, length, title, tick) in tasks.items()]
        command = f"samples/pytorch/moments.py --epochs {options.epochs} --steps {options.steps}, seed {options.seed}"
        options.json.write_text(json.dumps({"run": command, "seeds": f"1 to {options.seeds}", "tasks": found}, indent=1) + "\n", encoding="utf-8")


def f32_range(train, length: int, seeds: int, known: float) -> list[float]:
    """The smallest and the largest final loss of f32 over several seeds; `known` is that of the main run."""
    losses = [known, *(train("f32", length, seed)["losses"][-1] for seed in range(2, seeds + 1))]
    return [round(min(losses), 4), round(max(losses), 4)]


if __name__ == "__main__":
    main()
