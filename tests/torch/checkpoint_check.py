#!/usr/bin/env python3
"""A run that changes from PyTorch to stepfuse, or back, in the middle equals one that never does.

Needs torch and safetensors; exits with 77 (skipped) where they are missing.
"""

import pathlib
import sys
import tempfile

try:
    import torch
    import safetensors  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "peers")]

import bridge  # noqa: E402
import torch_checkpoint  # noqa: E402

# Sizes are multiples of 8: PyTorch's own vector tail rounds differently (docs/parity.md).
SHAPES = [(32, 16), (8,), (3, 5, 8), (64,)]


def gradients(step):
    g = torch.Generator().manual_seed(step)
    return [torch.randn(s, generator=g) for s in SHAPES]


class Torch:
    def __init__(self, weights):
        self.weights = [torch.nn.Parameter(w.clone()) for w in weights]
        self.optimizer = torch.optim.AdamW(self.weights, lr=1e-2, fused=True)

    def run(self, steps):
        for i in steps:
            for w, g in zip(self.weights, gradients(i)):
                w.grad = g
            self.optimizer.step()


class Stepfuse:
    def __init__(self, weights):
        self.weights = [w.detach().clone() for w in weights]
        self.moments = [[torch.zeros_like(w) for w in weights] for _ in range(2)]
        self.step = bridge.Step("adamw", "profile=torch-fused", "interpret")
        self.step.bind([0] * len(weights), weight=self.weights, exp_avg=self.moments[0], exp_avg_sq=self.moments[1])
        self.step.init_state()
        self.step.set(lr=1e-2, weight_decay=1e-2)

    def run(self, steps):
        for i in steps:
            self.step.run(gradients(i))


def check(name, a, b):
    differing = sum(int((x.detach() != y.detach()).sum()) for x, y in zip(a, b))
    print(f"{name}: {differing} of {sum(x.numel() for x in a)} weights differ")
    return differing == 0


def main():
    start = [w * 0.1 for w in gradients(-1 & 0xFFFF)]
    whole = Torch(start)
    whole.run(range(10))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "state.safetensors"
        first = Torch(start)
        first.run(range(5))
        torch_checkpoint.save(path, "adamw", first.optimizer)
        second = Stepfuse([w for w in first.weights])
        second.step.load(path)
        second.run(range(5, 10))
        good = check("torch, then stepfuse", second.weights, whole.weights)

        first = Stepfuse(start)
        first.run(range(5))
        first.step.save(path)
        second = Torch(first.weights)
        torch_checkpoint.load(path, second.optimizer)
        second.run(range(5, 10))
        good &= check("stepfuse, then torch", second.weights, whole.weights)
        counts = {int(s["step"]) for s in second.optimizer.state_dict()["state"].values()}
        print(f"step counts: {counts}")
        good &= counts == {10}
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
