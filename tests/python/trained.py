"""A parameter below f32 as backward() leaves it, and steps over gradients of a seed."""

import torch


def parameter(values, dtype=torch.bfloat16):
    p = torch.nn.Parameter(values.to(dtype))
    p.grad = torch.zeros_like(p)
    return p


def stepped(optimizer, params, steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
        optimizer.step()
