#!/usr/bin/env python3
"""Trains a network on the digits with weights in f32, in bf16 with an f32 master, and in bf16 alone, rounded three ways.

Same seeds, same batches, same AdamW; only how the weights are kept differs. Prints losses, accuracies and bytes a
parameter, and draws the losses with --svg.
"""

from __future__ import annotations

import argparse
import csv
import math
import pathlib

import torch

import stepfuse.torch

DIGITS = pathlib.Path(__file__).resolve().parents[1] / "data" / "digits.csv"
COLORS = {"f32": "#222222", "bf16, f32 master": "#1f77b4", "bf16 nearest": "#d62728", "bf16 stochastic": "#2ca02c",
          "bf16 kahan": "#9467bd"}
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
    """Of weights and state, a parameter."""
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


def panel(runs: dict[str, dict], colors: dict[str, str], caption: str) -> list[str]:
    """Losses over epochs, on a logarithmic scale, in 760 x 420."""
    width, height, left, top = 760, 420, 70, 30
    values = [x for run in runs.values() for x in run["losses"]]
    low, high = math.floor(math.log10(min(values))), math.log10(max(values))

    def place(at: float, loss: float) -> str:
        x = left + (width - left - 180) * at
        y = top + (height - top - 50) * (high - math.log10(loss)) / (high - low)
        return f"{x:.1f},{y:.1f}"

    out = []
    for power in range(low, math.floor(high) + 1):
        y = place(0, 10.0**power).split(",")[1]
        out.append(f'<line x1="{left}" x2="{width - 180}" y1="{y}" y2="{y}" stroke="#ddd"/>'
                   f'<text x="{left - 8}" y="{y}" text-anchor="end">1e{power}</text>')
    for k, (name, run) in enumerate(runs.items()):
        points = " ".join(place(e / max(1, len(run["losses"]) - 1), x) for e, x in enumerate(run["losses"]))
        out.append(f'<polyline fill="none" stroke="{colors[name]}" stroke-width="1.6" points="{points}"/>')
        out.append(f'<text x="{width - 170}" y="{top + 20 + 22 * k}" fill="{colors[name]}">{name}, {run["bytes"]:.3g} B</text>')
    return [*out, f'<text x="{left}" y="{height - 15}">{caption}; bytes of weights and state a parameter</text>']


def svg(*panels: list[str]) -> str:
    """Panels one below the other."""
    height = 420 * len(panels)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="760" height="{height}" font-family="sans-serif" '
           f'font-size="13"><rect width="100%" height="100%" fill="white"/>']
    for k, lines in enumerate(panels):
        out += [f'<g transform="translate(0,{420 * k})">', *lines, "</g>"] if k else lines
    return "\n".join([*out, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--svg", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = {name: train(name, options.epochs, options.seed, options.lr) for name in COLORS}
    print("| weights | first loss | last loss | accuracy | bytes |\n|---|---|---|---|---|")
    for name, run in runs.items():
        print(f"| {name} | {run['losses'][0]:.4f} | {run['losses'][-1]:.5f} | {run['accuracy']:.4f} | {run['bytes']:g} |")
    if options.svg is not None:
        options.svg.write_text(svg(panel(runs, COLORS, f"training loss over {options.epochs} epochs")), encoding="utf-8")


if __name__ == "__main__":
    main()
