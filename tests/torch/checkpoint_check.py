#!/usr/bin/env python3
"""A run that changes between PyTorch and stepfuse in the middle equals an unchanged one, for each recipe and direction.

Needs torch, safetensors and xxhash; exits with 77 (skipped) if one is missing.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import safetensors  # noqa: F401
    import xxhash  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "peers")]

import bridge  # noqa: E402
import compare  # noqa: E402
import peer  # noqa: E402
import torch_checkpoint  # noqa: E402

# Sizes are multiples of 8: PyTorch's own vector tail rounds differently (docs/parity.md).
SHAPES = [(32, 16), (8,), (0, 3), (3, 5, 8), (64,)]
LATE = 3  # the tensor that has no gradient before step 7
SCALE = 1024.0
# PyTorch's fused SGD fails if a first gradient comes late.
FUSED = (torch.optim.Adam, torch.optim.AdamW)


def gradients(step):
    g = torch.Generator().manual_seed(step)
    found = [torch.randn(s, generator=g) for s in SHAPES]
    if 0 <= step < 7:
        found[LATE] = None
    return found


class Torch:
    def __init__(self, case, weights):
        self.weights = [torch.nn.Parameter(w.detach().clone()) for w in weights]
        implementation = "fused" if case.cls in FUSED else "foreach"
        self.optimizer = peer.make_optimizer(case.cls, [{"params": self.weights}], implementation, **case.keywords,
                                             **case.hyper)
        self.scaler = peer.make_scaler(SCALE, growth_factor=2.0, backoff_factor=0.5, growth_interval=3)

    def run(self, steps):
        for i in steps:
            scale = float(self.scaler._scale)
            for w, g in zip(self.weights, gradients(i)):
                w.grad = None if g is None else g * scale
            self.scaler.step(self.optimizer)
            self.scaler.update()


class Stepfuse:
    def __init__(self, case, weights):
        self.weights = [w.detach().clone() for w in weights]
        profile = "torch-fused" if case.cls in FUSED else "torch-foreach"
        self.scaler = bridge.Scaler(SCALE)
        self.step = bridge.Step(case.recipe, f"{case.options} loss-scale profile={profile}", "interpret", self.scaler)
        kept = {n: [torch.zeros_like(w) for w in weights] for n in peer.KEPT if self.step.slot(n) >= 0}
        self.step.bind([0] * len(weights), weight=self.weights, **kept)
        self.step.init_state()
        self.step.set(growth_factor=2.0, backoff_factor=0.5, growth_interval=3, **compare.recipe_args(case.hyper))

    def run(self, steps):
        for i in steps:
            scale = self.step.state("scale")
            self.step.run([None if g is None else g * scale for g in gradients(i)])


def contents(path):
    """The contents of a checkpoint in a comparable form: the order in a file's header is arbitrary."""
    states, scaler, step = torch_checkpoint.read(path)
    return {i: {n: (tuple(v.shape), v.dtype, v.tolist()) for n, v in s.items()} for i, s in states.items()}, scaler, step


class Check:
    def __init__(self):
        self.failed = []

    def equal(self, what, a, b):
        if a != b:
            self.failed.append(what)
            print(f"{what}: {a} is not {b}")

    def weights(self, what, a, b):
        differing = sum(int((x.detach() != y.detach()).sum()) for x, y in zip(a, b))
        self.equal(f"{what}: differing weights", differing, 0)

    def refused(self, what, *words):
        try:
            tool(*words)
            said = ""
        except SystemExit as error:  # with a text as its code, Python prints the text and exits with 1
            said = str(error.code)
        self.equal(f"{words}: says '{what}', says {said}", what in said, True)


def tool(*words):
    """The command, in this process: another one would take seconds to import PyTorch."""
    torch_checkpoint.main([*map(str, words)])


def both_ways(case, check, folder):
    """Five steps on each side, converted by checkpoint and by file."""
    start = [w * 0.1 for w in gradients(-1 & 0xFFFF)]
    whole = Torch(case, start)
    whole.run(range(10))
    path, pt, like = folder / "a.safetensors", folder / "a.pt", folder / "like.pt"

    first = Torch(case, start)
    first.run(range(5))
    torch_checkpoint.save(path, case.recipe, first.optimizer, first.scaler)
    direct = contents(path)
    second = Stepfuse(case, first.weights)
    second.step.load(path)
    second.run(range(5, 10))
    check.weights(f"{case.name}: torch, then stepfuse", second.weights, whole.weights)
    check.equal(f"{case.name}: scale", second.step.state("scale"), float(whole.scaler._scale))

    first = Stepfuse(case, start)
    first.run(range(5))
    first.step.save(path)
    second = Torch(case, first.weights)
    torch.save(torch_checkpoint.state(second.optimizer, second.scaler), like)
    torch_checkpoint.load(path, second.optimizer, second.scaler)
    for i, state in second.optimizer.state_dict()["state"].items():
        for name, value in state.items():
            if name != "step" and value is not None:
                check.equal(f"{case.name}: shape of {name} {i}", tuple(value.shape), SHAPES[i])
    second.run(range(5, 10))
    check.weights(f"{case.name}: stepfuse, then torch", second.weights, whole.weights)
    check.equal(f"{case.name}: scaler", second.scaler.state_dict(), whole.scaler.state_dict())

    if case.name in ("AdamW", "SGD, momentum", "Adagrad"):  # the same through files
        tool("to-torch", path, pt, "--like", like)
        found = torch.load(pt, weights_only=True)
        second = Torch(case, first.weights)
        second.optimizer.load_state_dict(found["optimizer"])
        second.scaler.load_state_dict(found["scaler"])
        second.run(range(5, 10))
        check.weights(f"{case.name}: to-torch", second.weights, whole.weights)
        first = Torch(case, start)
        first.run(range(5))
        torch.save(torch_checkpoint.state(first.optimizer, first.scaler), pt)
        tool("from-torch", pt, path, "--step", case.recipe)
        check.equal(f"{case.name}: from-torch", contents(path) == direct, True)


def low_precision(check, folder):
    """f32 moments and masters of bf16 parameters keep their bits; f32 parameters take the masters."""
    path = folder / "b.safetensors"
    shape = (3, 8)
    state = {n: torch.randn(shape) for n in ("exp_avg", "exp_avg_sq", "master")}
    torch_checkpoint.write(path, "adamw", {0: {**state, "step": torch.tensor(4.0)}}, [shape], {})
    parameter = torch.nn.Parameter(torch.zeros(shape, dtype=torch.bfloat16))
    optimizer = torch.optim.AdamW([parameter])
    torch_checkpoint.load(path, optimizer)
    for name, value in state.items():
        check.equal(f"bf16: {name}", torch.equal(optimizer.state[parameter][name], value), True)
    again = folder / "c.safetensors"
    torch_checkpoint.save(again, "adamw", optimizer)
    check.equal("bf16: there and back", contents(again) == contents(path), True)
    parameter = torch.nn.Parameter(torch.zeros(shape))
    optimizer = torch.optim.AdamW([parameter])
    torch_checkpoint.load(path, optimizer)
    check.equal("master into the parameter", torch.equal(parameter.detach(), state["master"]), True)
    torch_checkpoint.save(again, "adamw", optimizer, master=True)
    check.equal("master from the parameter", contents(again) == contents(path), True)
    # Without a state to fill: one group with torch's defaults, and the file's shapes.
    subprocess.run([sys.executable, ROOT / "tools" / "torch_checkpoint.py", "to-torch", path, folder / "b.pt"], check=True,
                   capture_output=True)
    optimizer.load_state_dict(torch.load(folder / "b.pt", weights_only=True)["optimizer"])
    parameter.grad = torch.ones(shape)
    optimizer.step()
    check.equal("to-torch without --like", int(optimizer.state[parameter]["step"]), 5)


def mistakes(check, folder):
    path, pt = folder / "d.safetensors", folder / "d.pt"
    parameters = [torch.nn.Parameter(torch.ones(8)) for _ in range(2)]
    optimizer = torch.optim.AdamW(parameters)
    parameters[0].grad = torch.ones(8)
    optimizer.step()
    torch_checkpoint.save(path, "adamw", optimizer)
    torch.save({"optimizer": optimizer.state_dict()}, pt)
    check.refused("did you mean from-torch?", "to-torch", pt, path)
    check.refused("did you mean to-torch?", "from-torch", path, pt)
    check.refused("parameter 1 has no state", "from-torch", pt, folder / "e.safetensors")
    check.refused("No such file", "to-torch", folder / "none", pt)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    bad = folder / "bad.safetensors"
    bad.write_bytes(data)
    check.refused("its checksum does not match", "to-torch", bad, pt)
    bad.write_bytes(path.read_bytes().replace(b"xxh3_128", b"xxh3_129"))
    check.refused("it has no digest", "to-torch", bad, pt)
    bad.write_bytes(b"no checkpoint at all")
    check.refused("not a safetensors file", "to-torch", bad, pt)
    done = subprocess.run([sys.executable, ROOT / "tools" / "torch_checkpoint.py", "to-torch", bad, pt], check=False,
                          capture_output=True, text=True)
    check.equal("exit code and Traceback", (done.returncode, "Traceback" in done.stderr), (1, False))
    check.equal("no gradient, no count", int(torch_checkpoint.read(path)[0][1]["step"]), 0)


def written_in_place(check, folder):
    """A link remains a link, its file keeps its mode, and no other file is left or followed."""
    real, link = folder / "real" / "f.safetensors", folder / "f.safetensors"
    real.parent.mkdir()
    real.touch()
    real.chmod(0o640)
    link.symlink_to(real)
    other = folder / "other"
    other.write_text("kept")
    for place in (real, link):  # names that another user could have prepared
        pathlib.Path(f"{place}.{os.getpid()}.partial").symlink_to(other)
    torch_checkpoint.write(link, "adamw", {0: {"exp_avg": torch.ones(8), "step": torch.tensor(1.0)}}, [(8,)], {})
    check.equal("a link is written through", link.is_symlink() and int(torch_checkpoint.read(real)[0][0]["step"]), 1)
    check.equal("its file's mode", real.stat().st_mode & 0o777, 0o640)
    check.equal("another's file", other.read_text(), "kept")
    check.equal("files left behind", len(list(real.parent.iterdir())), 2)


def main():
    check = Check()
    with tempfile.TemporaryDirectory() as folder:
        for case in compare.CASES:
            with peer.ieee_sqrt(True):
                both_ways(case, check, pathlib.Path(folder))
        low_precision(check, pathlib.Path(folder))
        mistakes(check, pathlib.Path(folder))
        written_in_place(check, pathlib.Path(folder))
    print(f"{len(compare.CASES)} recipes, {len(check.failed)} faults")
    sys.exit(1 if check.failed else 0)


if __name__ == "__main__":
    main()
