#!/usr/bin/env python3
"""Trains a small GPT on a text with stepfuse.torch.AdamW, alone or next to the classic loop. Knows torch and the package.

    train_gpt.py [--steps 200] [--dtype bf16|f16|f32] [--device cpu]
    train_gpt.py --compare             also runs the classic loop with the same seed: losses and step times of both
    train_gpt.py --save FILE --stop 100, then --resume FILE: bit-identical losses
    train_gpt.py --log FOLDER          loss, learning rate, gradient norm, loss scale and skips for TensorBoard

f16 on the CPU is autocast's: slow, but losses are scaled, and steps that overflow are skipped.
"""

import argparse
import contextlib
import math
import pathlib
import statistics
import time

import torch
from torch import nn

import stepfuse.torch

TEXT = pathlib.Path(__file__).resolve().parents[1] / "data" / "harbour.txt"
CONTEXT, WIDTH, HEADS, LAYERS, BATCH, MICRO = 32, 64, 4, 2, 8, 2
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
RATE, DECAY, MAX_NORM = 3e-3, 0.1, 1.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.between = nn.LayerNorm(WIDTH)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, dim=2))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(nn.functional.gelu(self.wide(self.between(x))))


class Gpt(nn.Module):
    def __init__(self, symbols):
        super().__init__()
        self.symbol = nn.Embedding(symbols, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.last = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, symbols)

    def forward(self, symbols):
        x = self.symbol(symbols) + self.place(torch.arange(symbols.shape[1], device=symbols.device))
        return self.head(self.last(self.blocks(x)))


def groups(model):
    """Weight decay for matrices, none for vectors."""
    params = list(model.parameters())
    return [{"params": [p for p in params if p.dim() > 1], "weight_decay": DECAY},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}]


class Ours:
    """One launch unscales, clips, updates the weights and updates the scale."""

    name = "stepfuse"

    def __init__(self, model, scaled):
        self.scaler = stepfuse.torch.LossScaler() if scaled else None
        self.optimizer = stepfuse.torch.AdamW(groups(model), lr=RATE, fused=True, max_norm=MAX_NORM, scaler=self.scaler)

    def scale(self, loss):
        return loss if self.scaler is None else self.optimizer.scale(loss)

    def step(self):
        self.optimizer.step()


class Classic:
    """GradScaler, clip_grad_norm_ and torch's fused AdamW."""

    name = "classic"

    def __init__(self, model, scaled):
        self.params = list(model.parameters())
        self.scaler = torch.amp.GradScaler(self.params[0].device.type, enabled=scaled)
        self.optimizer = torch.optim.AdamW(groups(model), lr=RATE, fused=True)

    def scale(self, loss):
        return self.scaler.scale(loss)

    def step(self):
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.params, MAX_NORM)
        self.scaler.step(self.optimizer)
        self.scaler.update()


class Events:
    """Writes the newest finished step's numbers to TensorBoard, without waiting for the current one."""

    def __init__(self, folder, done):
        from torch.utils.tensorboard import SummaryWriter  # needs the package tensorboard

        self.writer = SummaryWriter(folder, purge_step=done or None)

    def add(self, training):
        i = len(training.losses) - 1
        values = {"loss": training.losses[-1], "rate": training.schedule.get_last_lr()[0],
                  **(training.way.optimizer.stats(wait=False) or {})}
        for name in ("loss", "rate", "grad_norm", "loss_scale", "skipped"):
            if name in values:
                self.writer.add_scalar(f"train/{name}", values[name], i)

    def close(self):
        self.writer.close()


class Training:
    def __init__(self, kind, options, symbols):
        torch.manual_seed(options.seed)
        self.options = options
        self.model = Gpt(symbols).to(options.device)
        self.way = kind(self.model, options.dtype == "f16")
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.way.optimizer, lambda i: min(1, (i + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * i / options.steps)))
        self.losses = []
        self.seconds = []

    def autocast(self):
        if self.options.dtype == "f32":
            return contextlib.nullcontext()
        return torch.autocast(self.options.device, DTYPES[self.options.dtype])

    def step(self, text):
        draw = torch.Generator().manual_seed(self.options.seed + len(self.losses))
        self.way.optimizer.zero_grad()
        total = 0.0
        for _ in range(MICRO):
            starts = torch.randint(len(text) - CONTEXT - 1, (BATCH,), generator=draw)
            batch = torch.stack([text[s:s + CONTEXT + 1] for s in starts.tolist()]).to(self.options.device)
            with self.autocast():
                logits = self.model(batch[:, :-1])
            loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten()) / MICRO
            self.way.scale(loss).backward()
            total += loss.item()
        began = time.perf_counter()
        self.way.step()
        self.seconds.append(time.perf_counter() - began)
        self.schedule.step()
        self.losses.append(total)

    def state(self):
        scaler = self.way.scaler
        return {"model": self.model.state_dict(), "optimizer": self.way.optimizer.state_dict(),
                "scaler": scaler.state_dict() if scaler else {}, "schedule": self.schedule.state_dict(),
                "losses": self.losses}

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.way.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:
            self.way.scaler.load_state_dict(state["scaler"])
        self.schedule.load_state_dict(state["schedule"])
        self.losses = state["losses"]


def picture(trainings, path):
    width, height, top = 640, 320, max(max(t.losses) for t in trainings)
    lines = []
    for training, colour in zip(trainings, ("#1f77b4", "#d62728")):
        points = " ".join(f"{40 + i * (width - 60) / len(training.losses):.1f},{height - 30 - loss / top * (height - 60):.1f}"
                          for i, loss in enumerate(training.losses))
        y = 24 + 18 * len(lines)
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
                     f'<text x="{width - 120}" y="{y}" fill="{colour}">{training.way.name}</text>')
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
                    f'font-size="13"><rect width="100%" height="100%" fill="white"/><text x="40" y="24">loss, '
                    f'{len(trainings[0].losses)} steps</text>{"".join(lines)}</svg>\n', encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--stop", type=int, help="number of steps after which to stop")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--resume", type=pathlib.Path)
    parser.add_argument("--log", type=pathlib.Path)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--svg", type=pathlib.Path, default=pathlib.Path("train_gpt.svg"))
    options = parser.parse_args()
    if options.compare and options.resume:
        parser.error("--compare begins both from one seed: leave out --resume")

    letters = TEXT.read_text(encoding="utf-8")
    symbols = sorted(set(letters))
    text = torch.tensor([symbols.index(c) for c in letters])
    trainings = [Training(kind, options, len(symbols)) for kind in ([Ours, Classic] if options.compare else [Ours])]
    if options.resume:
        trainings[0].load(torch.load(options.resume, weights_only=True))
    events = Events(options.log, len(trainings[0].losses)) if options.log else None
    for i in range(len(trainings[0].losses), options.stop or options.steps):
        for training in trainings:
            training.step(text)
        if events:
            events.add(trainings[0])
        if i % 20 == 0 or i + 1 == options.steps:
            print(f"{i:4d}  " + "  ".join(f"{t.way.name} {t.losses[-1]!r}" for t in trainings), flush=True)
    if events:
        events.close()
    if options.save:
        torch.save(trainings[0].state(), options.save)
    if options.compare:
        picture(trainings, options.svg)
        print("\n| | last loss | step, median ms |\n|---|---|---|\n" + "\n".join(
            f"| {t.way.name} | {t.losses[-1]:.4f} | {1e3 * statistics.median(t.seconds):.3f} |" for t in trainings))


if __name__ == "__main__":
    main()
