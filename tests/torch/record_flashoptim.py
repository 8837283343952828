#!/usr/bin/env python3
"""Records what FlashOptim's own kernels make of some values, in tests/data/flashoptim.json, for tests/python/test_flashoptim.py.

Needs torch, flashoptim and triton from PyPI, and no GPU: Triton's interpreter runs the kernels (TRITON_INTERPRET=1). FlashOptim launches
its kernels by an autotuner, which asks for a GPU, so a fixed launch takes its place here, and so does a function that the
interpreter lacks. The interpreter reads subnormal bfloat16 as zeros, so the recorded weights have none.
"""

import json
import os
import pathlib

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl


class FixedLaunch:
    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return lambda *args, **named: self.kernel[(4,)](*args, BLOCK_SIZE_N=128, **named)


class Device:
    @staticmethod
    def copysign(size, sign):
        return tl.where(sign < 0, -size, size)


triton.autotune = lambda **_: FixedLaunch

import flashoptim.optimizers as flashoptim

flashoptim.libdevice = Device
compute_errors, apply_errors = flashoptim._compute_ecc_bits, flashoptim._apply_error_correction
COUNT = 64
TARGET = pathlib.Path(__file__).resolve().parent.parent / "data" / "flashoptim.json"


@triton.jit
def correct(x_at, weight_at, errors_at, back_at, most: tl.constexpr, count: tl.constexpr, kind: tl.constexpr):
    at = tl.arange(0, count)
    weight = tl.load(weight_at + at)
    errors = compute_errors(tl.load(x_at + at), weight, SIGNED_ERROR_T=kind, NUM_MANTISSA_BITS=7, SIGNED_MAX_VAL=most)
    tl.store(errors_at + at, errors)
    tl.store(back_at + at, apply_errors(weight, errors, NUM_MANTISSA_BITS=7, SIGNED_MAX_VAL=most))


def bits(t):
    kinds = {1: t.dtype, 2: torch.int16, 4: torch.int32}
    return t.contiguous().view(kinds[t.element_size()]).tolist()


def main():
    torch.manual_seed(5)
    x = torch.cat([torch.randn(32), torch.randn(32) * torch.logspace(-9, 3, 32), torch.randn(32) * 1e-9, torch.zeros(32),
                   torch.randn(7) * 100])
    found = {}
    for form, values, rule in (("int8_f16", x, {"signed": True, "softsign": True}),
                               ("sqrt8_f16", x * x, {"signed": False, "sqrt": True, "softsign": False})):
        codes, scales = flashoptim.quantize(values, **rule)
        found[form] = {"x": bits(values), "code": codes.tolist(), "scale": bits(scales),
                       "back": bits(flashoptim.dequantize(codes, scales, **rule))}
    x = torch.cat([torch.randn(40), torch.randn(12) * torch.logspace(-36, -30, 12),
                   torch.tensor([0.0, -0.0, 1.0, -2.0, 1.00390625, 1.001953125, 3e38, 2e-38]), torch.zeros(4)])
    for form, most, kind, dtype in (("ecc24", 127, tl.int8, torch.int8), ("ecc24_i16", 32767, tl.int16, torch.int16)):
        weight, errors, back = x.to(torch.bfloat16), torch.zeros(COUNT, dtype=dtype), torch.zeros(COUNT)
        correct[(1,)](x, weight, errors, back, most, COUNT, kind)
        found[form] = {"x": bits(x), "weight": bits(weight), "correction": errors.tolist(), "back": bits(back)}
    TARGET.write_text("{" + ",\n".join(f'"{form}": {{' + ",\n  ".join(f'"{name}": {json.dumps(values)}' for name, values in arrays.items()) + "}"
                                       for form, arrays in found.items()) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
