#!/usr/bin/env python3
"""Trains the small GPT of train_gpt.py with its matrix products in bf16, MXFP8 and NVFP4, and compares the losses.

The products are emulated: their operands are quantized and multiplied in f32, so the numbers are those of low-bit matrix
units and the times are not. Weights come from the optimizer's step, which writes each weight's copy and the transpose of
that copy. A forward product reads the one, and the product for the gradient of the input reads the other. Activations
and gradients are quantized along the dimension that is summed. The gradient of the weight is a product in bf16.
Embeddings, norms and the head stay in f32. --json writes the losses, from which tools/charts.py draws the picture of the
documentation.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib

import torch
from torch import Tensor, nn
from train_gpt import BATCH, CONTEXT, DECAY, MAX_NORM, RATE, TEXT, Gpt

import stepfuse.torch

# Per way: elements that share a scale, the largest code, and copy_scale= of the optimizer.
WAYS = {"bf16": (0, 0.0, None), "mxfp8": (32, 448.0, "mxfp8-rceil"), "nvfp4": (16, 6.0, "nvfp4")}
FOURS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
BOUNDS = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5])  # between these values


def in_blocks(x: Tensor, way: str) -> Tensor:
    """Quantizes rows with a scale per block, and returns the values. f32 scales in two levels for NVFP4, powers of two for MXFP8."""
    if way == "bf16":
        return x.bfloat16().float()
    block, largest, _ = WAYS[way]
    blocks = x.float().unflatten(-1, (-1, block))
    most = blocks.abs().amax(-1, keepdim=True)
    if way == "mxfp8":
        scale = torch.exp2(torch.ceil(torch.log2((most / largest).clamp(min=2.0**-126))))
        return ((blocks / scale).clamp(-largest, largest).to(torch.float8_e4m3fn).float() * scale).flatten(-2)
    whole = (blocks.abs().max() / (448 * largest)).clamp(min=1e-30)
    scale = (most / largest / whole).clamp(2.0**-6, 448).to(torch.float8_e4m3fn).float() * whole
    code = torch.bucketize((blocks / scale).abs(), BOUNDS)
    return (FOURS[code].copysign(blocks) * scale).flatten(-2)


class Product(torch.autograd.Function):
    """x times the transpose of a weight, whose f32 values only get the gradient."""

    @staticmethod
    def forward(ctx, x, weight, values, turned, way):
        ctx.save_for_backward(x, turned)
        ctx.way = way
        return in_blocks(x, way) @ values.t()

    @staticmethod
    def backward(ctx, grad):
        x, turned = ctx.saved_tensors
        rows, columns = (t.flatten(0, -2).bfloat16().float() for t in (grad, x))
        return in_blocks(grad, ctx.way) @ turned.t(), rows.t() @ columns, None, None, None


class Linear(nn.Module):
    """A linear layer whose products are those of a way. In MXFP8 the parameter is the copy itself, and its master is state."""

    def __init__(self, like: nn.Linear, way: str) -> None:
        super().__init__()
        self.weight, self.bias, self.way, self.start = like.weight, like.bias, way, like.weight.detach().clone()
        if way == "mxfp8":
            self.weight = nn.Parameter(self.start.to(torch.float8_e4m3fn))
            self.weight.grad_dtype = torch.float32
        self.optimizer: stepfuse.torch.AdamW | None = None

    def copies(self) -> tuple[Tensor, Tensor]:
        """The values that the copy of the weight has, and those of its transpose."""
        if self.way == "bf16":
            return self.weight.detach().bfloat16().float(), self.weight.detach().t().bfloat16().float()
        plain, turned = (self.optimizer.quantized(self.weight, plain=True, transposed=t) for t in (False, True))
        return values_of(*plain), values_of(*turned)

    def forward(self, x: Tensor) -> Tensor:
        return Product.apply(x, self.weight, *self.copies(), self.way) + self.bias


def values_of(codes: Tensor, scales: Tensor, tensor_scale: Tensor | None) -> Tensor:
    """The values of a copy: what a matrix unit multiplies."""
    if tensor_scale is None:
        return codes.float() * scales.float().repeat_interleave(32, 1)
    each = torch.stack((codes & 15, codes >> 4), -1).flatten(-2).long()
    values = FOURS[each & 7] * torch.where(each > 7, -1.0, 1.0)
    return values * (scales.float() * tensor_scale).repeat_interleave(16, 1)


def train(way: str, steps: int, seed: int) -> list[float]:
    text = torch.tensor(list(TEXT.read_bytes()))
    torch.manual_seed(seed)
    model = Gpt(256)
    for block in model.blocks:
        for name in ("qkv", "out", "wide", "narrow"):
            setattr(block, name, Linear(getattr(block, name), way))
    layers = [m for m in model.modules() if isinstance(m, Linear)]
    matrices = [layer.weight for layer in layers]
    copied = {} if way == "bf16" else {"copy_scale": WAYS[way][2], "orientation": "both"}
    others = [p for p in model.parameters() if all(p is not m for m in matrices)]
    groups = [{"params": matrices, "weight_decay": DECAY, **copied},
              {"params": [p for p in others if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in others if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = stepfuse.torch.AdamW(groups, lr=RATE, max_norm=MAX_NORM)
    for layer in layers:
        layer.optimizer = optimizer
        if way == "mxfp8":
            optimizer.set_weight(layer.weight, layer.start)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1, (i + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * i / steps)))
    losses = []
    for step in range(steps):
        draw = torch.Generator().manual_seed(seed + step)
        starts = torch.randint(len(text) - CONTEXT - 1, (2 * BATCH,), generator=draw)
        batch = torch.stack([text[s:s + CONTEXT + 1] for s in starts.tolist()])
        loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = []
    print("| products | first loss | loss of the last 50 steps |\n|---|---|---|", flush=True)
    for way in WAYS:
        losses = train(way, options.steps, options.seed)
        last = losses[-50:]
        runs.append({"name": way, "losses": [round(x, 4) for x in losses]})
        print(f"| {way} | {losses[0]:.3f} | {sum(last) / len(last):.3f} |", flush=True)
    if options.json:
        run = f"samples/pytorch/low_bit_products.py --steps {options.steps}, seed {options.seed}"
        rows = ",\n".join(" " + json.dumps(r) for r in runs)
        options.json.write_text(f'{{"run": {json.dumps(run)}, "runs": [\n{rows}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
