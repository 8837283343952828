"""PyTorch's pipeline around one optimizer step, for `stepfuse bench --against torch`.

First line in: the work as JSON. First line out: {"torch": version} or {"problem": text}. Then for each line "VARIANT N"
the seconds of one of N steps.
"""

import json
import sys
import time


def main():
    work = json.loads(sys.stdin.readline())
    try:
        import torch
    except ImportError as e:
        print(json.dumps({"problem": str(e)}), flush=True)
        return
    torch.set_num_threads(work["threads"])
    dtype = getattr(torch, work["dtype"])

    class Pipeline:
        def __init__(self, variant):
            self.weights = [torch.randn(n, dtype=dtype) * 0.02 for n in work["sizes"]]
            self.grads = [torch.randn(n, dtype=dtype) for n in work["sizes"]]
            self.masters = [w.float() for w in self.weights] if work["master"] else self.weights
            for master, grad in zip(self.masters, self.grads):
                master.grad = grad.float() if work["master"] else grad
            how = {"fused": True} if variant == "fused" else {"foreach": True}
            self.optimizer = getattr(torch.optim, work["optimizer"])(self.masters, **how, **work["arguments"])
            self.scaler = torch.amp.GradScaler("cpu", init_scale=1.0, growth_interval=1 << 30, enabled=work["scale"])
            self.scaler.scale(torch.ones(1))  # creates its tensors
            self.compiled = torch.compile(self.clip_and_step) if variant == "compiled" else None

        def clip(self):
            if work["max_norm"]:
                torch.nn.utils.clip_grad_norm_(self.masters, work["max_norm"])

        def clip_and_step(self):
            self.clip()
            self.optimizer.step()

        def step(self):
            if work["master"]:
                torch._foreach_copy_([m.grad for m in self.masters], self.grads)
            if work["scale"]:
                self.scaler.unscale_(self.optimizer)
            if self.compiled:
                self.compiled()
            else:
                self.clip()
                self.scaler.step(self.optimizer)
            self.scaler.update()
            if work["master"]:
                torch._foreach_copy_(self.weights, self.masters)

    with torch.no_grad():
        print(json.dumps({"torch": torch.__version__}), flush=True)
        pipelines = {}
        for line in sys.stdin:
            variant, steps = line.split()
            try:
                if variant not in pipelines:
                    pipelines[variant] = Pipeline(variant)
                    for _ in range(3):  # the first steps create states, and compile
                        pipelines[variant].step()
                pipeline = pipelines[variant]
                begin = time.perf_counter()
                for _ in range(int(steps)):
                    pipeline.step()
                print(json.dumps({"seconds": (time.perf_counter() - begin) / int(steps)}), flush=True)
            except Exception as e:  # torch.compile raises many types
                print(json.dumps({"problem": f"{type(e).__name__}: {e}"}), flush=True)


main()
