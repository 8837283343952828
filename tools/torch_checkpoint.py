#!/usr/bin/env python3
"""Checkpoints of stepfuse to and from PyTorch's optimizer and GradScaler state.

    import torch_checkpoint
    torch_checkpoint.load(path, optimizer, scaler)             # stepfuse -> torch
    torch_checkpoint.save(path, "adamw", optimizer, scaler)    # torch -> stepfuse; the step's name

or between files, as state_dicts written by torch.save({"optimizer": …, "scaler": …}):

    torch_checkpoint.py to-torch CHECKPOINT.safetensors STATE.pt
    torch_checkpoint.py from-torch STATE.pt CHECKPOINT.safetensors --step adamw

Parameters are numbered as in the optimizer's state_dict, which is the order of the step's layout. Every array
keeps its name (exp_avg, exp_avg_sq, momentum_buffer, …) and its bits; `step` counts become what PyTorch keeps, f32
tensors. Needs torch and safetensors from PyPI. docs/checkpoints.md describes the file.
"""

import argparse
import json
import struct
import sys

import torch
from safetensors import torch as safetensors

FORMAT = {"format": "stepfuse-checkpoint", "version": "1"}
SCALER = {"scale": "scale", "growth_tracker": "_growth_tracker"}


def metadata(path):
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        return json.loads(f.read(size))["__metadata__"]


def read(path):
    """A checkpoint as ({index: {name: flat tensor}}, {scaler state: number})."""
    found = metadata(path)
    if {k: found.get(k) for k in FORMAT} != FORMAT:
        raise ValueError(f"{path}: not a stepfuse checkpoint of version {FORMAT['version']}")
    arrays = safetensors.load_file(path)
    count = len(found["layout"].split())
    states = {i: {} for i in range(count)}
    scaler = {}
    for name, value in arrays.items():
        kind, rest = name.split(".", 1)
        if kind == "buffer":
            buffer, index = rest.rsplit(".", 1)
            states[int(index)][buffer] = value
        elif kind == "scaler":
            scaler[rest] = value.item()
        elif len(value) == count:  # a state per tensor
            for i in range(count):
                states[i][rest] = value[i].to(torch.float32) if rest == "step" else value[i]
    return states, scaler


def write(path, step, states, scaler):
    """The inverse: `states` by index in order, each with flat or shaped tensors."""
    arrays = {}
    sizes = []
    for i, state in states.items():
        sizes.append(max(v.numel() for v in state.values()))
        for name, value in state.items():
            if name != "step":
                arrays[f"buffer.{name}.{i}"] = value.detach().cpu().reshape(-1).contiguous().clone()
    arrays["state.step"] = torch.tensor([int(s["step"]) for s in states.values()], dtype=torch.int64)
    if scaler:
        arrays["scaler.scale"] = torch.tensor([scaler["scale"]], dtype=torch.float32)
        arrays["scaler.growth_tracker"] = torch.tensor([scaler["growth_tracker"]], dtype=torch.int32)
    layout = " ".join(f"{n}:0" for n in sizes)
    safetensors.save_file(arrays, path, {**FORMAT, "step": step, "layout": layout})


def to_optimizer_state(optimizer_state, states):
    """A torch optimizer's state_dict with the checkpoint's state, shaped as its own or flat."""
    old = optimizer_state["state"]

    def shaped(i, name, value):
        like = old.get(i, {}).get(name)
        return value.clone() if like is None or name == "step" else value.reshape(like.shape).clone()

    new = {i: {name: shaped(i, name, v) for name, v in state.items()} for i, state in states.items()}
    return {**optimizer_state, "state": new}


def to_scaler_state(scaler_state, scaler):
    mapped = {torch_name: scaler[name] for name, torch_name in SCALER.items() if name in scaler}
    return {**scaler_state, **mapped}


def from_scaler_state(scaler_state):
    return {name: scaler_state[torch_name] for name, torch_name in SCALER.items()} if scaler_state else {}


def load(path, optimizer, scaler=None):
    states, scale = read(path)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if len(parameters) != len(states):
        raise ValueError(f"{path} has {len(states)} tensors; the optimizer has {len(parameters)}")
    shaped = {i: {n: v if n == "step" else v.reshape(parameters[i].shape) for n, v in state.items()}
              for i, state in states.items()}
    optimizer.load_state_dict(to_optimizer_state(optimizer.state_dict(), shaped))
    if scaler is not None:
        scaler.load_state_dict(to_scaler_state(scaler.state_dict(), scale))


def save(path, step, optimizer, scaler=None):
    states = optimizer.state_dict()["state"]
    write(path, step, dict(sorted(states.items())), from_scaler_state(scaler.state_dict() if scaler else {}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("direction", choices=["to-torch", "from-torch"])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--step", default="adamw", help="the step's name in the checkpoint (default adamw)")
    options = parser.parse_args()
    try:
        if options.direction == "to-torch":
            states, scale = read(options.source)
            torch.save({"optimizer": {"state": states}, "scaler": to_scaler_state({}, scale)}, options.target)
        else:
            found = torch.load(options.source, weights_only=True)
            write(options.target, options.step, found["optimizer"]["state"], from_scaler_state(found.get("scaler")))
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"torch_checkpoint: {error}")


if __name__ == "__main__":
    main()
