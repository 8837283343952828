"""Optimizers whose authors' code does not run here, from the paper's lines, in float64."""

import torch


class CautiousDecay(torch.optim.Optimizer):
    """AdamW with cautious weight decay (Chen et al., 2025, algorithm 1)."""

    def __init__(self, params, **hyper):
        super().__init__(params, hyper)
        self.step_count = 0

    @torch.no_grad()
    def step(self):
        self.step_count += 1
        h = self.param_groups[0]
        for p in h["params"]:
            state = self.state[p]
            if not state:
                state.update(w=p.double(), m=torch.zeros_like(p, dtype=torch.float64),
                             v=torch.zeros_like(p, dtype=torch.float64))
            g, w = p.grad.double(), state["w"]
            state["m"] = h["beta1"] * state["m"] + (1 - h["beta1"]) * g
            state["v"] = h["beta2"] * state["v"] + (1 - h["beta2"]) * g * g
            m = state["m"] / (1 - h["beta1"] ** self.step_count)
            u = m / ((state["v"] / (1 - h["beta2"] ** self.step_count)).sqrt() + h["eps"])
            state["w"] = w - h["lr"] * (u + h["weight_decay"] * w * (u * w >= 0))
            p.copy_(state["w"])
