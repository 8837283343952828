"""Seeded inputs that C++ can make too, bit for bit: integers and exact scaling only."""

import numpy as np
import torch

M = (1 << 64) - 1


def mix(*words):
    """One 64-bit number from several (the finaliser of splitmix64 over a running state)."""
    z = 0
    for w in words:
        z = (z + w + 0x9E3779B97F4A7C15) & M
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & M
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & M
        z = z ^ (z >> 31)
    return z


def values(seed, n):
    """n floats, mantissas uniform in +-1/2 and exponents in 2^-6 … 2^1, as an f32 array."""
    z = np.full(n, seed, np.uint64) + np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    mantissa = (z >> np.uint64(40)).astype(np.int64) - (1 << 23)
    exponent = (z & np.uint64(7)).astype(np.int64) - 6 - 24
    return np.ldexp(mantissa.astype(np.float32), exponent.astype(np.int32)).astype(np.float32)


def weights(seed, tensor, n):
    return torch.from_numpy(values(mix(seed, 1, tensor), n))


def gradient(seed, step, tensor, n):
    return torch.from_numpy(values(mix(seed, 2, step, tensor), n))


def chance(seed, what, step, index, of, hits=1):
    """Whether something happens that happens `hits` times out of `of`."""
    return mix(seed, what, step, index) % of < hits


def spoil(grad, seed, step, tensor):
    """Puts one inf, -inf or NaN somewhere into `grad`."""
    if grad.numel() == 0:
        return
    z = mix(seed, 4, step, tensor)
    grad.view(-1)[z % grad.numel()] = [float("inf"), float("-inf"), float("nan")][(z >> 32) % 3]
