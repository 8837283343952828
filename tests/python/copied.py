"""8-bit parameters with copy_scale=, their steps, and whether what these leave is what the published rules say."""

import torch

from stepfuse.torch import parts, stored
from stepfuse.torch.checks import COPY_SCALES

HOWS = ("delayed", "current", "mx", "mx-rceil", "block128", "block128-f32")
EXACT = HOWS[2:]  # what the master's copy is, follows from it alone
MX, SQUARES = HOWS[2:4], HOWS[4:]
TYPES = [torch.float8_e4m3fn, torch.float8_e5m2]
LARGE = (130, 129)  # more than one piece; two squares of each side, and ragged blocks
SHAPES = ((70, 96), (5, 40), (33,), (0, 4), (), LARGE, (3, 44, 36))
ON_CUDA = parts.on_cuda(torch.device("cpu"))
WIDE = hasattr(torch.Tensor, "grad_dtype")  # gradients in f32


def parameters(dtype=TYPES[0], shapes=SHAPES):
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(s).to(dtype)) for s in shapes]


def gradients(params, k):
    """Of sizes that change, so that the largest weights of a history matter; f32 where they may be."""
    generator = torch.Generator().manual_seed(k)
    for p in params:
        if WIDE:
            p.grad_dtype = torch.float32
        p.grad = (torch.randn(p.shape, generator=generator) * 4.0 ** (k % 4)).to(torch.float32 if WIDE else p.dtype)


def train(optimizer, steps):
    params = [p for g in optimizer.param_groups for p in g["params"]]
    for k in steps:
        gradients(params, k)
        optimizer.step()


def bits(t):
    t = t.detach().contiguous()
    return t.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()]).clone()


def everything(optimizer):
    """Weights and state, as bits."""
    state = optimizer.state_dict()["state"]
    params = [p for g in optimizer.param_groups for p in g["params"]]
    return [{"weight": bits(p), **{k: bits(v) for k, v in state.get(i, {}).items()}} for i, p in enumerate(params)]


def same(a, b):
    return len(a) == len(b) and all(x.keys() == y.keys() and all(torch.equal(x[k], y[k]) for k in x) for x, y in zip(a, b))


def fits(optimizer, p, exactly=True):
    """Whether a copy is its master's, as its scales are."""
    state = optimizer.state[p]
    master, scale = state["master"], optimizer.copy_scale_inv(p)
    if COPY_SCALES[how_of(optimizer, p)] == "number":
        near = (optimizer.dequantized(p).detach() - master).abs().max() <= master.abs().max() * 2.0**-3
        return bool(near) and (not exactly or torch.equal(bits((master / scale).to(p.dtype)), bits(p)))
    if how_of(optimizer, p) in SQUARES:
        codes, scales = block_scaled(master, p.dtype, how_of(optimizer, p) == "block128")
        return torch.equal(bits(codes), bits(p)) and torch.equal(bits(scales), bits(scale))
    made, _ = stored.encode(master, form := f"{how_of(optimizer, p)}_f8{parts_of(p)}".replace("-", "_"))
    return torch.equal(bits(made[f".{form}.weight"]), bits(p)) and torch.equal(made[f".{form}.weight_scale"], state["weight_scale"])


def block_scaled(master, dtype, power):
    """Codes, and a block's inverse scale, by TransformerEngine's rule; rows are all dimensions but the last."""
    flat = master.reshape(-1, master.shape[-1]) if master.ndim else master.reshape(1, 1)
    codes, scales = torch.empty_like(flat, dtype=dtype), torch.empty([-(-n // 128) for n in flat.shape])
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            at = (slice(128 * i, 128 * i + 128), slice(128 * j, 128 * j + 128))
            amax = flat[at].abs().max()
            scale = torch.tensor(torch.finfo(dtype).max) / amax if amax > 0 and amax.isfinite() else torch.tensor(1.0)
            scale = scale.clamp(max=torch.finfo(torch.float32).max)
            if power:
                scale = torch.ldexp(torch.tensor(0.5), torch.frexp(scale).exponent)
            codes[at] = (flat[at] * scale).to(dtype)
            scales[i, j] = 1 / scale
    return codes.reshape(master.shape), scales


def how_of(optimizer, p):
    return next(g["copy_scale"] for g in optimizer.param_groups for q in g["params"] if q is p)


def parts_of(p):
    return "e4m3" if p.dtype == torch.float8_e4m3fn else "e5m2"
