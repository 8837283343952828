"""Loads the XLA handlers, stepfuse._jax, and registers them once; knows jax's FFI."""

from __future__ import annotations

import ctypes
import functools
import pathlib

import jax

from .. import _core

STEP, REDUCE, INIT = "stepfuse_step", "stepfuse_reduce", "stepfuse_init"
FILE = pathlib.Path(__file__).parent.parent / "_jax.so"


@functools.lru_cache(maxsize=1)
def load() -> None:
    if not FILE.exists():
        raise _core.Error(f"stepfuse.jax: {FILE} is missing, because jaxlib's headers were not found when stepfuse was built; "
                          "install jax and build the package again")
    if not hasattr(jax, "ffi"):
        raise _core.Error(f"stepfuse.jax: jax {jax.__version__} has no jax.ffi; install jax 0.5 or later")
    library = ctypes.CDLL(str(FILE))
    for name in (STEP, REDUCE, INIT):
        symbol = name.replace("stepfuse_", "stepfuse_jax_")
        for platform, suffix in (("cpu", ""), ("CUDA", "_cuda")):
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, symbol + suffix)), platform=platform)
