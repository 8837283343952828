#!/usr/bin/env python3
"""Trains a network on the digits with weights in f32, in bf16 with an f32 master, and in bf16 alone, rounded three ways.

Seeds, batches and AdamW are the same; only the storage of the weights differs. Prints losses, accuracies and bytes per
parameter. --json writes them to a file, from which tools/charts.py draws the picture of the documentation.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import pathlib

import torch

import stepfuse.torch

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "data" / "digits.csv"
WAYS = ("f32", "bf16, f32 master", "bf16 nearest", "bf16 stochastic", "bf16 kahan")
TRAIN = 1437


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    with open(DIGITS, newline="", encoding="utf-8") as file:
        rows = torch.tensor([[int(x) for x in row] for row in csv.reader(file)])
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    return rows[:, :64] / 16.0, rows[:, 64]


def network(seed: int, dtype: torch.dtype) -> torch.nn.Module:
    torch.manual_seed(seed)
    layers = [layer for a, b in ((64, 128), (128, 128)) for layer in (torch.nn.Linear(a, b), torch.nn.Tanh())]
    return torch.nn.Sequential(*layers, torch.nn.Linear(128, 10)).to(dtype)


def kept_bytes(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> float:
    """Bytes of weights and state per parameter."""
    count = sum(p.numel() for p in model.parameters())
    arrays = [a for p in model.parameters() for a in (p, *optimizer.state[p].values()) if a.dim() > 0]
    return sum(a.numel() * a.element_size() for a in arrays) / count


def train(name: str, epochs: int, seed: int, lr: float) -> dict:
    dtype = torch.float32 if name == "f32" else torch.bfloat16
    rounding = name.removeprefix("bf16 ") if name.startswith("bf16 ") else None
    model = network(seed, dtype)
    optimizer = stepfuse.torch.AdamW(model.parameters(), lr=lr, weight_decay=0.01, weight_rounding=rounding, seed=seed)
    images, labels = digits()
    order = torch.Generator().manual_seed(seed)
    losses = []
    for epoch in range(epochs):
        total = 0.0
        for batch in torch.randperm(TRAIN, generator=order).split(48):
            loss = torch.nn.functional.cross_entropy(model(images[batch].to(dtype)).float(), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        for group in optimizer.param_groups:
            group["lr"] = lr * (0.5 + 0.5 * math.cos(math.pi * (epoch + 1) / epochs))
        losses.append(total / TRAIN)
    with torch.no_grad():
        right = (model(images[TRAIN:].to(dtype)).argmax(1) == labels[TRAIN:]).float().mean().item()
    return {"losses": losses, "accuracy": right, "bytes": kept_bytes(model, optimizer)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = {name: train(name, options.epochs, options.seed, options.lr) for name in WAYS}
    print("| weights | first loss | last loss | accuracy | bytes |\n|---|---|---|---|---|")
    for name, run in runs.items():
        print(f"| {name} | {run['losses'][0]:.4f} | {run['losses'][-1]:.5f} | {run['accuracy']:.4f} | {run['bytes']:g} |")
    if options.json is not None:
        found = [{"name": name, "bytes": run["bytes"], "losses": [float(f"{x:.3g}") for x in run["losses"]]} for name, run in runs.items()]
        rows = ",\n".join(" " + json.dumps(row) for row in found)
        options.json.write_text(f'{{"run": "samples/pytorch/weight_rounding.py, the digits, seed {options.seed}", "runs": [\n{rows}\n]}}\n',
                                encoding="utf-8")


if __name__ == "__main__":
    main()
