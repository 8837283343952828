#!/usr/bin/env python3
"""Compares every recipe with real PyTorch on the CPU and writes docs/parity.md.

    pip install torch==2.13.0 numpy && ninja -C build stepfuse_core && PYTHONPATH=build/python tools/parity.py --write

Needs the Python package (PYTHONPATH names it). Without --write it prints.
"""

import argparse
import functools
import math
import os
import pathlib
import platform
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools" / "peers"))

try:
    import torch  # noqa: E402
except ImportError:
    print("skipped: PyTorch is not installed (pip install torch==2.13.0 numpy)")
    sys.exit(77)

import c_api  # noqa: E402
import compare  # noqa: E402
import formulas  # noqa: E402
import norms  # noqa: E402
import scalers  # noqa: E402

SQRT = "`ATen/cpu/vml.h:155`"
TAIL = "tail loop (b)"


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(result):
    """Differing weights, kept values, counts and scales."""
    if result.zero():
        return "0"
    return (f"**{result.weights}** of {result.elements} weights (at most {result.worst_ulps} ulp, "
            f"{result.worst_diff:.1e}), {result.kept} kept, {result.steps} counts, {result.scale} scales; "
            f"first after step {result.first_step}")


POWERS = {"growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 7}
OTHERS = {"growth_factor": 1.7, "backoff_factor": 0.6, "growth_interval": 7}


def sqrt_misses():
    x = torch.rand(1 << 20, generator=torch.Generator().manual_seed(0)) * 1000
    return int((x.sqrt() != x.double().sqrt().float()).sum())


def implementations(case):
    return ["foreach", "for-loop"] if case.recipe == "rmsprop" else ["fused", "foreach", "for-loop"]


def rounding(run, steps):
    """The zero-differences table."""
    rows = []
    skipped = 0
    for case in compare.CASES:
        for clip in (True, False):
            row = [case.name, "unscale, clip, step, update" if clip else "step, update (scale 1.7, 0.6)"]
            for implementation in ("fused", "foreach", "for-loop"):
                if implementation not in implementations(case):
                    row.append("PyTorch has none")
                    continue
                result = run(case, implementation, steps=steps, clip=clip, exact_sqrt=implementation != "fused",
                             scale_args=POWERS if clip else OTHERS)
                skipped = result.skipped
                row.append(cell(result))
            rows.append(row)
    return rows, skipped


def shipped(run, steps):
    rows = []
    for case in compare.CASES:
        if case.recipe == "sgd":
            continue
        for implementation in ("foreach", "for-loop"):
            rows.append([case.name, implementation, cell(run(case, implementation, steps=steps)), SQRT])
    return rows


def others(run, steps):
    adamw = compare.CASES[0]
    rows = []
    for sizes in ((15,), (7, 9, 31), (256, 48, 513)):
        rows.append([f"AdamW, fused, sizes {', '.join(map(str, sizes))}",
                     cell(run(adamw, "fused", steps=steps, sizes=sizes)), TAIL])
    momentum = next(c for c in compare.CASES if c.name == "SGD, momentum")
    for sizes in ((15,), (7, 9, 31)):
        rows.append([f"SGD, momentum, fused, sizes {', '.join(map(str, sizes))}",
                     cell(run(momentum, "fused", steps=steps, sizes=sizes)), TAIL])
    rows.append(["AdamW, for-loop, sizes 7, 9, 31",
                 cell(run(adamw, "for-loop", steps=steps, sizes=(7, 9, 31), exact_sqrt=True)), ""])
    for capability in ("avx2", "default"):
        rows.append([f"AdamW, fused, ATEN_CPU_CAPABILITY={capability}", other_capability(capability, steps),
                     "" if capability == "avx2" else "built without FMA: `vec::fmadd` is a product and a sum there"])
    rows.append(["AdamW, for-loop, counting from 2^24 - 3 (f32 step tensors stop at 2^24)", past_2_24(run), "(c)"])
    rows.append(["AdamW, fused, empty tensors among others (0, 16, 0)",
                 cell(run(adamw, "fused", steps=steps, sizes=(0, 16, 0))), ""])
    return rows


def other_capability(capability, steps):
    """The same cell in a process whose PyTorch takes another build of its kernels."""
    code = ("import sys; sys.path.insert(0, 'tools'); import parity, torch; torch.set_num_threads(1); "
            f"print(parity.cell(parity.compare.run(parity.compare.CASES[0], 'fused', steps={steps}, backend='cpu')))")
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "ATEN_CPU_CAPABILITY": capability},
                         capture_output=True, text=True, check=True)
    return run.stdout.strip()


class Late(compare.Pair):
    """Starts when both sides have counted to 2^24 - 3."""

    def __init__(self, *args, **keywords):
        super().__init__(*args, **keywords)
        for t, p in enumerate(self.parameters):
            self.step_.set_state("step", 2**24 - 3, t)
            self.optimizer.state[p] = {"step": torch.tensor(2.0**24 - 3),
                                       **{n: torch.zeros_like(p) for n in ("exp_avg", "exp_avg_sq")}}


def past_2_24(run):
    result = run(compare.CASES[0], "for-loop", steps=8, exact_sqrt=True, overflow=0, pair_class=Late)
    return cell(result)


def missing(run, steps):
    rows = []
    for case in (compare.CASES[0], compare.CASES[8], compare.CASES[-1]):
        for implementation in ("for-loop", "fused"):
            if case.recipe == "sgd" and implementation == "fused":
                continue  # see below
            result = run(case, implementation, steps=steps, sizes=(16,) * 20, missing=3, append_at=100,
                         exact_sqrt=implementation != "fused")
            rows.append([case.name, implementation, cell(result)])
    return rows


def clipping(run, steps):
    rows = []
    for label, clip, ema in (("clip_grad_norm_, p = 1", "l1", None), ("clip_grad_norm_, p = inf", "inf", None),
                             ("clip_grad_value_", "value", None), ("unscale_ and no clip; option accumulated", "unscale", None),
                             ("clip_grad_norm_, p = 2, and swa_utils' EMA of the weights", "l2", 0.99)):
        rows.append([label] + [cell(run(compare.CASES[0], i, steps=steps, clip=clip, ema=ema, exact_sqrt=i != "fused",
                                        scale_args=OTHERS if clip == "unscale" else POWERS))
                               for i in ("fused", "for-loop")])
    return rows


def zeros(run, steps):
    """weight_decay and momentum that are 0 as data."""
    rows = []
    for what, names, pair_class in (
            ("weight_decay 0, some weights infinite", ("AdamW", "Adam, L2", "SGD", "RMSprop", "Adagrad"), compare.InfiniteWeight),
            ("momentum 0 for 20 steps, then not, and so on",
             ("SGD, momentum, dampening", "SGD, Nesterov, maximize", "RMSprop, centered, momentum"), compare.Switching)):
        for case in compare.CASES:
            if case.name not in names:
                continue
            for implementation in implementations(case):
                if implementation == "foreach":
                    continue
                # torch's fused SGD begins its buffer uninitialised where that step overflows.
                result = run(case, implementation, steps=steps, pair_class=pair_class, overflow=0,
                             exact_sqrt=implementation != "fused")
                rows.append([what, case.name, implementation, cell(result)])
    return rows


def powers():
    """The first step at which a bias correction, rounded to f32, differs: powi's products against C's pow."""
    rows = []
    for beta in (0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999):
        first = next((t for t in range(1, 20001) if narrow_root(powi(beta, t)) != narrow_root(beta**t)), None)
        rows.append([f"{beta:.7g}", f"{first:,}" if first else "none in 20,000"])
    return rows


def powi(base, exponent):
    """As ir/README.md defines it."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        exponent >>= 1
        if exponent:
            base *= base
    return result


def narrow_root(power):
    return float(torch.tensor(math.sqrt(1 - power), dtype=torch.float32))


class Varying(compare.Pair):
    """Every hyperparameter of every group changes at every step."""

    def hyper_of(self, group, step):
        hyper = super().hyper_of(group, step)
        wave = 1 + ((step * 7 + group * 3) % 11) / 16
        for name in ("lr", "weight_decay", "eps"):
            if name in hyper:
                hyper[name] *= wave
        if "betas" in hyper:
            hyper["betas"] = (0.8 + 0.15 / wave, 0.95 + 0.04 / wave)
        if "momentum" in hyper:
            hyper["momentum"] *= 0.9 + wave / 40
        return hyper


def varying(run, backend):
    rows = []
    for case, implementation in ((compare.CASES[0], "fused"), (compare.CASES[6], "for-loop"), (compare.CASES[8], "fused")):
        before = c_api.compiled()
        result = run(case, implementation, steps=100, pair_class=Varying, exact_sqrt=implementation != "fused",
                     sizes=(64, 32, 48, 16, 80, 128))
        compiled = c_api.compiled() - before
        rows.append([case.name, implementation, cell(result), compiled if backend.startswith("cpu") else "-"])
    return rows


def own_norm(backend, quick):
    sizes = {"1,000": (1000,), "1,000,003": (1000003,), "4 M in 9 tensors": (1 << 19,) * 8 + (4097,)}
    rows = []
    for kind in ("normal", "heavy-tailed", "tiny", "all small but the first"):
        some = {"16,384": (norms.PIECE,)} if kind.startswith("all") else sizes
        for label, shape in some.items():
            if quick and label.startswith("4"):
                continue
            for norm_type in ("l2", "l1", "inf"):
                ours, theirs = norms.distance(kind, shape, 1, backend, norm_type)
                bound = norms.bound(shape, norm_type)
                rows.append([kind, label, norm_type, f"{ours:.2f}", f"{bound:.1f}", f"{theirs:.2f}"])
    return rows


NORM_PROOF = """
**Why the bound holds.** The language fixes the order of the sum (ir/README.md, section 6.3), so the number of roundings
per element is known. In a piece of 16,384 elements a lane adds 8 of them. That is 7 roundings, because adding to +0 is
exact. The fold has 11 levels, which makes 18. The results of P pieces are folded in the same way. That adds 11 roundings
for P up to 2,048, up to 18 for P up to 16,384 (2^28 elements), and so on by levels. Let h be the total.

No term of the sum is negative, so each rounding changes the result by a factor of at most 1 +- u, u = 2^-24. With the
rounding of the square, the sum has a factor of (1 +- u)^(h + 1). The square root halves the exponent and rounds once:
(1 +- u)^((h + 1) / 2 + 1). u |x| is at most one unit of x's last place. So the l2 norm is less than
1.01 ((h + 1) / 2 + 1) units off. That is 10.6 for one piece, 16.2 up to 33 M elements and 19.7 up to 268 M. The l1 norm
has no square and no root: 1.01 h units. The largest element is exact. The bound applies to the unscaled gradients in
f32, and supposes that their squares and the sum neither underflow nor overflow.

**Underflow and overflow.** Squares of elements below 2^-63 (1.1e-19) are rounded to subnormals or 0. A sum of squares
above 3.4e38 (a norm of 1.8e19) is infinite. torch's f32 norm has the same limits, except for a tensor of one element.
Wider sums would need three reductions instead of one.

An underflow changes no step. The coefficient is max_norm / (norm + 1e-6), which in f32 is the same for every norm below
2^-44. For larger norms, the lost part is less than 2^-25 of the sum of up to 2^37 elements. It shows only in the report
`grad_norm`. An overflow is flagged (`norm_overflow`). Unless the profile is a peer's, it skips the step and leaves the
scale alone.

"""

ROUND_GRAD = """
Option `round-grad` rounds 16-bit gradients after unscale and after clip, like a pipeline that writes them back. torch
rounds more: its norms of such gradients, the total and the coefficient are 16-bit values too. Ours are f32. The table
has gradients clipped to a norm of 1:

"""


def write_report(args):
    backend = args.backend
    run = functools.partial(compare.run, backend=backend)
    steps = 60 if args.quick else 1000
    start = time.time()
    changing = varying(run, backend)  # first, while nothing is in the cache
    rows, skipped = rounding(run, steps)
    zero = sum(c == "0" for r in rows for c in r[2:])
    cells = sum(c != "PyTorch has none" for r in rows for c in r[2:])
    norm_rows = own_norm(backend, args.quick)
    out = [f"""# Parity with PyTorch

`tools/parity.py --write` made this page. Every cell compares a run of real PyTorch with stepfuse's public API, bit by bit.
PyTorch {torch.__version__}, CPU capability {torch.backends.cpu.get_cpu_capability()}, {platform.machine()}; stepfuse's
backend `{backend}`. A cell counts elements that differ in any bit after the last step; **0** means that no parameter
differed after any step, and no moment, step count, loss scale or growth tracker did.

## Rounding: the whole AMP step, with torch's own norm

{steps:,} steps over four tensors in three parameter groups with their own learning rate and decay; {skipped} steps
overflow and are skipped by both. `fused` is compared with profile `torch-fused`, the others with `torch-foreach`.
`foreach` and `for-loop` run with a correctly rounded `sqrt` here, for reason (a) below. {zero} of {cells} cells
are 0.
""", table(["optimizer", "pipeline", "fused", "foreach", "for-loop"], rows), f"""
## As shipped: differences, and the lines that cause them

(a) `ATen/cpu/vml.h:155`, `IMPLEMENT_VML_MKL(sqrt, Sqrt)` with lines 98-126. `torch.sqrt` of f32 on the CPU is MKL's
`vmsSqrt`, which is not correctly rounded. On the machine that wrote this page it misses {sqrt_misses():,} of
1,048,576 random inputs. MKL chooses by processor, so this count and the table differ elsewhere. The table shows
`foreach` and `for-loop` with that sqrt after {steps:,} steps. SGD has no square root and is 0 above as shipped.
""", table(["optimizer", "implementation", "differing", "cause"], shipped(run, steps)), """
(b) `ATen/native/cpu/FusedAdamKernel.cpp`, the scalar loop after the vector loop. It contracts
`exp_avg_sq_ptr[d] * scalar_t(beta2)` and the sum after it the other way round than the vector loop. So the last
`numel % 8` elements of a tensor round differently from all others. `FusedSGDKernel.cpp` has such a loop too, and fused
SGD with momentum the same tail. Other sizes and cases:

""", table(["case", "differing", "cause"], others(run, steps)), """
Two cases of fused SGD with momentum are not compared, because PyTorch's own state is undefined:

- If the very first step overflows, `momentum_buffer` stays uninitialised. `torch/optim/sgd.py`, `_fused_sgd`, line 511
  sets `momentum_buffer_list[i] = torch.empty_like(g)` with `is_first_step`, and the kernel returns without writing it.
- If some parameters have had a gradient and others have not, fused SGD fails. Here a tensor's first gradient fills its
  buffer.

(c) `torch/optim/adam.py`, `step_t += 1` on an f32 tensor stops counting at 2^24. Here the count is an i64. The bias
corrections are 1 on both sides by then.

(d) `beta^t` is a product of squares here (`powi`), and the C library's `pow` in torch. A library's rounding is not part
of the language. Both are f64. The table has the first step at which the f32 correction `sqrt(1 - beta^t)` differs:

""", table(["beta", "first differing step"], powers()), f"""
## Our own norm

The table has the distance from the float64 norm in units of the last place, for our norm and for that of
`torch.nn.utils.get_total_norm`, and a bound for ours that holds for all gradients of these sizes.
""", table(["gradients", "elements", "norm", "ours", "bound", "torch's"], norm_rows), NORM_PROOF,
           table(["gradients", "exact norm", "ours", "clip_coef, max_norm 1", "torch's"], norms.extremes(backend)), ROUND_GRAD,
           table(["gradients", "torch's norm", "ours", "differing clipped gradients"],
                 [norms.rounded_16(t, backend) for t in (torch.bfloat16, torch.float16)])]
    effect = norms.effect(compare.CASES[0], steps, backend)
    out += ["""
## Other clipping, and the moving average

AdamW, with torch's norm if there is one.

""", table(["with", "fused", "for-loop"], clipping(run, steps)), f"""
## Our own norm, in the parameters

After {steps:,} clipped steps of AdamW, each side with its own norm: {effect.weights} of {effect.elements} weights differ, by
at most {effect.worst_ulps} ulp ({effect.worst_diff:.1e}).

## Several optimizers on one loss scaler

The peer is `torch.amp.GradScaler("cpu")`. Each optimizer overflows in a random subset of the iterations and skips by
its own flag. There is one update per iteration. Numbers are iterations after which any bit differed.
"""]
    iterations = 100 if args.quick else 2000
    rows = []
    for n in (1, 2, 3):
        for factors in ((2.0, 0.5), (1.7, 0.6)):
            c = scalers.several(n, iterations, backend, factors=factors)
            rows.append([n, f"{factors[0]}, {factors[1]}", f"{iterations:,}", c["overflowed iterations"], c["skipped"],
                         c["scales seen"], c["scale"], c["weights"]])
    out.append(table(["optimizers", "growth, backoff", "iterations", "with an overflow", "skipped steps",
                      "different scales", "scale or tracker differs", "a parameter differs"], rows))
    rows = []
    for policy, model in (("apex", "`update_scale_hysteresis`"), ("megatron", "`DynamicGradScaler`")):
        c = scalers.hysteresis(policy, iterations, backend)
        rows.append([policy, model, f"{iterations:,}", f"{c['smallest']:g} … {c['largest']:g}", c["differ"]])
    out += ["\nHysteresis, compared with an independent model of each rule (`tools/peers/scalers.py`):\n\n",
            table(["policy", "rule of", "iterations", "scales", "differing"], rows)]
    over = scalers.norm_overflow(300, backend)
    low = scalers.lowered_interval(backend=backend)
    out.append(f"""
Finite gradients whose norm overflows, 300 steps in a row: {over['flagged']} flagged `norm_overflow` and skipped, scale
{over['scale']:g} (it started at 65536), step count {over['count']:g}.
`growth_interval` lowered below the tracker in mid-run: profile `torch-fused` differs from GradScaler after
{low['torch-fused']['differ']} of 400 iterations (both wait for the next overflow); profile `standard` grows at the next
good step instead.

The standard profile's scale has a floor of 2^-126 (1.18e-38), because the reciprocal of a smaller scale is infinite. An
overflow at the floor leaves the scale unchanged. GradScaler continues down to 0, and so do the torch profiles.

## Zeros as data

Without a decay torch leaves the gradient as it is. Without a momentum it also leaves the buffer, which starts, undamped,
with the first other momentum. stepfuse does the same, although both are data of a launch.

""")
    out.append(table(["", "optimizer", "implementation", "differing"], zeros(run, min(steps, 200))))
    out.append(f"""
## Missing gradients, a parameter added later

20 tensors, each without a gradient with probability 0.3 per step, one more added at step 100, {steps // 2} steps; `step`
included.

""")
    out.append(table(["optimizer", "implementation", "differing"], missing(run, max(steps // 2, 120))))
    out.append("""
## Hyperparameters that change

Every hyperparameter of three groups changes at every step, 100 steps.

""")
    out.append(table(["optimizer", "implementation", "differing", "kernels compiled"], changing))
    lion = formulas.lion(100 if args.quick else 500, backend)
    apex = [formulas.apex(recipe, 500, backend) for recipe in ("adamw", "adam")]
    out.append(f"""
## Formulas whose peers do not run here

Profile `apex` is compared with an independent model of Apex' FusedAdam, which rounds every operation to f32 and
contracts none. After 500 steps, {sum(a['differ'] for a in apex)} of {sum(a['elements'] for a in apex)} weights and moments differ over `adamw` and
`adam`. (Apex' own build contracts as its compiler likes, so no other program can be bit-identical.)

Lion, against the formula of Chen et al. (2023) in float64, {100 if args.quick else 500} steps: largest
distance of a weight {lion['worst']:.1e} (weights reach {lion['largest']:.2f}); {lion['undecided']} of {lion['elements']} elements met a sign that
rounding decides and are left out.
""")
    print(f"{time.time() - start:.0f} s", file=sys.stderr)
    return "\n".join(part.strip("\n") + "\n" for part in out)


def check(backend):
    run = functools.partial(compare.run, backend=backend)
    rows, skipped = rounding(run, 40)
    bad = [row for row in rows if any(c not in ("0", "PyTorch has none") for c in row[2:])]
    bad += [row for row in missing(run, 120) + varying(run, backend) if row[2] != "0"]
    bad += [row for row in clipping(run, 60) if row[1:] != ["0", "0"]]
    bad += [row for row in zeros(run, 90) if row[-1] != "0"]
    bad += [row for row in own_norm(backend, True) if float(row[3]) > float(row[4])]
    bad += [row for row in norms.extremes(backend)[:2] if row[3] != "1"]
    for n in (1, 2, 3):
        c = scalers.several(n, 60, backend)
        bad += [[n, c]] if c["scale"] or c["weights"] or not c["skipped"] else []
    bad += [["apex", r] for r in ("adamw", "adam") if formulas.apex(r, 50, backend)["differ"]]
    for row in bad:
        print(*row)
    print(f"PyTorch {torch.__version__}, {backend}: {len(rows)} rows, {skipped} overflows each; {len(bad)} bad")
    return 1 if bad or not skipped else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="cpu", help="cpu, cpu:split, cpu:unfused or interpret")
    parser.add_argument("--quick", action="store_true", help="few steps: a check that everything runs")
    parser.add_argument("--check", action="store_true",
                        help="few steps of the comparisons that must be 0; fails if one is not")
    parser.add_argument("--write", action="store_true", help="write docs/parity.md instead of printing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.check:
        return check(args.backend)
    report = write_report(args)
    if args.write:
        path = ROOT / "docs" / "parity.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(report)
    else:
        print(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
