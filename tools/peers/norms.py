"""The step's own norm, and torch's, against float64; and what the difference does to the parameters."""

import math

import torch

import compare
from bridge import Scaler, Step


def ulp_distance(norm, exact):
    """|norm - exact| in units of the last place of `exact` rounded to f32."""
    e = torch.tensor(exact, dtype=torch.float32)
    ulp = float(torch.nextafter(e, torch.tensor(math.inf))) - float(e)
    return abs(float(norm) - exact) / ulp


def inputs_of(kind, sizes, seed):
    generator = torch.Generator().manual_seed(seed)
    for n in sizes:
        x = torch.randn(n, generator=generator)
        if kind == "heavy-tailed":
            x = x * torch.exp(3 * torch.randn(n, generator=generator))
        elif kind == "tiny":
            x = x * 1e-15
        yield x


def distance(kind, sizes, seed, backend, norm_type="l2"):
    grads = list(inputs_of(kind, sizes, seed))
    step = Step("sgd", f"clip={norm_type}", backend, Scaler())
    step.bind([0] * len(grads), weight=[torch.zeros_like(g) for g in grads])
    step.run(grads)
    p = {"l2": 2.0, "l1": 1.0, "inf": math.inf}[norm_type]
    exact = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g.double(), p) for g in grads]), p))
    torchs = torch.nn.utils.get_total_norm(grads, p)
    return ulp_distance(step.state("grad_norm"), exact), ulp_distance(torchs, exact)


def effect(case, steps, backend):
    """Parameters after `steps` clipped steps, each side with its own norm."""
    return compare.run(case, "fused", steps=steps, own_norm=True, backend=backend)
