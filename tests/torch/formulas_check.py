"""Built-in formulas beside the real peers on the CPU: random hyperparameters and awkward sizes, to the bit where the
peer is elementwise.

    tests/torch/formulas_check.py [--draws N] [NAME...]

Needs PyTorch and the library torch_bridge; timm, pytorch_optimizer and schedulefree where they are installed.
"""

import argparse
import importlib.util
import math
import pathlib
import random
import sys
import types

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/peers"))
import torch  # noqa: E402

import peer  # noqa: E402
from bridge import Step  # noqa: E402

SIZES = [1, 3, 7, 16, 31, 257, 1000, 2049]
STEPS = 30


def log_uniform(low, high):
    return lambda r: math.exp(r.uniform(math.log(low), math.log(high)))


def decay(r):
    return r.choice([0.0, r.uniform(0.001, 0.3)])


def beta(low=0.5):
    return lambda r: r.uniform(low, 0.9999)


LR, EPS = log_uniform(1e-4, 0.3), log_uniform(1e-10, 1e-4)
ADAM = {"lr": LR, "beta1": beta(), "beta2": beta(0.8), "eps": EPS, "weight_decay": decay}


def adam_like(h, **more):
    return {"lr": h["lr"], "betas": (h["beta1"], h["beta2"]), "eps": h["eps"], "weight_decay": h["weight_decay"], **more}


def same(h):
    return dict(h)


class Case:
    """A formula, its peer's class, the draws of its hyperparameters, and how the peer calls them."""

    def __init__(self, cls, draws, keywords, state=None, exact=True, options="", fixed=None):
        self.cls, self.draws, self.keywords, self.options = cls, draws, keywords, options
        self.state, self.exact, self.fixed = state or {}, exact, {"foreach": False} if fixed is None else fixed


TORCH = "torch.optim."
CASES = {
    "adamax": Case(TORCH + "Adamax", ADAM, adam_like, {"exp_avg": "exp_avg", "exp_inf": "exp_inf"}),
    "adadelta": Case(TORCH + "Adadelta", {"lr": LR, "rho": beta(), "eps": EPS, "weight_decay": decay}, same,
                     {"square_avg": "square_avg", "acc_delta": "acc_delta"}),
    "nadam": Case(TORCH + "NAdam", {**ADAM, "momentum_decay": log_uniform(1e-4, 1e-1)},
                  lambda h: adam_like(h, momentum_decay=h["momentum_decay"]),
                  {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}),
    "asgd": Case(TORCH + "ASGD", {"lr": LR, "lambd": log_uniform(1e-5, 1e-1), "alpha": lambda r: r.uniform(0.3, 1),
                                  "t0": lambda r: r.choice([1e6, 3, 10]), "weight_decay": decay}, same, {"ax": "ax"}),
    "radam": Case(TORCH + "RAdam", ADAM, adam_like, {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}),
    "rprop": Case(TORCH + "Rprop",
                  {"lr": LR, "etaminus": lambda r: r.uniform(0.2, 0.9), "etaplus": lambda r: r.uniform(1.05, 2.0),
                   "step_size_min": log_uniform(1e-8, 1e-5), "step_size_max": log_uniform(0.5, 50)},
                  lambda h: {"lr": h["lr"], "etas": (h["etaminus"], h["etaplus"]),
                             "step_sizes": (h["step_size_min"], h["step_size_max"])},
                  {"prev": "prev", "step_size": "step_size"}),
    "adan": Case("timm.optim.adan.Adan", {**ADAM, "beta3": beta(0.8)},
                 lambda h: {"lr": h["lr"], "betas": (h["beta1"], h["beta2"], h["beta3"]), "eps": h["eps"],
                            "weight_decay": h["weight_decay"]},
                 {"exp_avg": "exp_avg", "exp_avg_diff": "exp_avg_diff", "exp_avg_sq": "exp_avg_sq"}),
    "adopt": Case("timm.optim.adopt.Adopt", ADAM,
                  lambda h: adam_like(h, decoupled=True, clip_exp=0.25),
                  {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}),
    "lamb": Case("timm.optim.lamb.Lamb", ADAM, lambda h: adam_like(h, max_grad_norm=None, always_adapt=True),
                 {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq"}, exact=False),
    "lars": Case("timm.optim.lars.Lars",
                 {"lr": LR, "momentum": beta(), "dampening": lambda r: r.choice([0.0, r.uniform(0.1, 0.5)]),
                  "weight_decay": decay, "trust_coefficient": log_uniform(1e-4, 1e-1), "eps": EPS},
                 lambda h: {("trust_coeff" if k == "trust_coefficient" else k): v for k, v in h.items()} |
                 {"always_adapt": True}, exact=False),
    "adabelief": Case("pytorch_optimizer.AdaBelief", ADAM, lambda h: adam_like(h, rectify=False, weight_decouple=True),
                      {"exp_avg": "exp_avg", "exp_avg_var": "exp_avg_var"}),
    "ademamix": Case("pytorch_optimizer.AdEMAMix", {**ADAM, "beta3": beta(0.9), "alpha": lambda r: r.uniform(1, 10)},
                     lambda h: {"lr": h["lr"], "betas": (h["beta1"], h["beta2"], h["beta3"]), "eps": h["eps"],
                                "alpha": h["alpha"], "weight_decay": h["weight_decay"], "weight_decouple": True},
                     {"exp_avg": "exp_avg", "exp_avg_sq": "exp_avg_sq", "exp_avg_slow": "exp_avg_slow"}),
    "schedule_free_adamw": Case("schedulefree.AdamWScheduleFree", ADAM, adam_like,
                                {"exp_avg_sq": "exp_avg_sq", "z": "z"}),
    "schedule_free_sgd": Case("schedulefree.SGDScheduleFree",
                              {"lr": LR, "momentum": beta(), "weight_decay": decay}, same, {"z": "z"}),
}


def leave_out_init(*packages):
    """Makes packages of which only single modules are wanted: timm's own imports of itself ask for torchvision."""
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None:
            return
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = spec.submodule_search_locations


def find(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def gradient(generator, step, n):
    """Values of all sizes, zeros and equal neighbours among them."""
    g = torch.randn(n, generator=generator) * 10 ** float(torch.randint(-4, 3, (1,), generator=generator))
    g[torch.rand(n, generator=generator) < 0.1] = 0.0
    return g


def compare(name, case, seed, backend):
    """The largest difference relative to the weights' size, and how many elements differ in a bit."""
    r = random.Random(f"{name} {seed}")
    generator = torch.Generator().manual_seed(r.getrandbits(30))
    hyper = {n: draw(r) for n, draw in case.draws.items()}
    sizes = r.sample(SIZES, 4)
    start = [torch.randn(n, generator=generator) for n in sizes]
    params = [torch.nn.Parameter(w.clone()) for w in start]
    ours = [w.clone() for w in start]
    cls = find(case.cls)
    optimizer = cls(params, **case.keywords(hyper), **case.fixed)
    if hasattr(optimizer, "train"):
        optimizer.train()
    step = Step(name, f"{case.options} profile=torch-foreach", backend)
    buffers = [line.split()[1][1:] for line in step.text().splitlines() if line.strip().startswith("buffer @")]
    kept = {b: [torch.zeros(n) for n in sizes] for b in buffers if b not in ("grad", "weight")}
    step.bind([0] * len(sizes), weight=ours, **kept)
    step.init_state()
    step.set(0, **hyper)
    for t in range(STEPS):
        grads = [gradient(generator, t, n) for n in sizes]
        for p, g in zip(params, grads):
            p.grad = g.clone()
        with peer.ieee_sqrt():
            optimizer.step()
        step.run(grads)
    bits = sum(peer.differing(a, p) for a, p in zip(ours, params))
    for b, theirs in case.state.items():
        bits += sum(peer.differing(a, optimizer.state[p][theirs]) for a, p in zip(kept[b], params))
    worst = max(float(((a - p.detach()).abs() / (p.detach().abs() + 1e-3)).max()) for a, p in zip(ours, params))
    return bits, worst, hyper


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    parser.add_argument("--backend", default="interpret")
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    leave_out_init("timm", "timm.optim")
    failed = 0
    for name in a.names or CASES:
        case = CASES[name]
        try:
            find(case.cls)
        except ImportError as e:
            print(f"{name:22} skipped: {e}")
            continue
        exact, worst, first = 0, 0.0, None
        for seed in range(a.seed, a.seed + a.draws):
            bits, difference, hyper = compare(name, case, seed, a.backend)
            exact += bits == 0
            worst = max(worst, difference)
            bad = bits > 0 if case.exact else not difference < 1e-4
            if bad and first is None:
                first = f"draw {seed}: {bits} elements differ, {hyper}"
        print(f"{name:22} {case.cls:38} {exact}/{a.draws} draws to the bit, largest difference {worst:.1e}", flush=True)
        if first:
            failed += 1
            print(f"  FAILED at {first}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
