"""Optimizers whose peers do not run here, against independent models of their formulas."""

import numpy as np
import torch

import inputs
from bridge import Scaler, Step


def lion(steps, backend, n=4096):
    """Largest distance of the weights from the formula of Chen et al. (2023), computed in float64."""
    step = Step("lion", "", backend, Scaler())
    w = inputs.weights(5, 0, n)
    exact, m = w.double(), torch.zeros(n, dtype=torch.float64)
    kept = torch.zeros(n)
    step.bind([0], weight=[w], exp_avg=[kept])
    lr, b1, b2, decay = 1e-3, 0.9, 0.99, 0.1
    step.set(lr=lr, beta1=b1, beta2=b2, weight_decay=decay)
    flipped = torch.zeros(n, dtype=torch.bool)
    for i in range(steps):
        g = inputs.gradient(5, i, 0, n)
        mixed = b1 * m + (1 - b1) * g.double()
        # Rounding may decide the sign of these elements; the formulas then differ by 2 lr. They count separately.
        flipped |= mixed.abs() < 1e-6 * g.double().abs()
        exact = exact - lr * (torch.sign(mixed) + decay * exact)
        m = b2 * m + (1 - b2) * g.double()
        step.run([g])
    return {"worst": float((w.double() - exact).abs()[~flipped].max()), "largest": float(exact.abs().max()), "undecided": int(flipped.sum()), "elements": n,
            "moment": float((kept.double() - m).abs().max())}


def apex(recipe, steps, backend, n=512):
    """Differing elements against a model of Apex' FusedAdam (multi_tensor_adam.cu): every operation in f32 and rounded,
    none contracted; bias corrections from the f32 betas in float64. `adamw` adds the decay to the update."""
    step = Step(recipe, "profile=apex", backend, Scaler())
    w = inputs.weights(9, 0, n)
    kept = [torch.zeros(n), torch.zeros(n)]
    step.bind([0], weight=[w], exp_avg=[kept[0]], exp_avg_sq=[kept[1]])
    f = np.float32
    lr, b1, b2, eps, decay = f(1e-3), f(0.9), f(0.999), f(1e-8), f(0.1)
    step.set(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1)
    p = w.numpy().copy()
    m, v = np.zeros(n, f), np.zeros(n, f)
    for i in range(steps):
        grad = inputs.gradient(9, i, 0, n)
        step.run([grad])
        g = grad.numpy()
        c1, c2 = f(1 - float(b1) ** (i + 1)), f(1 - float(b2) ** (i + 1))
        if recipe == "adam":
            g = g + decay * p
        m = b1 * m + (f(1) - b1) * g
        v = b2 * v + ((f(1) - b2) * g) * g
        update = (m / c1) / (np.sqrt(v / c2) + eps)
        if recipe == "adamw":
            update = update + decay * p
        p = p - lr * update
    return {"differ": int((w.numpy() != p).sum() + (kept[0].numpy() != m).sum() + (kept[1].numpy() != v).sum()),
            "elements": 3 * n}
