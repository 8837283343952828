"""Runs a recipe and PyTorch's optimizer side by side over the same scaled gradients and counts differing elements."""

import dataclasses

import torch

import inputs
import peer
from bridge import Step


@dataclasses.dataclass
class Case:
    name: str
    recipe: str
    cls: type
    options: str = ""          # of the recipe
    keywords: dict = dataclasses.field(default_factory=dict)  # of torch's optimizer
    hyper: dict = dataclasses.field(default_factory=dict)     # lr, betas, …: both


ADAM = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}
CASES = [
    Case("AdamW", "adamw", torch.optim.AdamW, hyper={**ADAM, "weight_decay": 0.01}),
    Case("AdamW, AMSGrad", "adamw", torch.optim.AdamW, "amsgrad", {"amsgrad": True}, {**ADAM, "weight_decay": 0.01}),
    Case("AdamW, maximize", "adamw", torch.optim.AdamW, "maximize", {"maximize": True}, {**ADAM, "weight_decay": 0.01}),
    Case("AdamW, betas 0.4 and 0.5", "adamw", torch.optim.AdamW,
         hyper={"lr": 1e-3, "betas": (0.4, 0.5), "eps": 1e-6, "weight_decay": 0.1}),
    Case("Adam", "adam", torch.optim.Adam, hyper={**ADAM, "weight_decay": 0.0}),
    Case("Adam, L2", "adam", torch.optim.Adam, hyper={**ADAM, "weight_decay": 0.01}),
    Case("Adam, L2, AMSGrad, maximize", "adam", torch.optim.Adam, "amsgrad maximize",
         {"amsgrad": True, "maximize": True}, {**ADAM, "weight_decay": 0.01}),
    Case("SGD", "sgd", torch.optim.SGD, hyper={"lr": 1e-2, "weight_decay": 1e-3}),
    Case("SGD, momentum", "sgd", torch.optim.SGD, "momentum", {},
         {"lr": 1e-2, "momentum": 0.9, "weight_decay": 1e-3}),
    Case("SGD, momentum, dampening", "sgd", torch.optim.SGD, "momentum", {},
         {"lr": 1e-2, "momentum": 0.9, "dampening": 0.3, "weight_decay": 1e-3}),
    Case("SGD, Nesterov, maximize", "sgd", torch.optim.SGD, "momentum nesterov maximize",
         {"nesterov": True, "maximize": True}, {"lr": 1e-2, "momentum": 0.9, "weight_decay": 1e-3}),
    Case("RMSprop", "rmsprop", torch.optim.RMSprop, hyper={"lr": 1e-3, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0.01}),
    Case("RMSprop, centered, momentum", "rmsprop", torch.optim.RMSprop, "centered momentum", {"centered": True},
         {"lr": 1e-3, "alpha": 0.97, "eps": 1e-6, "momentum": 0.9, "weight_decay": 0.01}),
    Case("Adagrad", "adagrad", torch.optim.Adagrad,
         hyper={"lr": 1e-2, "lr_decay": 1e-3, "eps": 1e-10, "weight_decay": 0.01}),
]


def recipe_args(hyper):
    """torch's names to the recipe's."""
    args = {}
    for name, value in hyper.items():
        if name == "betas":
            args["beta1"], args["beta2"] = value
        else:
            args[name] = value
    return args


@dataclasses.dataclass
class Result:
    weights: int = 0       # differing elements after the last step
    kept: int = 0          # the same of what the optimizer keeps
    elements: int = 0
    worst_ulps: int = 0    # of the weights
    worst_diff: float = 0.0
    first_step: int = -1   # the first step after which a weight differed
    steps: int = 0         # differing step counts
    scale: int = 0         # steps after which the scale or its tracker differed
    skipped: int = 0       # steps that PyTorch skipped

    def zero(self):
        return not (self.weights or self.kept or self.steps or self.scale) and self.first_step < 0


class Pair:
    """One recipe and one torch optimizer over the same parameters in three groups."""

    def __init__(self, case, implementation, sizes, options, seed, backend="interpret", groups=3, scale_args=None):
        self.case, self.seed, self.sizes = case, seed, list(sizes)
        groups = min(groups, len(sizes))
        self.group_count = groups
        self.groups = [t % groups for t in range(len(sizes))]
        self.scale_args = scale_args or {}
        weights = [inputs.weights(seed, t, n) for t, n in enumerate(sizes)]
        self.parameters = [torch.nn.Parameter(w.clone()) for w in weights]
        param_groups = [{"params": [p for p, h in zip(self.parameters, self.groups) if h == g],
                         **self.hyper_of(g, 0)} for g in range(groups)]
        self.optimizer = peer.make_optimizer(case.cls, param_groups, implementation, **case.keywords, **case.hyper)
        profile = "torch-fused" if implementation == "fused" else "torch-foreach"
        self.step_ = Step(case.recipe, f"{case.options} {options} profile={profile}", backend)
        self.kept = {n: [torch.zeros(s) for s in sizes] for n in peer.KEPT if self.step_.slot(n) >= 0}
        self.weights = [w.clone() for w in weights]
        self.bind()
        self.set_hyper(0)

    def bind(self):
        self.step_.bind(self.groups, weight=self.weights, **self.kept)

    def hyper_of(self, group, step):
        """Every group has its own numbers; later steps may change them (see Varying)."""
        hyper = dict(self.case.hyper)
        hyper["lr"] *= 1 + group / 4
        if hyper.get("weight_decay"):
            hyper["weight_decay"] *= 1 + group
        return hyper

    def set_hyper(self, step):
        for g, group in enumerate(self.optimizer.param_groups):
            hyper = self.hyper_of(g, step)
            group.update(hyper)
            self.step_.set(g, **recipe_args(hyper))

    def append(self, n):
        """A parameter added later."""
        t = len(self.sizes)
        w = inputs.weights(self.seed, t, n)
        p = torch.nn.Parameter(w.clone())
        self.sizes.append(n)
        self.groups.append(self.group_count - 1)
        self.optimizer.param_groups[-1]["params"].append(p)
        self.parameters.append(p)
        self.weights.append(w.clone())
        for arrays in self.kept.values():
            arrays.append(torch.zeros(n))
        self.bind()

    def tally(self, step, result):
        weights = sum(peer.differing(w, p) for w, p in zip(self.weights, self.parameters))
        if weights and result.first_step < 0:
            result.first_step = step
        result.weights = weights
        result.elements = sum(self.sizes)
        return result

    def finish(self, result):
        for name, arrays in self.kept.items():
            result.kept += sum(peer.differing(a, peer.kept(self.optimizer, p, name))
                               for a, p in zip(arrays, self.parameters))
        for w, p in zip(self.weights, self.parameters):
            if w.numel():
                result.worst_ulps = max(result.worst_ulps, peer.ulps(w, p))
                result.worst_diff = max(result.worst_diff, float((w - p.detach()).abs().max()))
        for t, p in enumerate(self.parameters):
            theirs = self.optimizer.state.get(p, {}).get("step")
            if theirs is not None:
                result.steps += int(theirs) != int(self.step_.state("step", t))
        return result


def scale_differs(step, scaler):
    ours = torch.tensor(step.state("scale"), dtype=torch.float32)
    return int(not torch.equal(ours, scaler._scale) or int(step.state("growth_tracker")) != int(scaler._growth_tracker))


def run(case, implementation, steps=1000, sizes=(256, 48, 512, 16), clip=True, own_norm=False, seed=1, exact_sqrt=False,
        backend="interpret", ema=None, scale_args=None, overflow=16, missing=0, append_at=-1, pair_class=Pair):
    """The AMP pipeline of both sides: unscale, clip, step, update."""
    scale_args = scale_args or {"growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 7}
    clip = "l2" if clip is True else clip  # l2, l1, inf, value, unscale (unscale_ and no clip), or nothing
    # Divided by 1 micro-batch: then the gradient is multiplied by the scale's reciprocal, as unscale_ does.
    clipping = " accumulated" if clip == "unscale" else f" clip={clip}" if clip else ""
    options = "loss-scale" + clipping + (" ema" if ema else "")
    if clip in NORMS and not own_norm:
        options += " external-norm"
    pair = pair_class(case, implementation, sizes, options, seed, backend)
    average = peer.Average(pair.parameters, ema) if ema else None
    if ema:
        pair.kept["ema"] = [w.clone() for w in pair.weights]
        pair.bind()
        pair.step_.set(ema_decay=ema)
    scaler = peer.make_scaler(1024.0, **scale_args)
    pair.step_.set_state("scale", 1024.0)
    pair.step_.set(**scale_args)
    result = Result()
    with peer.ieee_sqrt(exact_sqrt):
        for step in range(steps):
            if step == append_at:
                pair.append(64)
            pair.set_hyper(step)
            scale = float(scaler._scale)
            grads = []
            for t, n in enumerate(pair.sizes):  # `missing`: how many in ten gradients
                if missing and inputs.chance(seed, 3, step, t, 10, missing):
                    grads.append(None)
                    continue
                grads.append(inputs.gradient(seed, step, t, n) * scale)
            found = [t for t, g in enumerate(grads) if g is not None and g.numel()]
            # Not at the very first step: torch's fused SGD then keeps an uninitialised buffer.
            if overflow and found and step > 0 and inputs.chance(seed, 6, step, 0, overflow):
                inputs.spoil(grads[found[0]], seed, step, found[0])
                result.skipped += 1
            step_once(pair, scaler, grads, clip, own_norm)
            if average:
                average.update()
            result.scale += scale_differs(pair.step_, scaler)
            pair.tally(step, result)
    if average:
        result.kept += sum(peer.differing(a, b) for a, b in zip(pair.kept.pop("ema"), average.values()))
    return pair.finish(result)


MAX_NORM = 1.5
MAX_VALUE = 0.25
FIRST_ZEROS = 20  # steps


class Switching(Pair):
    """The momentum is 0 at times, from the first step on; RMSprop's from later on, for torch's fails otherwise."""

    def hyper_of(self, group, step):
        hyper = super().hyper_of(group, step)
        zero = step // FIRST_ZEROS % 2 == (1 if self.case.recipe == "rmsprop" else 0)
        return {**hyper, "momentum": 0.0 if zero else hyper["momentum"]}


class InfiniteWeight(Pair):
    """Some weights are infinite and nothing decays: they stay so."""

    def __init__(self, case, *args, **keywords):
        super().__init__(dataclasses.replace(case, hyper={**case.hyper, "weight_decay": 0.0}), *args, **keywords)
        with torch.no_grad():
            for w, p in zip(self.weights, self.parameters):
                w[0] = p[0] = float("inf")


NORMS = {"l2": 2.0, "l1": 1.0, "inf": float("inf")}


def step_once(pair, scaler, grads, clip, own_norm):
    for p, g in zip(pair.parameters, grads):
        p.grad = None if g is None else g.clone()
    if all(g is None for g in grads):
        return
    if clip == "value":
        scaler.unscale_(pair.optimizer)
        torch.nn.utils.clip_grad_value_(pair.parameters, MAX_VALUE)
        pair.step_.set(max_value=MAX_VALUE)
    elif clip == "unscale":
        scaler.unscale_(pair.optimizer)
    elif clip:
        scaler.unscale_(pair.optimizer)
        norm = torch.nn.utils.clip_grad_norm_(pair.parameters, MAX_NORM, NORMS[clip])
        pair.step_.set(max_norm=MAX_NORM)
        if not own_norm:
            pair.step_.set(external_norm=float(norm))
    scaler.step(pair.optimizer)
    scaler.update()
    pair.step_.run(grads)
