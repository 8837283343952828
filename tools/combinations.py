#!/usr/bin/env python3
"""Tries which options of stepfuse.torch go together, and writes docs/combinations.md. Knows PyTorch and its processes.

    tools/combinations.py            writes the page
    tools/combinations.py --check    exit code 1 if the page's tables are not what this would write; 77 without PyTorch

Each cell is a few steps of a small model, in two processes where ranks are tried. PYTHONPATH names build/python.
"""

import argparse
import pathlib
import re
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "combinations.md"
WORLD = 2

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as processes
    from torch import nn
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    import stepfuse.torch as sf
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

EIGHT = torch.float8_e4m3fn
STORED = {  # how a row is named: the parameters' dtype, and the options
    "f32 parameters": (torch.float32, {}),
    '`moments="bf16"`': (torch.float32, {"moments": "bf16"}),
    '`moments="fp8"`': (torch.float32, {"moments": "fp8"}),
    '`moments="dyn8"`': (torch.float32, {"moments": "dyn8"}),
    '`moments="exp_avg=dyn4,exp_avg_sq=lin4"`': (torch.float32, {"moments": "exp_avg=dyn4,exp_avg_sq=lin4"}),
    "bf16 parameters, f32 master": (torch.bfloat16, {}),
    'bf16, `master="remainder"`': (torch.bfloat16, {"master": "remainder"}),
    'bf16, `master="ecc24"`': (torch.bfloat16, {"master": "ecc24"}),
    'bf16, `weight_rounding="stochastic"`': (torch.bfloat16, {"weight_rounding": "stochastic"}),
    'bf16, `weight_rounding="kahan"`': (torch.bfloat16, {"weight_rounding": "kahan"}),
    'f8e4m3, `copy_scale="delayed"`': (EIGHT, {"copy_scale": "delayed"}),
    'f8e4m3, `copy_scale="mx"`': (EIGHT, {"copy_scale": "mx"}),
    'f8e4m3, `copy_scale="block128"`': (EIGHT, {"copy_scale": "block128"}),
}
MOMENTS = {"f32": None, "bf16": "bf16", "fp8": "fp8", "int8 and sqrt8": "exp_avg=int8,exp_avg_sq=sqrt8", "dyn8": "dyn8",
           "dyn4 and lin4": "exp_avg=dyn4,exp_avg_sq=lin4"}
OPTIMIZERS = {  # the class, and options without which it is not made
    "AdamW": {}, "SGD": {"lr": 0.1, "momentum": 0.9}, "Lion": {}, "LAMB": {}, "Adafactor": {}, "SM3": {}, "Muon": {}, "Prodigy": {},
}


def model(dtype):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(128, 256, bias=False), nn.Linear(256, 128, bias=False)).to(
        torch.float32 if dtype is EIGHT else dtype)


def eight_bits(parameters):
    made = [nn.Parameter(p.detach().to(EIGHT)) for p in parameters]
    for p in made:
        p.grad_dtype = torch.float32
    return made


def steps(make, dtype, way):
    """Two steps of what `make` makes of parameters. Whatever goes wrong is raised."""
    net = model(dtype)
    if way == "FSDP2":
        fully_shard(net)
    parameters = eight_bits(net.parameters()) if dtype is EIGHT else list(net.parameters())
    wrapped = DistributedDataParallel(net) if way == "DDP" and dtype is not EIGHT else net
    optimizer = make(parameters)
    x = torch.randn(4, 128, dtype=next(net.parameters()).dtype)
    for _ in range(2):
        optimizer.zero_grad()
        if dtype is EIGHT:
            for p in parameters:
                p.grad = torch.full_like(p, 0.01, dtype=torch.float32)
        else:
            loss = wrapped(x).float().square().mean()
            (optimizer.scale(loss) if getattr(optimizer, "_scaler", None) is not None else loss).backward()
        optimizer.step()


def try_one(name, options, dtype, way):
    """"yes", or the first line of the error."""
    options = dict(options)
    if "moments" in options:
        options.setdefault("moments_min", 0)
    if options.pop("scaler", False):
        options["scaler"] = sf.LossScaler()
    kind = getattr(sf, name)

    def make(parameters):
        if way == "ZeRO":
            return sf.ZeroRedundancyOptimizer(parameters, kind, **options)
        return kind(parameters, **options)

    try:
        steps(make, dtype, way)
    except Exception as e:  # noqa: BLE001  whatever it is, it is what a user sees
        return str(e).splitlines()[0]
    return "yes"


def tables():
    """Title -> (rows, columns, cells as arguments of try_one)."""
    storage = {}
    for row, (dtype, options) in STORED.items():
        storage[row] = {
            "`max_norm`": ("AdamW", {**options, "max_norm": 1.0}, dtype, ""),
            "`clip_factor`": ("AdamW", {**options, "clip_factor": 0.1}, dtype, ""),
            "`scaler`": ("AdamW", {**options, "scaler": True}, dtype, ""),
            "`ema_decay`": ("AdamW", {**options, "ema_decay": 0.99}, dtype, ""),
            "DDP": ("AdamW", options, dtype, "DDP") if dtype is not EIGHT else None,
            "ZeRO": ("AdamW", options, dtype, "ZeRO"),
            "FSDP2": ("AdamW", options, dtype, "FSDP2"),
        }
    moments = {}
    for row, form in MOMENTS.items():
        kept = {} if form is None else {"moments": form}
        moments[row] = {
            "f32": ("AdamW", kept, torch.float32, ""),
            "bf16, f32 master": ("AdamW", kept, torch.bfloat16, ""),
            "bf16, remainder": ("AdamW", {**kept, "master": "remainder"}, torch.bfloat16, ""),
            "bf16, ecc24": ("AdamW", {**kept, "master": "ecc24"}, torch.bfloat16, ""),
            "bf16, stochastic": ("AdamW", {**kept, "weight_rounding": "stochastic"}, torch.bfloat16, ""),
            "bf16, kahan": ("AdamW", {**kept, "weight_rounding": "kahan"}, torch.bfloat16, ""),
            "f8e4m3, delayed": ("AdamW", {**kept, "copy_scale": "delayed"}, EIGHT, ""),
            "f8e4m3, mx": ("AdamW", {**kept, "copy_scale": "mx"}, EIGHT, ""),
        }
    optimizers = {}
    for name, options in OPTIMIZERS.items():
        optimizers[f"`{name}`"] = {
            '`moments="dyn8"`': (name, {**options, "moments": "dyn8"}, torch.float32, ""),
            "`max_norm`": (name, {**options, "max_norm": 1.0}, torch.float32, ""),
            "`clip_factor`": (name, {**options, "clip_factor": 0.1}, torch.float32, ""),
            "`ema_decay`": (name, {**options, "ema_decay": 0.99}, torch.float32, ""),
            "bf16 parameters": (name, options, torch.bfloat16, ""),
            "DDP": (name, options, torch.float32, "DDP"),
            "ZeRO": (name, options, torch.float32, "ZeRO"),
            "FSDP2": (name, options, torch.float32, "FSDP2"),
        }
    return {"Storage with AdamW": ("stored as", storage), "Moments and weights": ("moments, weights:", moments),
            "Optimizers": ("optimizer", optimizers)}


def cells():
    """Each (title, row, column) that is tried, and the arguments of try_one."""
    for title, (_, rows) in tables().items():
        for row, columns in rows.items():
            yield from (((title, row, column), cell) for column, cell in columns.items() if cell is not None)


def work(rank, folder):
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", WORLD), rank=rank, world_size=WORLD)
    torch.set_num_threads(1)
    found = {}
    for index, (key, cell) in enumerate(cells()):
        together = cell[-1] != ""
        if together or index % WORLD == rank:  # the ranks share out what one process tries
            found[key] = try_one(*cell)
        if together:
            dist.barrier()
    torch.save(found, f"{folder}/found{rank}")
    dist.destroy_process_group()


def plain(message):
    """The message without the names of this run's parameters, and without markup."""
    message = re.sub(r" \((nothing of )?parameter \d+ of group \d+\)|, as those of parameter \d+ of group \d+", "", message)
    message = re.sub(r"moments=[\w=,]+ keeps", "moments=FORMAT keeps", message)
    return re.sub(r"([|<>*_])", r"\\\1", message)


def page(found):
    text = ("# What goes with what\n\n"
            "`tools/combinations.py` wrote this page: each \"yes\" is two steps of a small model that ran, on two ranks where\n"
            "ranks are tried. Each number is the error that a user gets, listed at the end. \"–\" was not tried.\n")
    notes = []
    for title, (head, rows) in tables().items():
        columns = list(next(iter(rows.values())))
        text += f"\n## {title}\n\n| {head} | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}\n"
        for row in rows:
            cells = []
            for column in columns:
                result = found.get((title, row, column))
                if result is None:
                    cells.append("–")
                elif result == "yes":
                    cells.append("yes")
                else:
                    note = plain(result)
                    if note not in notes:
                        notes.append(note)
                    cells.append(f"no ({notes.index(note) + 1})")
            text += f"| {row} | {' | '.join(cells)} |\n"
    text += "\n## Errors\n\n| | message |\n|---|---|\n"
    return text + "".join(f"| {number} | {note} |\n" for number, note in enumerate(notes, start=1))


def tables_of(text):
    """The page without the wording of the errors."""
    return text.partition("\n## Errors\n")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        processes.spawn(work, (folder,), nprocs=WORLD)
        found = [torch.load(f"{folder}/found{rank}") for rank in range(WORLD)]
    text = page({**found[1], **found[0]})  # where all ranks have an answer, rank 0's
    if not arguments.check:
        PAGE.write_text(text, encoding="utf-8")
    elif tables_of(PAGE.read_text(encoding="utf-8")) != tables_of(text):
        print("docs/combinations.md is not what tools/combinations.py writes: run it", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
