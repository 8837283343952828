"""`python -m stepfuse.selftest` reports what this environment has, and whether steps have the right bits in it.

It prints one line per finding. The exit code is 0 if steps work; otherwise it is 1 and the reason is printed. Kernels are compiled and
not taken from the disk cache.
"""

import ctypes
import importlib.metadata
import importlib.util
import os
import pathlib
import struct
import sys
import time

import stepfuse
from stepfuse import _core

CPU, INTERPRETER, CUDA = 0, 1, 2
SIZES = (1000, 1, 0, 257)
OPTIONS = ("clip=l2", "loss-scale=dynamic")


def digits(kind: int) -> bytes:
    """Runs three steps of AdamW with clipping and loss scale; the second one overflows. Returns the bytes of weights and moments."""
    scaler = _core.Scaler(1024.0, 2.0, 0.5, 2)
    layout = [(f"tensor {i}", n, i % 2, False, i) for i, n in enumerate(SIZES)]
    step = _core.Step(_core.Program("adamw", OPTIONS), layout, kind, 0, 0, scaler, False)
    arrays = {name: [(ctypes.c_float * max(1, n))() for n in SIZES]
              for name in ("grad", "weight", "exp_avg", "exp_avg_sq")}
    for t, n in enumerate(SIZES):
        for i in range(n):
            arrays["weight"][t][i] = ((i * 37 + t) % 101) / 50 - 1
            arrays["grad"][t][i] = 1024 * (((i * 53 + t) % 97) / 40 - 1.2)
    for name in ("weight", "exp_avg", "exp_avg_sq"):
        step.bind(name, [ctypes.addressof(a) for a in arrays[name]])
    step.adopt_state()

    class Held:
        """A stand-in that the walk accepts as a parameter."""

        def __init__(self, grad: object) -> None:
            self.grad = grad

    class Memory:
        """A stand-in that the walk accepts as a gradient."""

        _version = property(lambda self: 0)
        dtype, device = "f32", "cpu"

        def __init__(self, array: ctypes.Array) -> None:
            self.array = array

        def size(self) -> tuple[int, ...]:
            return (len(self.array),)

        def is_neg(self) -> bool:
            return False

        def data_ptr(self) -> int:
            return ctypes.addressof(self.array)

        def stride(self) -> tuple[int, ...]:
            return (1,)

    class Parameter(Held, Memory):
        def __init__(self, array: ctypes.Array, grad: Memory) -> None:
            Held.__init__(self, grad)
            Memory.__init__(self, array)

    walk = _core.Walk(None, Memory, ())
    params = [Parameter(w, Memory(g)) for w, g in zip(arrays["weight"], arrays["grad"])]
    for slot, p in enumerate(params):
        walk.add(p, 0, slot, p, p, False)
    groups = [{"params": params}]
    walk.watch({}, groups, (), ())
    for i in range(3):
        if walk.scan(groups, {}, tuple) != []:
            raise RuntimeError("the walk does not find the parameters where they are")
        first = arrays["grad"][0]
        kept = first[5]
        first[5] = float("inf") if i == 1 else kept
        step.run(walk, 0, 0)
        first[5] = kept
        skipped = step.stats(True, 0)["skipped"]
        if skipped != (i == 1):
            raise RuntimeError(f"step {i} {'was' if skipped else 'was not'} skipped")
    scale = struct.pack("d", scaler.read("scale"))
    return scale + b"".join(bytes(a) for name in ("weight", "exp_avg", "exp_avg_sq") for a in arrays[name])


def opened(name: str) -> str:
    """Returns the path of the library of that name in this process."""
    maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    files = {line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/")}
    found = sorted(f for f in files if name in pathlib.PurePath(f).name.lower())
    return ", ".join(found) or "not opened: the kernel came from the folder in STEPFUSE_KERNELS"


def try_torch() -> str:
    """Makes some of the optimizers and compares a step of each with torch's own. Returns what is wrong, if anything."""
    import torch

    import stepfuse.torch

    for name in ("SGD", "Adam", "AdamW"):
        params = [torch.nn.Parameter(torch.linspace(-1, 1, 64)) for _ in range(2)]
        for p, module in zip(params, (stepfuse.torch, torch.optim)):
            optimizer = getattr(module, name)([p], lr=0.1)
            p.grad = torch.linspace(-2, 1, 64)
            optimizer.step()
        if not torch.allclose(*params):
            return f"a step of stepfuse.torch.{name} differs from one of torch.optim.{name}"
    return ""


def main() -> int:
    os.environ["STEPFUSE_CACHE"] = "off"
    print(f"stepfuse {stepfuse.__version__} in {stepfuse.__path__[0]}")
    has_torch = importlib.util.find_spec("torch") is not None
    print(f"torch {importlib.metadata.version('torch') if has_torch else 'is not installed'}")
    if has_torch:
        try:
            wrong = try_torch()
        except Exception as error:  # of any kind: torch may be too old or incomplete
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            print(f"stepfuse.torch does not work with this torch: {wrong}")
            return 1
        print("torch: steps of SGD, Adam and AdamW match torch's")
    expected = digits(INTERPRETER)
    began = time.perf_counter()
    try:
        found = digits(CPU)
    except _core.Error as error:
        print(f"CPU: {error}")
        return 1
    print(f"CPU: compiled and run in {time.perf_counter() - began:.1f} s")
    print(f"LLVM: {opened('llvm')}")
    if found != expected:
        print("CPU: its bits are not the interpreter's: please report this")
        return 1
    print("CPU: the same bits as the interpreter")
    try:
        _core.Step(_core.Program("adamw", OPTIONS), [("w", 8, 0, False, 0)], CUDA, 0, 0, _core.Scaler(1.0, 2.0, 0.5, 1),
                   False)
        print("CUDA: a kernel was compiled and loaded")
        print(f"NVRTC: {opened('libnvrtc.so')}")
    except _core.Error as error:
        print(f"CUDA: not used: {error}")
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
