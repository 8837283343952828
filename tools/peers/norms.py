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


def bound(sizes, norm_type):
    """Proved in docs/parity.md: the distance in units of the last place, squares neither under- nor overflowing."""
    if norm_type == "inf":
        return 0.0
    counts = [sum(-(-n // PIECE) for n in sizes)]  # of what each level folds: pieces, then pieces of those
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // PIECE))
    members = [max(min(n, PIECE) for n in sizes)] + [min(c, PIECE) for c in counts[:-1]]
    roundings = sum(-(-m // LANES) - 1 + 11 for m in members)  # a lane's sum, whose first is exact, then the fold
    return roundings * 1.01 if norm_type == "l1" else ((roundings + 1) / 2 + 1) * 1.01


PIECE, LANES = 16384, 2048


def inputs_of(kind, sizes, seed):
    if kind == "all small but the first":  # every sum of a lane loses what comes after its first element
        for n in sizes:
            x = torch.full((n,), 0.999 * 2**-12)
            x[:LANES] = 1
            yield x
        return
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


def of(gradients, backend, norm_type="l2"):
    """Our own norm, and the coefficient for max_norm 1, of one tensor."""
    step = Step("sgd", f"clip={norm_type}", backend, Scaler())
    step.bind([0], weight=[torch.zeros_like(gradients)])
    step.run([gradients])
    return step.state("grad_norm"), step.state("clip_coef")


def extremes(backend):
    """Gradients whose squares f32 does not hold: ours, torch's."""
    rows = []
    for words, g in (("1,000 of 1e-30", torch.full((1000,), 1e-30)), ("1,000 of 1e-20", torch.full((1000,), 1e-20)),
                     ("1,000 of 1e-18", torch.full((1000,), 1e-18)), ("one of 2e19", torch.tensor([2e19])),
                     ("two of 2e19", torch.tensor([2e19, 2e19]))):
        ours, coefficient = of(g, backend)
        rows.append([words, f"{float(torch.linalg.vector_norm(g.double())):.4g}", f"{ours:.4g}", f"{coefficient:g}",
                     f"{float(torch.nn.utils.get_total_norm([g])):.4g}"])
    return rows


def rounded_16(dtype, backend, seed=1):
    """torch's norm of 16-bit gradients, which it rounds to 16 bits, and its coefficient; ours of the same, in f32."""
    generator = torch.Generator().manual_seed(seed)
    grads = [torch.randn(n, generator=generator).to(dtype) for n in (1000, 3000)]
    parameters = [torch.nn.Parameter(torch.zeros_like(g)) for g in grads]
    for p, g in zip(parameters, grads):
        p.grad = g.clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    name = "bf16" if dtype == torch.bfloat16 else "f16"
    step = Step("sgd", f"grad={name} clip round-grad", backend, Scaler(), grad=dtype)
    step.bind([0, 0], weight=[torch.zeros(g.numel()) for g in grads])
    step.set(lr=-1)
    step.run(grads)
    differing = sum(int((w.to(dtype) != p.grad).sum()) for w, p in zip(step.buffers["weight"], parameters))
    return [name, f"{float(norm):g}", f"{step.state('grad_norm'):g}", f"{differing:,} of {sum(g.numel() for g in grads):,}"]


def effect(case, steps, backend):
    """Parameters after `steps` clipped steps, each side with its own norm."""
    return compare.run(case, "fused", steps=steps, own_norm=True, backend=backend)
