"""Compares moments in formats and MXFP8 and NVFP4 copies bit for bit with torchao on the CPU in eager mode: AdamW's weights,
codes and scales. Compares copies in 128x128 blocks, MXFP8 rounded up and NVFP4 with TransformerEngine's rules in PyTorch, and casts to
f8e8m0 and f4e2m1 with torch's and ml_dtypes'.

    tests/torch/formats_check.py [--steps N] [--matrices N] [--backend cpu]

Needs PyTorch, torchao and the Python package (PYTHONPATH). The formula is torchao's own, in its order of operations; decay rates
are those whose powers are exact in f32, since torch rounds powers as its C library does; square roots are rounded
correctly (docs/parity.md).
"""

import argparse
import contextlib
import os
import pathlib
import sys

os.environ["TORCHDYNAMO_DISABLE"] = "1"
sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/peers"))

import torch  # noqa: E402
from bridge import Step  # noqa: E402
from peer import ieee_sqrt  # noqa: E402

FORMULA = """
optimizer torchao_adamw "AdamW as torchao.optim orders it" {
  hyper lr = 1e-3, beta1 = 0.5, beta2 = 0.75, eps = 1e-8, wd = 0.01
  moment exp_avg, exp_avg_sq

  exp_avg = lerp(exp_avg, g, 1 - beta1)
  exp_avg_sq = lerp(exp_avg_sq, g * g, 1 - beta2)
  let lr32 = f32(lr)
  let shrink = lr32 * f32(wd)
  let c1 = f32(1 - beta1^t)
  let c2 = sqrt(f32(1 - beta2^t))
  let denominator = sqrt(exp_avg_sq) / c2 + f32(eps)
  w = (w - shrink * w) - lr32 * (exp_avg / c1) / denominator
}
"""
SIZES = (4096, 16384 + 4096, 70000 // 256 * 256)  # torchao keeps tensors of other sizes in f32


def differing(ours, theirs):
    view = {1: torch.uint8, 4: torch.int32}[ours.element_size()]
    return int((ours.reshape(-1).view(view) != theirs.reshape(-1).view(view)).sum())


def check(formats, peer, parts, steps, backend):
    """The differing values of weights, codes and scales after `steps` steps; `formats` by moment."""
    torch.manual_seed(0)
    weights = [torch.randn(n) for n in SIZES]
    theirs = [torch.nn.Parameter(w.clone()) for w in weights]
    optimizer = peer(theirs, lr=torch.tensor(1e-3), betas=(0.5, 0.75), eps=1e-8, weight_decay=0.01)
    step = Step(FORMULA, "moments=" + "|".join(f"{moment}={format}" for moment, format in formats.items()), backend)
    buffers = {"weight": weights}
    for moment, format in formats.items():
        for part, (dtype, block) in parts.items():
            buffers[f"{moment}.{format}.{part}"] = [torch.zeros(-(-n // block), dtype=dtype) for n in SIZES]
    step.bind([0] * len(SIZES), **buffers)
    step.init_state()
    for k in range(steps):
        # Blocks of zeros, of one other value, and of widely different magnitudes.
        grads = [torch.randn(n) * 10.0 ** (torch.arange(n) // 256 % 13 - 8) for n in SIZES]
        for g in grads:
            g[512:1024] = 0
            g[700] = 1e-20 * k
        for p, g in zip(theirs, grads):
            p.grad = g.clone()
        with ieee_sqrt():
            optimizer.step()
        step.run(grads)
    counts = {"weights": sum(differing(a, b.detach()) for a, b in zip(weights, theirs))}
    for moment, format in formats.items():
        for attribute in ("codes", "scale"):
            ours = buffers[f"{moment}.{format}.scale"] if attribute == "scale" else [
                packed(*arrays) for arrays in zip(*(buffers[f"{moment}.{format}.{part}"] for part in parts if part != "scale"))]
            counts[f"{moment}.{attribute}"] = sum(
                differing(a, getattr(optimizer.state[p][moment], attribute)) for a, p in zip(ours, theirs))
    return counts


def packed(*codes):
    """The bytes of the codes; 4-bit codes of 16 elements are 4 bytes in one array and 4 in a second one."""
    return codes[0] if len(codes) == 1 else torch.stack([c.view(torch.uint8).view(-1, 4) for c in codes], 1).flatten()


def differing_codes(ours, theirs):
    """The differing 8-bit floats; all NaNs count as equal."""
    nan = torch.isnan(ours.float()) & torch.isnan(theirs.float())
    return int(((ours.view(torch.uint8) != theirs.view(torch.uint8)) & ~nan).sum())


def rounded_up(master, dtype):
    """Codes and scales of blocks of 32, by TransformerEngine's float_to_e8m0 and exp2f_rcp (ptx.cuh) of amax / type_max."""
    blocks, highest = master.view(-1, 32), torch.finfo(dtype).max
    wanted = blocks.abs().amax(1) / torch.full((), highest)
    exponent, fraction = wanted.view(torch.int32) >> 23, wanted.view(torch.int32) & 0x7FFFFF
    scale = exponent + ((fraction > 0) & (exponent != 254) & ~((exponent == 0) & (fraction <= 0x400000))).int()
    scale = torch.where(wanted.isnan(), 255, torch.where(wanted.isinf(), 254, scale))
    factor = torch.ldexp(torch.ones_like(wanted), 127 - scale)
    factor[scale == 0], factor[scale == 254], factor[scale == 255] = 1, 2.0**-127, torch.nan
    return scale.to(torch.uint8), (blocks * factor[:, None]).clamp(-highest, highest).to(dtype).flatten()


@contextlib.contextmanager
def wide_log2():
    """Makes torchao's exponent exact. It uses an f32 logarithm, which rounds a few numbers above a power down to it,
    unlike the instruction that it stands for (cvt.rp.satfinite.ue8m0x2)."""
    narrow = torch.log2
    torch.log2 = lambda x: narrow(x.double())
    try:
        yield
    finally:
        torch.log2 = narrow


def torchaos(mode):
    """torchao's to_mx in that ScaleCalculationMode, or None without torchao."""
    try:
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_mx
    except ImportError as e:
        print(f"skipped: {e}")
        return None

    def scaled(master, dtype):
        with wide_log2():
            scales, codes = to_mx(master, dtype, 32, ScaleCalculationMode[mode])
        return scales.view(torch.uint8), codes

    return scaled


def edges(n, dtype):
    """Blocks of 32: zeros, exact powers of two and the next larger numbers, with every exponent."""
    exponents = torch.arange(n // 32) % 268 - 149
    largest = torch.ldexp(torch.full((n // 32,), torch.finfo(dtype).max), exponents)
    largest[1::3] = torch.nextafter(largest[1::3], torch.tensor(torch.inf))
    largest[2::3] = torch.nextafter(largest[2::3], torch.tensor(0.0))
    return (largest[:, None] * torch.linspace(0, 1, 32)).flatten()


def check_copies(dtype, how, peer, name_of_peer, steps, backend):
    """The differing codes and scales of MXFP8 copies, compared with a peer's from the masters after each of `steps` steps."""
    torch.manual_seed(0)
    name = {torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}[dtype]
    # Blocks of zeros, subnormal numbers and widely different magnitudes.
    masters = [torch.randn(n) * torch.exp2(torch.randint(-149, 100, (n // 32,)).repeat_interleave(32).float()) for n in SIZES]
    masters.append(edges(32 * 268 * 3, dtype))
    sizes = [len(m) for m in masters]
    masters[0][512:1024] = 0
    masters[1][7], masters[1][40] = float("nan"), float("inf")
    copies = [torch.zeros(n, dtype=dtype) for n in sizes]
    scales = [torch.zeros(n // 32, dtype=torch.uint8) for n in sizes]
    step = Step("sgd", f"master model={name} copy-scale={how}", backend)
    step.bind([0] * len(sizes), weight=copies, master=masters, weight_scale=scales)
    counts = {"codes": 0, "scales": 0}
    for k in range(steps):
        step.run([torch.randn(n) if k else torch.zeros(n) for n in sizes])
        for master, code, scale in zip(masters, copies, scales):
            theirs_scale, theirs = peer(master, dtype)
            counts["codes"] += differing_codes(code, theirs)
            counts["scales"] += differing(scale, theirs_scale)
    print(f"{how} in {name} beside {name_of_peer}, {steps} steps of {sum(sizes)} elements; differing: "
          + ", ".join(f"{what} {n}" for what, n in counts.items()))
    return any(counts.values())


def block_scaled(master, dtype, power):
    """Codes and inverse scales by TransformerEngine's compute_scale_from_amax (recipe_common.cuh) with epsilon 0."""
    rows, columns = master.shape
    padded = torch.nn.functional.pad(master, (0, -columns % 128, 0, -rows % 128))
    blocks = padded.unflatten(0, (-1, 128)).unflatten(2, (-1, 128))
    amax = blocks.abs().amax((1, 3))
    scale = torch.full_like(amax, torch.finfo(dtype).max) / amax
    scale[scale.isinf()] = torch.finfo(torch.float32).max
    if power:
        scale = (scale.view(torch.int32) & -(1 << 23)).view(torch.float32)
    scale[(amax == 0) | ~amax.isfinite()] = 1
    codes = (blocks * scale[:, None, :, None]).to(dtype).flatten(2, 3).flatten(0, 1)[:rows, :columns]
    return codes.contiguous(), 1 / scale


def check_blocks(dtype, how, steps, backend):
    """The differing codes and scales of 128x128 copies, compared with TransformerEngine's rule after each of `steps` steps."""
    torch.manual_seed(0)
    name = {torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}[dtype]
    shapes = ((130, 257), (1, 5), (128, 128), (127, 1), (384, 512), (300, 130))
    masters = [torch.randn(s) * torch.exp2(torch.randint(-149, 100, s)[:, :1].float()) for s in shapes]
    masters[4][:128, :128] = 0
    masters[4][200, 7], masters[4][300, 300] = float("nan"), float("inf")
    copies = [torch.zeros(s, dtype=dtype) for s in shapes]
    scales = [torch.zeros(-(-rows // 128), -(-columns // 128)) for rows, columns in shapes]
    step = Step("sgd", f"master model={name} copy-scale={how}", backend)
    step.bind([0] * len(shapes), weight=copies, master=masters, weight_scale=scales)
    counts = {"codes": 0, "scales": 0}
    for _ in range(steps):
        step.run([torch.randn(s) for s in shapes])
        for master, code, scale in zip(masters, copies, scales):
            theirs, theirs_scale = block_scaled(master, dtype, how == "block128")
            counts["codes"] += differing_codes(code, theirs)
            counts["scales"] += differing(scale, theirs_scale)
    print(f"{how} in {name} beside TransformerEngine's rule, {steps} steps of {sum(m.numel() for m in masters)} elements; differing: "
          + ", ".join(f"{what} {n}" for what, n in counts.items()))
    return any(counts.values())


def random_matrix(k, block):
    """Matrix k of rows of whole blocks. Its squares have sizes of their own, and some of them zeros, subnormal numbers, a huge
    number, an infinity or a NaN."""
    random = torch.Generator().manual_seed(k)
    draw = lambda low, high, *shape: torch.randint(low, high, shape, generator=random)  # noqa: E731
    rows, columns = int(draw(1, 150)), block * int(draw(1, 9))
    spread = int(draw(1, 60))
    sizes = torch.exp2(draw(-spread, spread // 4 + 1, -(-rows // block), columns // block).float())
    master = torch.randn(rows, columns, generator=random) * sizes.repeat_interleave(block, 0)[:rows].repeat_interleave(block, 1)
    for share, value in ((2, 0.0), (3, None), (4, 3.0e38), (6, torch.inf), (6, -torch.inf), (6, torch.nan)):
        if int(draw(0, share)):
            continue
        row, column = int(draw(0, rows)), int(draw(0, columns))
        square = master[row // block * block:, column // block * block:][:block, :block]
        if value is None:
            square.copy_(torch.ldexp(square / square.abs().max().clamp(min=1e-30), torch.tensor(-int(draw(126, 145)))))
        elif value == 0:
            square.zero_()
        else:
            master[row, column] = value
    return master


def tiles_of(master, side):
    """The squares of a matrix as rows of side * side elements, and what makes a matrix of such rows."""
    rows, columns = master.shape
    padded = torch.nn.functional.pad(master, (0, 0, 0, -rows % side))
    tiles = padded.unflatten(0, (-1, side)).unflatten(2, (-1, side)).transpose(1, 2)
    return tiles.flatten(2).flatten(0, 1), lambda flat: flat.view(*tiles.shape).transpose(1, 2).flatten(2).flatten(0, 1)[:rows]


def torchaos_squares(mode):
    """torchao's to_mx, for which a square is one block."""
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx

    def scaled(master, dtype):
        flat, back = tiles_of(master, 32)
        with wide_log2():
            scales, codes = to_mx(flat.contiguous(), dtype, 1024, ScaleCalculationMode[mode])
        each = back(scales.view(torch.uint8).repeat_interleave(1024, 1))
        return each[:, ::32].contiguous(), back(codes).contiguous()

    return scaled


def torchaos_fours(master, of_tensor):
    """Codes and scales of torchao's nvfp4_quantize. Its blocks have 16 elements: 8 of ours, and the largest of their square."""
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize

    flat, back = tiles_of(master, 16)
    most = back(flat.abs().amax(1, keepdim=True).expand_as(flat))
    blocks = torch.cat([master.unflatten(1, (-1, 8)), most.unflatten(1, (-1, 8))], 2)
    scales, codes = nvfp4_quantize(blocks.flatten(0, 1).contiguous(), 16, of_tensor)
    return scales.view(len(master), -1)[:, ::2].contiguous(), codes[:, :4].reshape(len(master), -1)


def check_squares(dtype, how, mode, count, backend):
    """The differing codes and scales of MXFP8 copies in squares, compared with torchao's for `count` random matrices."""
    name = {torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}[dtype]
    masters = [random_matrix(k, 32) for k in range(count)]
    copies = [torch.zeros_like(m, dtype=dtype) for m in masters]
    scales = [torch.zeros(len(m), m.shape[1] // 32, dtype=torch.uint8) for m in masters]
    step = Step("sgd", f"master model={name} copy-scale={how} on-nonfinite=propagate", backend)
    step.bind([0] * count, weight=copies, master=masters, weight_scale=scales)
    step.run([torch.zeros_like(m) for m in masters])
    counts, peer = {"codes": 0, "scales": 0}, torchaos_squares(mode)
    for master, code, scale in zip(masters, copies, scales):
        theirs_scale, theirs = peer(master, dtype)
        counts["codes"] += differing_codes(code, theirs)
        counts["scales"] += differing(scale, theirs_scale)
    print(f"{how} in {name} beside torchao's to_mx of squares, {count} matrices of {sum(m.numel() for m in masters)} elements; differing: "
          + ", ".join(f"{what} {n}" for what, n in counts.items()))
    return any(counts.values())


def fours_of(masters, how, backend):
    """A step that copies these matrices in 4 bits, with the copies' codes and scales."""
    codes = [torch.zeros(m.numel() // 8, dtype=torch.int32) for m in masters]
    scales = [torch.zeros(len(m), m.shape[1] // 16, dtype=torch.float8_e4m3fn) for m in masters]
    step = Step("sgd", f"master copy-scale={how} on-nonfinite=propagate", backend)
    step.bind([0] * len(masters), master=masters, weight=codes, weight_scale=scales)  # the first one's shape is the parameter's
    step.init_state()
    return step, [c.view(torch.uint8).view(len(m), -1) for c, m in zip(codes, masters)], scales


def check_fours(how, count, backend):
    """The same for NVFP4. torchao's own scale of the tensor is infinite or NaN if a weight is, and there the check gives it ours: 1.
    Codes of a square with a NaN mean nothing, since its scale is NaN."""
    masters = [random_matrix(k, 16) for k in range(count)]
    step, copies, scales = fours_of(masters, how, backend)
    counts, given = {"codes": 0, "scales": 0, "scales of tensors": 0}, 0
    for k in range(2):
        step.run([torch.zeros_like(m) for m in masters])
        for master, code, scale, ours in zip(masters, copies, scales, [step.state("copy_scale_inv", t) for t in range(count)]):
            amax = master.abs().max()
            is_usable = bool(amax.isfinite()) and amax >= 2.0**-108 and (how == "nvfp4" or k > 0)
            of_tensor = amax / (448 * 6) if is_usable else torch.tensor(1.0)
            given += not is_usable
            theirs_scale, theirs = torchaos_fours(master, of_tensor)
            nan = theirs_scale.isnan().repeat_interleave(8, 1)
            counts["codes"] += int(((code != theirs) & ~nan).sum())
            counts["scales"] += differing_codes(scale, theirs_scale)
            counts["scales of tensors"] += float(of_tensor) != ours
    print(f"{how} beside torchao's nvfp4_quantize, 2 steps of {count} matrices of {sum(m.numel() for m in masters)} elements; "
          f"{given} were given the tensor's scale 1; differing: " + ", ".join(f"{what} {n}" for what, n in counts.items()))
    return any(counts.values())


def transformer_engines_fours(master):
    """Codes and scales by TransformerEngine's rule for NVFP4 in squares (quantization_ref_nvfp4.py), for finite weights. It multiplies
    by reciprocals where torchao divides, and it has no least scale."""
    most = torch.finfo(torch.float32).max
    up = (2688 / master.abs().max()).clamp(max=most)
    flat, back = tiles_of(master, 16)
    scale = back((flat.abs().amax(1, keepdim=True) * (up * (1 / torch.tensor(6.0)))).clamp(max=448).expand_as(flat)).to(torch.float8_e4m3fn)
    scaled = master * (1 / (scale.float() * (1 / up))).clamp(max=most)
    size, codes = scaled.abs().clamp(max=6), (scaled.signbit().to(torch.uint8) * 8)
    for border, belongs_above in ((0.25, False), (0.75, True), (1.25, False), (1.75, True), (2.5, False), (3.5, True), (5.0, False)):
        codes += (size >= border) if belongs_above else (size > border)
    return codes[:, ::2] | codes[:, 1::2] << 4, scale[:, ::16]


def check_other_fours(count, backend):
    """The differing codes and scales of NVFP4 copies, compared with TransformerEngine's rule. Scales below torchao's least one do not count."""
    masters = [m for k in range(2 * count) if (m := random_matrix(k, 16)).isfinite().all() and m.abs().max() >= 2.0**-100][:count]
    step, copies, scales = fours_of(masters, "nvfp4", backend)
    step.run([torch.zeros_like(m) for m in masters])
    total, other_scales, small, other_codes = 0, 0, 0, 0
    for master, code, scale in zip(masters, copies, scales):
        codes, theirs = transformer_engines_fours(master)
        total += theirs.numel()
        tiny = theirs.float() < 2.0**-6  # torchao's least scale
        differs = scale.view(torch.uint8) != theirs.contiguous().view(torch.uint8)
        small += int((differs & tiny).sum())
        other_scales += int((differs & ~tiny).sum())
        same = (~differs).repeat_interleave(8, 1)
        other_codes += int(((code != codes) & same).sum())
    print(f"nvfp4 beside TransformerEngine's rule, {len(masters)} finite matrices; of {total} scales {small} are below torchao's least scale, "
          f"2^-6, and differ; differing: other scales {other_scales}, codes of equal scales {other_codes}")
    return other_scales > 0 or other_codes > 0


TYPES = """
step @types {
  buffer @x : f32 in
  buffer @power : f8e8m0 out
  buffer @four : f4e2m1 out
  buffer @wide_power : f32 out
  buffer @wide_four : f32 out
  %x = load @x : [f32]
  %power = cast %x : [f8e8m0]
  %four = cast %x : [f4e2m1]
  %wide_power = cast %power : [f32]
  %wide_four = cast %four : [f32]
  store @power, %power
  store @four, %four
  store @wide_power, %wide_power
  store @wide_four, %wide_four
}
"""


def check_types(backend):
    """Casts to f8e8m0 and f4e2m1 beside torch's and, where ml_dtypes is installed, its own. f8e8m0 saturates where these make NaN, and
    f4e2m1 makes 0 of NaN, whose sign ml_dtypes keeps."""
    bits = torch.cat([torch.arange(-(2**31), 2**31, 1021), torch.arange(0, 2**31, 2**21), torch.arange(1, 2**31, 2**21)])
    x = bits.to(torch.int32).view(torch.float32)
    power, four = torch.zeros(len(x), dtype=torch.float8_e8m0fnu), torch.zeros(len(x), dtype=torch.uint8)
    wide_power, wide_four = torch.zeros_like(x), torch.zeros_like(x)
    step = Step(TYPES, backend=backend)
    step.bind([0], x=[x], power=[power], four=[four], wide_power=[wide_power], wide_four=[wide_four])
    step.run()
    size = x.abs()
    saturated = (size >= 1.5 * 2.0**127) & ~x.isnan()
    theirs = torch.where(saturated, torch.full_like(x, 2.0**127), x).to(torch.float8_e8m0fnu)
    same = power.view(torch.uint8) == theirs.view(torch.uint8)
    wide = wide_power.nan_to_num(-1) == theirs.float().nan_to_num(-1)
    counts = {"f8e8m0 beside torch": int((~same).sum()), "f8e8m0 as f32": int((~wide).sum())}
    with contextlib.suppress(ImportError):
        import ml_dtypes
        import numpy as np

        np.seterr(invalid="ignore")  # of NaN
        positive = (x > 0) & ~saturated
        of_power = torch.from_numpy(x.numpy().astype(ml_dtypes.float8_e8m0fnu).view("uint8"))
        of_four = x.numpy().astype(ml_dtypes.float4_e2m1fn)
        counts["f8e8m0 beside ml_dtypes"] = int((power.view(torch.uint8) != of_power)[positive].sum())
        counts["f4e2m1 beside ml_dtypes"] = int((four != torch.from_numpy(of_four.view("uint8")))[~x.isnan()].sum())
        counts["f4e2m1 as f32"] = int((wide_four != torch.from_numpy(of_four.astype("float32"))).sum())
    print(f"casts of {len(x)} numbers; differing: " + ", ".join(f"{what} {n}" for what, n in counts.items()))
    return any(counts.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--matrices", type=int, default=100, help="for copies in squares (mxfp8, nvfp4)")
    parser.add_argument("--backend", default="cpu")
    a = parser.parse_args()
    failed = check_types(a.backend)
    floor, rceil = torchaos("FLOOR"), torchaos("RCEIL")
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        for how in ("block128", "block128-f32"):
            failed |= check_blocks(dtype, how, a.steps, a.backend)
        for how, peer, called in (("mx-rceil", rounded_up, "TransformerEngine's rule"), ("mx", floor, "torchao's to_mx"),
                                  ("mx-rceil", rceil, "torchao's to_mx")):
            if peer is not None:
                failed |= check_copies(dtype, how, peer, called, a.steps, a.backend)
        for how, mode in (("mxfp8", "FLOOR"), ("mxfp8-rceil", "RCEIL")) if floor else ():
            failed |= check_squares(dtype, how, mode, a.matrices, a.backend)
    for how in ("nvfp4", "nvfp4-delayed") if floor else ():
        failed |= check_fours(how, a.matrices, a.backend)
    failed |= check_other_fours(a.matrices, a.backend)
    try:
        from torchao.optim import AdamW4bit, AdamW8bit, AdamWFp8
    except ImportError as e:
        print(f"skipped: {e}")
        return 1 if failed else 0
    scaled = {"scale": (torch.float32, 256)}
    for formats, peer, parts in (
            (("fp8", "fp8"), AdamWFp8, {"code": (torch.float8_e4m3fn, 1), **scaled}),
            (("dyn8", "dyn8u"), AdamW8bit, {"code": (torch.uint8, 1), **scaled}),
            (("dyn4", "lin4"), AdamW4bit, {"first": (torch.int32, 16), "second": (torch.int32, 16), "scale": (torch.float32, 128)})):
        counts = check(dict(zip(("exp_avg", "exp_avg_sq"), formats)), peer, parts, a.steps, a.backend)
        failed |= any(counts.values())
        print(f"{', '.join(formats)} beside {peer.__name__}, {a.steps} steps of {sum(SIZES)} elements; differing: "
              + ", ".join(f"{name} {n}" for name, n in counts.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
