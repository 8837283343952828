"""Loss scalers: several optimizers on one scaler against torch.amp.GradScaler("cpu"), hysteresis against independent
models of the peers' rules, norms that overflow."""

import numpy as np
import torch

import compare
import inputs
import peer
from bridge import Scaler, Step


def several(optimizers, iterations, backend="interpret", seed=3, factors=(2.0, 0.5), interval=7):
    """Every optimizer overflows in a random subset of the iterations. Counts iterations after which scale, tracker or
    any parameter differ in a bit, and the steps skipped."""
    case = compare.CASES[0]
    sizes = (48, 16)
    shared = Scaler(1024.0)
    scaler = peer.make_scaler(1024.0, *factors, interval)
    sides = []
    for k in range(optimizers):
        role = "owner" if optimizers == 1 else "last" if k == optimizers - 1 else "member"
        step = Step(case.recipe, f"loss-scale scale-role={role} profile=torch-fused", backend, shared)
        weights = [inputs.weights(seed + k, t, n) for t, n in enumerate(sizes)]
        parameters = [torch.nn.Parameter(w.clone()) for w in weights]
        kept = {n: [torch.zeros(s) for s in sizes] for n in ("exp_avg", "exp_avg_sq")}
        step.bind([0] * len(sizes), weight=weights, **kept)
        step.set(**compare.recipe_args(case.hyper))
        if role != "member":
            step.set(growth_factor=factors[0], backoff_factor=factors[1], growth_interval=interval)
        sides.append((step, weights, kept, parameters,
                      peer.make_optimizer(case.cls, parameters, "fused", **case.hyper)))
    counts = {"scale": 0, "weights": 0, "skipped": 0, "overflowed iterations": 0, "scales seen": 0}
    seen = set()
    for i in range(iterations):
        scale = float(scaler._scale)
        seen.add(scale)
        bad_here = 0
        grads = []
        for k in range(optimizers):
            grads.append([inputs.gradient(seed + k, i, t, n) * scale for t, n in enumerate(sizes)])
            if inputs.chance(seed, 7, i, k, 9):
                inputs.spoil(grads[k][i % len(sizes)], seed, i, k)
                bad_here += 1
        for (step, weights, kept, parameters, optimizer), g in zip(sides, grads):
            for p, x in zip(parameters, g):
                p.grad = x.clone()
            scaler.step(optimizer)
            step.run(g)
        scaler.update()
        counts["skipped"] += bad_here
        counts["overflowed iterations"] += bad_here > 0
        same = (np.float32(shared.read("scale")) == np.float32(float(scaler._scale))
                and shared.read("growth_tracker") == float(scaler._growth_tracker))
        counts["scale"] += not same
        counts["weights"] += any(peer.differing(w, p) for s in sides for w, p in zip(s[1], s[3]))
    counts["scales seen"] = len(seen)
    return counts


class ApexScaler:
    """update_scale_hysteresis: backs off once `hysteresis` overflows came without a good step between them."""

    def __init__(self, scale, growth, backoff, interval, hysteresis):
        self.scale, self.growth, self.backoff = np.float32(scale), growth, backoff
        self.interval, self.full, self.left, self.tracker = interval, hysteresis, hysteresis, 0

    def update(self, overflow):
        if overflow:
            self.left -= 1
            self.tracker = 0
            if self.left <= 0:
                self.scale = np.float32(float(self.scale) * self.backoff)
            return
        self.tracker += 1
        if self.tracker == self.interval:
            with np.errstate(over="ignore"):
                grown = np.float32(float(self.scale) * self.growth)
            self.scale = grown if np.isfinite(grown) else self.scale
            self.tracker = 0
        self.left = self.full


class MegatronScaler:
    """DynamicGradScaler: hysteresis is refilled only when the scale grows; a minimum; every further overflow backs off.
    It has no finite check; ours refuses infinity, and the growth factor here never reaches it."""

    def __init__(self, scale, growth, backoff, interval, hysteresis, minimum=1.0):
        self.scale, self.growth, self.backoff, self.minimum = np.float32(scale), growth, backoff, minimum
        self.interval, self.full, self.left, self.tracker = interval, hysteresis, hysteresis, 0

    def update(self, overflow):
        if overflow:
            self.tracker = 0
            self.left -= 1
            if self.left <= 0:
                self.scale = np.float32(max(float(self.scale) * self.backoff, self.minimum))
        else:
            self.tracker += 1
            if self.tracker == self.interval:
                self.tracker = 0
                self.left = self.full
                self.scale = np.float32(float(self.scale) * self.growth)


def hysteresis(policy, iterations, backend="interpret", seed=11, every=2, count=3):
    """Iterations after which scale, tracker or hysteresis differ from the model; the smallest and largest scale."""
    shared = Scaler(4096.0)
    step = Step("adamw", f"loss-scale={policy}", backend, shared)
    weight, kept = torch.zeros(8), {"exp_avg": [torch.zeros(8)], "exp_avg_sq": [torch.zeros(8)]}
    step.bind([0], weight=[weight], **kept)
    step.set(growth_factor=2.0, backoff_factor=0.5, growth_interval=9, hysteresis=count)
    shared.write("hysteresis_tracker", count)
    model = (ApexScaler if policy == "apex" else MegatronScaler)(4096.0, 2.0, 0.5, 9, count)
    differ, scales = 0, []
    for i in range(iterations):
        # Good and bad spells, so that the scale travels.
        spell = every if (i // 40) % 2 else 40
        overflow = inputs.chance(seed, 8, i, 0, spell)
        grad = inputs.gradient(seed, i, 0, 8)
        if overflow:
            inputs.spoil(grad, seed, i, 0)
        step.run([grad])
        model.update(overflow)
        differ += not (np.float32(shared.read("scale")) == model.scale
                       and shared.read("growth_tracker") == model.tracker
                       and shared.read("hysteresis_tracker") == model.left)
        scales.append(float(model.scale))
    return {"differ": differ, "smallest": min(scales), "largest": max(scales)}


def norm_overflow(steps, backend="interpret"):
    """Finite gradients whose sum of squares overflows, `steps` times in a row."""
    shared = Scaler(65536.0)
    step = Step("adamw", "loss-scale clip", backend, shared)
    weight = torch.ones(16)
    kept = {"exp_avg": [torch.zeros(16)], "exp_avg_sq": [torch.zeros(16)]}
    step.bind([0], weight=[weight], **kept)
    grad = torch.full((16,), 3e38)
    flags = 0
    for _ in range(steps):
        step.run([grad])
        flags += step.state("norm_overflow") == 1 and step.state("skipped") == 1 and step.state("found_inf") == 0
    return {"flagged": flags, "scale": shared.read("scale"), "tracker": shared.read("growth_tracker"),
            "count": step.state("step"), "weights untouched": bool((weight == 1).all())}


def lowered_interval(iterations=400, backend="interpret"):
    """growth_interval lowered below the tracker in mid-run: GradScaler's equality test then never grows again until an
    overflow; torch profiles do the same, the standard one grows at the next good step."""
    out = {}
    for profile in ("torch-fused", "standard"):
        shared = Scaler(1024.0)
        step = Step("adamw", f"loss-scale profile={profile}", backend, shared)
        step.bind([0], weight=[torch.zeros(8)], exp_avg=[torch.zeros(8)], exp_avg_sq=[torch.zeros(8)])
        scaler = peer.make_scaler(1024.0, growth_interval=100)
        parameter = torch.nn.Parameter(torch.zeros(8))
        optimizer = peer.make_optimizer(torch.optim.AdamW, [parameter], "fused")
        differ = 0
        for i in range(iterations):
            interval = 100 if i < 50 else 10
            scaler.set_growth_interval(interval)
            step.set(growth_interval=interval)
            grad = inputs.gradient(1, i, 0, 8)
            if i == 300:
                inputs.spoil(grad, 1, i, 0)
            parameter.grad = grad.clone()
            scaler.step(optimizer)
            scaler.update()
            step.run([grad])
            differ += float(scaler._scale) != shared.read("scale")
        out[profile] = {"differ": differ, "torch": float(scaler._scale), "ours": shared.read("scale")}
    return out
