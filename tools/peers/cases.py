"""Built-in formulas and their peers: who they are, how hyperparameters are drawn, and one comparison of a draw.

Needs PyTorch, the Python package and the peers only where something is compared.
"""

import contextlib
import importlib
import importlib.util
import math
import pathlib
import random
import re
import sys
import types

SIZES = [1, 3, 7, 16, 31, 257, 1000, 2049]
MATRICES = [(1,), (7,), (257,), (2, 3), (64, 5), (65, 40), (300, 7), (31, 130), (5, 1)]
STEPS = 30


def log_uniform(low, high):
    return lambda r: math.exp(r.uniform(math.log(low), math.log(high)))


def decay(r):
    return r.choice([0.0, r.uniform(0.001, 0.3)])


def beta(low=0.5):
    return lambda r: r.uniform(low, 0.9999)


LR, EPS = log_uniform(1e-4, 0.3), log_uniform(1e-10, 1e-4)
ADAM = {"lr": LR, "beta1": beta(), "beta2": beta(0.8), "eps": EPS, "weight_decay": decay}
SGD = {"lr": LR, "momentum": beta(), "weight_decay": decay}

WEIGHTED = {"warmup_steps": lambda r: r.choice([0, 1, 5, 30]), "r": lambda r: r.choice([0.0, r.uniform(0.1, 2)]),
            "weight_lr_power": lambda r: r.choice([0.0, 2.0, r.uniform(0.5, 3)])}


def adam_like(h, **more):
    betas = tuple(h[b] for b in ("beta1", "beta2", "beta3") if b in h)
    return {"betas": betas, **{n: v for n, v in h.items() if not n.startswith("beta")}, **more}


class Case:
    """A formula's peer, the draws of its hyperparameters, how the peer calls them, and which state is its own.

    `near` is the largest relative difference where the peer reduces or rounds in a different order, and why; without it
    nothing may differ in a bit.
    """

    def __init__(self, cls, draws, keywords=dict, state=(), near=None, options="", fixed=None, make=None, step=None,
                 gradient=None, formula=None, shapes=SIZES):
        self.cls, self.draws, self.keywords, self.options, self.near = cls, draws, keywords, options, near
        self.state = state if isinstance(state, dict) else {name: name for name in state}
        self.fixed = {"foreach": False} if fixed is None else fixed
        self.make = make or (lambda cls, params, keywords: cls(params, **keywords))
        self.formula = formula
        self.shapes = shapes
        self.gradient = gradient or (lambda p, generator: drawn(p.numel(), generator))
        self.step = step or (lambda optimizer, kept, generator, hyper: optimizer.step())

    def flags(self):
        return [f"--{option}" for option in self.options.split()]

    def peer(self):
        """Returns the peer's name and the version that it was compared with."""
        package, name = self.cls.partition(".")[0], self.cls.rpartition(".")[2]
        if package == "models":
            return "a model in float64: no package has it"
        of_pypi = {"optimi": "torch-optimi", "adam_mini": "adam-mini"}.get(package, package)
        return f"`{name}`, {of_pypi} {VERSIONS[of_pypi]}"


# The peers' versions by package; that of PyTorch is the default of the script that installs it.
TOOLS = pathlib.Path(__file__).parent.parent
VERSIONS = dict(re.findall(r"^([\w-]+)==(\S+)", (TOOLS / "peers/requirements.txt").read_text(encoding="utf-8"), re.MULTILINE))
VERSIONS["torch"] = re.search(r"version=\$\{2:-([\d.]+)\}", (TOOLS / "torch_env.sh").read_text(encoding="utf-8"))[1]


def decayed_first(optimizer, kept, generator, hyper):
    """torch's AdamW without its own decay, behind one that does not depend on lr."""
    import torch
    with torch.no_grad():
        for p in optimizer.param_groups[0]["params"]:
            p.mul_(1 - hyper["weight_decay"])
    optimizer.step()


def with_hessian(optimizer, kept, generator, hyper):
    """An estimate of the diagonal, whose average the peer keeps by itself."""
    import torch
    estimates = [torch.rand(h.numel(), generator=generator) for h in kept["hessian"]]
    for h, estimate in zip(kept["hessian"], estimates):
        h.lerp_(estimate, 1 - 0.99)
    optimizer.step(hessian=estimates)


def clipped_by_weights(optimizer, kept, generator, hyper):
    """timm's adaptive_clip_grad before the step."""
    find("timm.utils.agc.adaptive_clip_grad")([p for g in optimizer.param_groups for p in g["params"]],
                                              hyper["clip_factor"], hyper["clip_eps"])
    optimizer.step()


def of_a_bowl(p, generator):
    """Returns gradients of a bowl, mostly, so that the weights have a minimum to move to."""
    return p + 0.1 * drawn(p.numel(), generator).clamp(-1, 1)


def named(cls, params, keywords):
    return cls([(f"t{i}", p) for i, p in enumerate(params)], verbose=False, **keywords)


TORCH, TIMM, PYTORCH_OPTIMIZER = "torch.optim.", "timm.optim.", "pytorch_optimizer."
MOMENTS = ("exp_avg", "exp_avg_sq")
SIGNS = (1e-4, "the momentum is rounded in a different order, and only its sign counts")
SUMS = (1e-3, "a sum over the tensor in a different order")
CASES = {
    "adam": Case(TORCH + "Adam", ADAM, adam_like, MOMENTS),
    "adamw": Case(TORCH + "AdamW", ADAM, adam_like, MOMENTS),
    "sgd": Case(TORCH + "SGD", {**SGD, "dampening": lambda r: r.choice([0.0, r.uniform(0.1, 0.5)])}, dict,
                ("momentum_buffer",), options="momentum"),
    "rmsprop": Case(TORCH + "RMSprop", {"lr": LR, "alpha": beta(), "eps": EPS, "weight_decay": decay, "momentum": beta()},
                    dict, ("square_avg", "momentum_buffer"), options="momentum"),
    "adagrad": Case(TORCH + "Adagrad", {"lr": LR, "lr_decay": log_uniform(1e-4, 0.1), "eps": EPS, "weight_decay": decay},
                    dict, ("sum",)),
    "adamax": Case(TORCH + "Adamax", ADAM, adam_like, ("exp_avg", "exp_inf")),
    "adadelta": Case(TORCH + "Adadelta", {"lr": LR, "rho": beta(), "eps": EPS, "weight_decay": decay}, dict,
                     ("square_avg", "acc_delta")),
    "nadam": Case(TORCH + "NAdam", {**ADAM, "momentum_decay": log_uniform(1e-4, 1e-1)}, adam_like, MOMENTS),
    "asgd": Case(TORCH + "ASGD", {"lr": LR, "lambd": log_uniform(1e-5, 1e-1), "alpha": lambda r: r.uniform(0.3, 1),
                                  "t0": lambda r: r.choice([1e6, 3, 10]), "weight_decay": decay}, dict, ("ax",)),
    "radam": Case(TORCH + "RAdam", ADAM, adam_like, MOMENTS),
    "rprop": Case(TORCH + "Rprop",
                  {"lr": LR, "etaminus": lambda r: r.uniform(0.2, 0.9), "etaplus": lambda r: r.uniform(1.05, 2.0),
                   "step_size_min": log_uniform(1e-8, 1e-5), "step_size_max": log_uniform(0.5, 50)},
                  lambda h: {"lr": h["lr"], "etas": (h["etaminus"], h["etaplus"]),
                             "step_sizes": (h["step_size_min"], h["step_size_max"])}, ("prev", "step_size")),
    "adamw_independent_decay": Case(TORCH + "AdamW", {**ADAM, "weight_decay": lambda r: r.choice([0.0, r.uniform(1e-5, 0.05)])},
                                    lambda h: adam_like(h) | {"weight_decay": 0}, MOMENTS, step=decayed_first),
    "adan": Case(TIMM + "adan.Adan", {**ADAM, "beta3": beta(0.8)}, adam_like, ("exp_avg", "exp_avg_diff", "exp_avg_sq")),
    "adopt": Case(TIMM + "adopt.Adopt", ADAM, lambda h: adam_like(h, decoupled=True, clip_exp=0.25), MOMENTS),
    "lamb": Case(TIMM + "lamb.Lamb", ADAM, lambda h: adam_like(h, max_grad_norm=None, always_adapt=True), MOMENTS, SUMS),
    "lars": Case(TIMM + "lars.Lars",
                 {**SGD, "dampening": lambda r: r.choice([0.0, r.uniform(0.1, 0.5)]),
                  "trust_coefficient": log_uniform(1e-4, 1e-1), "eps": EPS},
                 lambda h: {("trust_coeff" if k == "trust_coefficient" else k): v for k, v in h.items()} |
                 {"always_adapt": True}, near=SUMS),
    "mars": Case(TIMM + "mars.Mars", {**ADAM, "gamma": log_uniform(1e-3, 0.1)}, lambda h: adam_like(h, optimize_1d=True),
                 MOMENTS, SUMS, fixed={}),
    "cautious_adamw": Case(TIMM + "adamw.AdamWLegacy", ADAM, lambda h: adam_like(h, caution=True), MOMENTS, fixed={}),
    "cautious_lion": Case(TIMM + "lion.Lion", {n: d for n, d in ADAM.items() if n != "eps"},
                          lambda h: adam_like(h, caution=True), ("exp_avg",)),
    "lion": Case(PYTORCH_OPTIMIZER + "Lion", {n: d for n, d in ADAM.items() if n != "eps"},
                 lambda h: adam_like(h, weight_decouple=True), ("exp_avg",), SIGNS),
    "signum": Case(PYTORCH_OPTIMIZER + "SignSGD", SGD, lambda h: {**h, "weight_decouple": True},
                   ("momentum_buffer",), SIGNS),
    "adabelief": Case(PYTORCH_OPTIMIZER + "AdaBelief", ADAM, lambda h: adam_like(h, rectify=False, weight_decouple=True),
                      ("exp_avg", "exp_avg_var")),
    "ademamix": Case(PYTORCH_OPTIMIZER + "AdEMAMix", {**ADAM, "beta3": beta(0.9), "alpha": lambda r: r.uniform(1, 10)},
                     lambda h: adam_like(h, weight_decouple=True), ("exp_avg", "exp_avg_sq", "exp_avg_slow")),
    "novograd": Case(PYTORCH_OPTIMIZER + "NovoGrad", ADAM, lambda h: adam_like(h, weight_decouple=False),
                     {"exp_avg": "moments"}, SUMS),
    "sophia": Case(PYTORCH_OPTIMIZER + "SophiaH", {"lr": LR, "beta1": beta(), "eps": EPS, "weight_decay": decay,
                                                   "gamma": lambda r: 1.0},
                   lambda h: {"lr": h["lr"], "betas": (h["beta1"], 0.99), "eps": h["eps"],
                              "weight_decay": h["weight_decay"], "weight_decouple": True, "p": 1.0},
                   {"exp_avg": "momentum", "hessian": "hessian_moment"}, step=with_hessian),
    "stable_adamw": Case("optimi.StableAdamW", ADAM, adam_like, MOMENTS, SUMS, fixed={"foreach": False, "triton": False}),
    "schedule_free_adamw": Case("schedulefree.AdamWScheduleFree", ADAM, adam_like, ("exp_avg_sq", "z")),
    "schedule_free_sgd": Case("schedulefree.SGDScheduleFree", SGD, dict, ("z",)),
    "prodigy": Case("prodigyopt.Prodigy", {**ADAM, "lr": lambda r: r.uniform(0.3, 1), "beta3": beta(0.9),
                                           "d_coef": lambda r: r.uniform(0.5, 2)},
                    lambda h: {n: v for n, v in h.items() if n not in ("beta1", "beta2")} |
                    {"betas": (h["beta1"], h["beta2"])}, near=(1e-2, "sums of differences of weights that are a few ulps apart"),
                    fixed={}, gradient=of_a_bowl),
    "adam_mini": Case("adam_mini.Adam_mini", ADAM, adam_like, {"exp_avg": "m"}, SUMS, fixed={}, make=named),
    "adamw_cautious_decay": Case("models.CautiousDecay", ADAM, dict, near=(1e-3, "a model in float64"), fixed={}),
    "adafactor": Case(TORCH + "Adafactor", {"lr": LR, "beta2_decay": lambda r: r.uniform(-1, -0.3), "eps1": log_uniform(1e-8, 1e-5),
                                            "eps2": log_uniform(1e-4, 1e-2), "d": lambda r: r.uniform(1, 3), "weight_decay": decay},
                      lambda h: {n: v for n, v in h.items() if n not in ("eps1", "eps2")} | {"eps": (h["eps1"], h["eps2"])},
                      near=SUMS, shapes=MATRICES),
    "sm3": Case(PYTORCH_OPTIMIZER + "SM3", {"lr": LR, "momentum": beta(), "beta": lambda r: r.choice([0.0, r.uniform(0.5, 0.9999)]),
                                            "eps": log_uniform(1e-30, 1e-8)}, dict, ("momentum_buffer",), options="momentum",
                shapes=MATRICES),
    "schedule_free_adamw weighted": Case("schedulefree.AdamWScheduleFree", {**ADAM, **WEIGHTED}, adam_like, ("exp_avg_sq", "z"),
                                         formula="schedule_free_adamw", options="with=warmup_steps|weighted"),
    "schedule_free_sgd weighted": Case("schedulefree.SGDScheduleFree", {**SGD, **WEIGHTED}, dict, ("z",),
                                       formula="schedule_free_sgd", options="with=warmup_steps|weighted"),
    # Not an optimizer of its own: a way of clipping.
    "clip=adagc": Case(PYTORCH_OPTIMIZER + "AdaGC",
                       {**ADAM, "eps": lambda r: 1e-8, "max_norm": log_uniform(0.1, 10), "clip_growth": lambda r: r.uniform(1, 1.2),
                        "clip_decay": beta(0.9), "clip_warmup": lambda r: r.randint(1, 20)},
                       lambda h: {"lr": h["lr"], "betas": (h["beta1"], h["beta2"]), "eps": h["eps"], "beta": h["clip_decay"],
                                  "weight_decay": h["weight_decay"], "weight_decouple": True, "lambda_abs": h["max_norm"],
                                  "lambda_rel": h["clip_growth"], "warmup_steps": h["clip_warmup"] + 1},
                       near=(1e-3, "averages of norms in f32 there, in f64 here"), formula="adamw", options="clip=adagc"),
    "clip=agc": Case(TORCH + "AdamW", {**ADAM, "clip_factor": log_uniform(1e-4, 1), "clip_eps": log_uniform(1e-4, 1)},
                     lambda h: adam_like({n: v for n, v in h.items() if n in ADAM}), near=SUMS, step=clipped_by_weights,
                     formula="adamw", options="clip=agc"),
}


def leave_out_init(*packages):
    """Makes empty packages, so that single modules can be imported: timm's __init__ imports torchvision."""
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None:
            return
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = spec.submodule_search_locations


def find(path):
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def drawn(n, generator):
    """Values of all sizes, zeros among them."""
    import torch
    g = torch.randn(n, generator=generator) * 10 ** float(torch.randint(-4, 3, (1,), generator=generator))
    g[torch.rand(n, generator=generator) < 0.1] = 0.0
    return g


def compare(name, seed, backend):
    """How many elements differ in a bit, the largest difference relative to the weights' size, and what was drawn."""
    import peer
    import torch
    from bridge import Step
    case = CASES[name]
    r = random.Random(f"{name} {seed}")
    generator = torch.Generator().manual_seed(r.getrandbits(30))
    hyper = {n: draw(r) for n, draw in case.draws.items()}
    shapes = r.sample(case.shapes, 4)
    ours = [torch.randn(shape, generator=generator) for shape in shapes]
    params = [torch.nn.Parameter(w.clone()) for w in ours]
    with contextlib.redirect_stdout(None):  # some say hello
        optimizer = case.make(find(case.cls), params, {**case.keywords(hyper), **case.fixed})
    if hasattr(optimizer, "train"):
        optimizer.train()
    step = Step(case.formula or name, f"{case.options} profile=torch-foreach", backend)
    kept = {b: [torch.zeros(shape) for shape in shapes] for b in step.names() if b not in ("grad", "weight")}
    step.bind([0] * len(shapes), weight=ours, **kept)
    step.init_state()
    step.set(**hyper)
    for _ in range(STEPS):
        grads = [case.gradient(p.detach(), generator).view(p.shape) for p in params]
        for p, g in zip(params, grads):
            p.grad = g.clone()
        with peer.ieee_sqrt():
            case.step(optimizer, kept, generator, hyper)
        step.run(grads)
    bits = sum(peer.differing(a, p) for a, p in zip(ours, params))
    for b, theirs in case.state.items():
        bits += sum(peer.differing(a, optimizer.state[p][theirs]) for a, p in zip(kept[b], params))
    worst = max(float(((a - p.detach()).abs() / (p.detach().abs() + 1e-3)).max()) for a, p in zip(ours, params))
    return bits, worst, hyper
