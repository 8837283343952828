#!/usr/bin/env python3
"""Records what real PyTorch computes into tests/torch/goldens.json, which torch_test replays without torch.

    pip install torch==2.13.0 numpy && tests/torch/record_goldens.py

Inputs are made from seeds on both sides (tools/peers/inputs.py, inputs.hpp). foreach and the for-loop are recorded with a correctly
rounded sqrt (peer.ieee_sqrt), so that the file does not depend on the recorder's MKL. Nothing of stepfuse runs here.
"""

import json
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "peers"))
import compare  # noqa: E402
import inputs  # noqa: E402
import peer  # noqa: E402

SIZES = (32, 16, 0, 48)
SEED = 21
STEPS = 40
MAX_NORM = 1.5


def hexed(tensor):
    return tensor.detach().contiguous().numpy().tobytes().hex()


def group_hyper(case, group):
    hyper = dict(case.hyper)
    hyper["lr"] *= 1 + group / 4
    return hyper


def record(case, implementation, clip, missing):
    factors = {"growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 5}
    if not clip:
        factors.update(growth_factor=1.7, backoff_factor=0.6)
    groups = [t % 2 for t in range(len(SIZES))]
    parameters = [torch.nn.Parameter(inputs.weights(SEED, t, n)) for t, n in enumerate(SIZES)]
    optimizer = peer.make_optimizer(
        case.cls, [{"params": [p for p, h in zip(parameters, groups) if h == g], **group_hyper(case, g)} for g in (0, 1)],
        implementation, **case.keywords, **case.hyper)
    scaler = peer.make_scaler(1024.0, **factors)
    norms, scales, trackers = [], [], []
    for step in range(STEPS):
        scale = float(scaler._scale)
        grads = [inputs.gradient(SEED, step, t, n) * scale for t, n in enumerate(SIZES)]
        if step > 0 and inputs.chance(SEED, 6, step, 0, 6):
            inputs.spoil(grads[step % 2], SEED, step, 0)
        for t, (p, g) in enumerate(zip(parameters, grads)):
            p.grad = None if missing and t > 1 and inputs.chance(SEED, 3, step, t, 10, 3) else g
        with peer.ieee_sqrt(implementation != "fused"):
            if clip:
                scaler.unscale_(optimizer)
                norms.append(torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM))
            scaler.step(optimizer)
            scaler.update()
        scales.append(scaler._scale.clone())
        trackers.append(int(scaler._growth_tracker))
    profile = "torch-fused" if implementation == "fused" else "torch-foreach"
    names = [n for n in peer.KEPT if any(n in s for s in optimizer.state.values())]
    steps = [optimizer.state.get(p, {}).get("step") for p in parameters]
    return {
        "name": f"{case.name}, {implementation}, {'clip' if clip else 'no clip'}{', missing' if missing else ''}",
        "recipe": case.recipe,
        "options": f"{case.options} loss-scale profile={profile}{' clip external-norm' if clip else ''}".strip(),
        "args": [compare.recipe_args(group_hyper(case, g)) for g in (0, 1)],
        "step_args": {**factors, **({"max_norm": MAX_NORM} if clip else {})},
        "missing": missing,
        "norms": hexed(torch.stack(norms)) if clip else "",
        "scales": hexed(torch.stack(scales)),
        "trackers": trackers,
        "weights": [hexed(p) for p in parameters],
        "kept": {n: [hexed(peer.kept(optimizer, p, n)) for p in parameters] for n in names},
        "counts": [] if steps[0] is None else [0 if s is None else int(s) for s in steps],
    }


def to_text(golden):
    """JSON with one case per line, so that a difference shows which cases changed."""
    head = json.dumps({**golden, "cases": []})[:-len("]}")]
    return head + "\n" + ",\n".join(map(json.dumps, golden["cases"])) + "\n]}\n"


def main():
    torch.set_num_threads(1)
    cases = []
    for case in compare.CASES:
        for implementation in ("fused", "for-loop"):
            if case.recipe == "rmsprop" and implementation == "fused":
                continue
            for clip in (True, False):
                # torch's fused SGD with momentum fails where only some parameters had gradients.
                missing = clip and not (case.recipe == "sgd" and implementation == "fused")
                cases.append(record(case, implementation, clip, missing))
    golden = {"made_by": "tests/torch/record_goldens.py", "torch": torch.__version__, "sizes": SIZES, "seed": SEED,
              "steps": STEPS, "cases": cases}
    path = pathlib.Path(__file__).with_name("goldens.json")
    path.write_text(to_text(golden))
    print(f"{path}: {len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
