#!/usr/bin/env python3
"""Checkpoints of stepfuse to and from PyTorch's optimizer and GradScaler state.

    import torch_checkpoint
    torch_checkpoint.load(path, optimizer, scaler)             # stepfuse -> torch
    torch_checkpoint.save(path, "adamw", optimizer, scaler)    # torch -> stepfuse; the step's name

or between files, as written by torch.save(torch_checkpoint.state(optimizer, scaler), "STATE.pt"), which is
{"optimizer": state_dict, "scaler": state_dict, "shapes": of the parameters}:

    torch_checkpoint.py to-torch CHECKPOINT.safetensors STATE.pt --like FRESH.pt
    torch_checkpoint.py from-torch STATE.pt CHECKPOINT.safetensors --step adamw

What to-torch writes loads by optimizer.load_state_dict(found["optimizer"]) and scaler.load_state_dict(found["scaler"]).
FRESH.pt is the same of the optimizer that will load it: its groups, hyperparameters and shapes; without it there is one
group of torch's defaults.

Parameters are numbered as in the optimizer's state_dict, which is the order of the step's layout. Every array keeps its
name (exp_avg, exp_avg_sq, momentum_buffer, …), its dtype and its bits; `step` counts become what PyTorch keeps, f32
tensors. A parameter that never had a gradient has no state in PyTorch, and zeros here. PyTorch's SGD keeps no count: it
is 1 where there is a momentum buffer. Masters are loaded into f32 parameters; save(…, master=True) writes them.
Over bf16 or f16 parameters load() keeps moments and masters in f32, which optimizer.load_state_dict alone would round.
Needs torch, safetensors and xxhash from PyPI, and stepfuse for checkpoints with moments in formats. docs/checkpoints.md describes the file.
"""

import argparse
import json
import math
import os
import pathlib
import pickle
import shutil
import struct
import sys
import tempfile

import torch
import xxhash
from safetensors import torch as safetensors

FORMAT = {"format": "stepfuse-checkpoint", "version": "2"}
DIGEST = "xxh3_128"
ZEROS = "0" * 32
SCALER = {"scale": "scale", "growth_tracker": "_growth_tracker"}
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD,
              "rmsprop": torch.optim.RMSprop, "adagrad": torch.optim.Adagrad}


def header(path):
    """The file's JSON header, as bytes."""
    with open(path, "rb") as f:
        begin = f.read(8)
        if begin[:2] == b"PK":
            raise ValueError(f"{path} was written by torch.save, and is not a checkpoint of stepfuse; did you mean from-torch?")
        size = struct.unpack("<Q", begin)[0] if len(begin) == 8 else 0
        text = f.read(size) if 0 < size <= os.path.getsize(path) - 8 else b""
    if not text.startswith(b"{"):
        raise ValueError(f"{path}: not a safetensors file")
    return text


def digest(path, digits):
    """XXH3-128 of the file with zeros for `digits`, which stand in its header, and where they stand."""
    text = header(path)
    at = text.find(f'"{digits}"'.encode()) + 1
    if at == 0 or len(digits) != len(ZEROS):
        raise ValueError(f"{path}: it has no digest ({DIGEST})")
    found = xxhash.xxh3_128(struct.pack("<Q", len(text)) + text[:at] + ZEROS.encode() + text[at + len(ZEROS):])
    with open(path, "rb") as f:
        f.seek(8 + len(text))
        while block := f.read(1 << 20):
            found.update(block)
    return found.hexdigest(), 8 + at


def read(path):
    """A checkpoint as ({index: {name: tensor}}, {scaler state: number}, the step's name)."""
    found = json.loads(header(path)).get("__metadata__", {})
    if {k: found.get(k) for k in FORMAT} != FORMAT:
        raise ValueError(f"{path}: not a stepfuse checkpoint of version {FORMAT['version']}")
    if digest(path, found.get(DIGEST, ""))[0] != found[DIGEST]:
        raise ValueError(f"{path}: damaged: its checksum does not match")
    arrays = safetensors.load_file(path)
    odd = next((name for name in arrays if name.startswith("buffer.") and name.count(".") > 2), None)
    if odd:  # codes and scales, which are not plain numbers
        return read_converted(path, odd)
    states = {i: {} for i in range(len(found["layout"].split()))}
    scaler = {}
    for name, value in arrays.items():
        kind, rest = name.split(".", 1)
        if kind == "buffer":
            buffer, index = rest.rsplit(".", 1)
            states[int(index)][buffer] = value
        elif kind == "scaler":
            scaler[rest] = value.item()
    for i, count in enumerate(arrays.get("state.step", ())):
        states[i]["step"] = count.to(torch.float32)
    for i, begun in enumerate(arrays.get("state.momentum_begun", ())):
        if not begun:  # PyTorch has no buffer yet
            states[i].pop("momentum_buffer", None)
    return states, scaler, found["step"]


def read_converted(path, odd):
    """The same of a checkpoint with moments in formats, which the library converts to f32."""
    try:
        from stepfuse import _core
    except ImportError:
        raise ValueError(f"{path}: '{odd}' is stored in a format, which PyTorch cannot read; install stepfuse, or run: stepfuse convert {path} NEW "
                         "--moments=f32") from None
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "plain.safetensors")
        _core.convert_checkpoint(str(path), plain, "f32")
        return read(plain)


def write(path, step, states, shapes, scaler):
    """The inverse: `states` by index, empty for a parameter without; `shapes` of all parameters."""
    like = {name: value for state in states.values() for name, value in state.items() if torch.is_tensor(value)}
    arrays = {}
    counts, begun = [], []
    for i, shape in enumerate(shapes):
        state = {name: value for name, value in states.get(i, {}).items() if value is not None}
        counts.append(int(state["step"]) if "step" in state else int("momentum_buffer" in state))
        begun.append("momentum_buffer" in state)
        for name in like.keys() - {"step"}:
            value = state[name] if name in state else torch.zeros(tuple(shape), dtype=like[name].dtype)
            if value.numel() != math.prod(shape):
                raise ValueError(f"{name} of parameter {i} has {value.numel()} elements, the parameter {math.prod(shape)}")
            arrays[f"buffer.{name}.{i}"] = value.detach().cpu().contiguous().clone()
    if "step" in like or "momentum_buffer" in like:
        arrays["state.step"] = torch.tensor(counts, dtype=torch.int64)
    if step == "sgd" and "momentum_buffer" in like:
        arrays["state.momentum_begun"] = torch.tensor(begun, dtype=torch.bool)
    if scaler:
        arrays["scaler.scale"] = torch.tensor([scaler["scale"]], dtype=torch.float32)
        arrays["scaler.growth_tracker"] = torch.tensor([scaler["growth_tracker"]], dtype=torch.int32)
    layout = " ".join(f"{math.prod(shape)}:0" for shape in shapes)
    target = pathlib.Path(path).resolve()  # a link stays one
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as private:
        partial = os.path.join(private, "partial")
        safetensors.save_file(arrays, partial, {**FORMAT, "step": step, "layout": layout,
                                                "index": str(max(counts, default=0)), DIGEST: ZEROS})
        digits, at = digest(partial, ZEROS)
        with open(partial, "r+b") as f:
            f.seek(at)
            f.write(digits.encode())
        if target.exists():
            shutil.copymode(target, partial)
        os.replace(partial, target)


def to_optimizer_state(optimizer_state, states, step, shapes=None):
    """A torch optimizer's state_dict with the checkpoint's state, in the parameters' shapes where they are known."""
    indices = [i for group in optimizer_state["param_groups"] for i in group["params"]]
    if len(indices) != len(states):
        raise ValueError(f"the checkpoint has {len(states)} tensors; the optimizer has {len(indices)}")
    new = {}
    for i, state in states.items():
        if "step" in state and int(state["step"]) == 0:  # never had a gradient: as a new optimizer has it
            if i in optimizer_state["state"]:
                new[i] = optimizer_state["state"][i]
            continue
        kept = {name: value for name, value in state.items() if not (step == "sgd" and name == "step")}
        for name, value in kept.items():
            if name != "step" and shapes is not None:
                if value.numel() != math.prod(shapes[i]):
                    raise ValueError(f"{name} of tensor {i} has {value.numel()} elements; the parameter's shape is "
                                     f"{tuple(shapes[i])}")
                kept[name] = value.reshape(tuple(shapes[i])).clone()
        if kept:
            new[i] = kept
    return {**optimizer_state, "state": new}


def to_scaler_state(scaler_state, scaler):
    mapped = {torch_name: scaler[name] for name, torch_name in SCALER.items() if name in scaler}
    return {**scaler_state, **mapped}


def from_scaler_state(scaler_state):
    return {name: scaler_state[torch_name] for name, torch_name in SCALER.items()} if scaler_state else {}


def parameters_of(optimizer):
    return [p for group in optimizer.param_groups for p in group["params"]]


def state(optimizer, scaler=None):
    """Returns the contents of this tool's files."""
    return {"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict() if scaler else {},
            "shapes": [list(p.shape) for p in parameters_of(optimizer)]}


def load(path, optimizer, scaler=None):
    states, scale, step = read(path)
    if scaler is not None and not scale:
        raise ValueError(f"{path} was saved without loss scaling; load it without a scaler")
    parameters = parameters_of(optimizer)
    masters = {}
    for i, p in enumerate(parameters):
        if p.dtype == torch.float32 and "master" in states.get(i, {}):
            masters[p] = states[i].pop("master").reshape(p.shape)
    new = to_optimizer_state(optimizer.state_dict(), states, step, [p.shape for p in parameters])
    optimizer.load_state_dict(new)
    for i, kept in new["state"].items():  # load_state_dict rounds to the parameter's dtype
        p = parameters[i]
        for name, value in kept.items():
            if name != "step" and torch.is_tensor(value):
                optimizer.state[p][name] = value.to(p.device)
    with torch.no_grad():
        for p, master in masters.items():
            p.copy_(master)
    if scaler is not None:
        scaler.load_state_dict(to_scaler_state(scaler.state_dict(), scale))


def save(path, step, optimizer, scaler=None, master=False):
    found = state(optimizer, scaler)
    states = found["optimizer"]["state"]
    if master:
        states = {i: {**states.get(i, {}), "master": p.detach().float()} for i, p in enumerate(parameters_of(optimizer))}
    write(path, step, states, found["shapes"], from_scaler_state(found["scaler"]))


def to_torch(source, target, like):
    states, scale, step = read(source)
    if like is None:
        if step not in OPTIMIZERS:
            raise ValueError(f"PyTorch has no optimizer for step @{step}: name a state_dict to fill with --like")
        print("torch_checkpoint: one group with PyTorch's default hyperparameters; --like takes others", file=sys.stderr)
        empty = [torch.nn.Parameter(torch.empty(0)) for _ in states]
        like = {"optimizer": {**OPTIMIZERS[step](empty).state_dict(), "state": {}}}
    scaler = like.get("scaler") or torch.amp.GradScaler("cpu").state_dict()
    torch.save({"optimizer": to_optimizer_state(like["optimizer"], states, step, like.get("shapes")),
                "scaler": to_scaler_state(scaler, scale) if scale else {}}, target)


def from_torch(source, target, step):
    found = torch_file(source)
    states = found["optimizer"]["state"]
    count = sum(len(group["params"]) for group in found["optimizer"]["param_groups"])
    shapes = found.get("shapes")
    if shapes is None:
        shapes = [next((v.shape for n, v in states.get(i, {}).items() if n != "step"), None) for i in range(count)]
        if None in shapes:
            raise ValueError(f"{source}: parameter {shapes.index(None)} has no state, so its size is not known: write the "
                             "file by torch.save(torch_checkpoint.state(optimizer, scaler), …)")
    write(target, step, states, shapes, from_scaler_state(found.get("scaler")))


def torch_file(path):
    try:
        found = torch.load(path, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(f"{path}: not a file of torch.save; did you mean to-torch?") from error
    if not isinstance(found, dict) or "param_groups" not in found.get("optimizer", {}):
        raise ValueError(f"{path}: no {{\"optimizer\": optimizer.state_dict(), …}} in it; did you mean to-torch?")
    return found


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("direction", choices=["to-torch", "from-torch"])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--step", default="adamw", help="the step's name in the checkpoint (default adamw)")
    parser.add_argument("--like", help="a state to fill, of the optimizer that will load it")
    options = parser.parse_args(words)
    try:
        if options.direction == "to-torch":
            to_torch(options.source, options.target, torch_file(options.like) if options.like else None)
        else:
            from_torch(options.source, options.target, options.step)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"torch_checkpoint: {error}")


if __name__ == "__main__":
    main()
