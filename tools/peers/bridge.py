"""Steps of stepfuse over PyTorch tensors, through the library torch_bridge and the public C++ API."""

import ctypes
import functools
import os
import pathlib

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f8e4m3": torch.float8_e4m3fn,
         "f8e5m2": torch.float8_e5m2, "i32": torch.int32, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16}

P, S, I, D = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_double
SIGNATURES = {
    "sf_error": (S, []), "sf_compiled": (ctypes.c_uint64, []),
    "sf_scaler_new": (P, [D]), "sf_scaler_free": (None, [P]),
    "sf_scaler_read": (D, [P, S]), "sf_scaler_write": (I, [P, S, D]),
    "sf_open": (P, [S, S, S, P]), "sf_close": (None, [P]), "sf_text": (S, [P]),
    "sf_layout": (I, [P, I, P, P, P, P]), "sf_bind": (I, [P, S, P]), "sf_init_state": (I, [P]),
    "sf_set_arg": (I, [P, S, I, D]), "sf_set_state": (I, [P, S, I, D]),
    "sf_get_state": (I, [P, S, I, ctypes.POINTER(D)]),
    "sf_dtype": (I, [S]), "sf_buffer_name": (S, [P, I]), "sf_buffer": (I, [P, S]), "sf_buffer_count": (I, [P]), "sf_buffer_dtype": (I, [P, I]),
    "sf_run": (I, [P, P, P]), "sf_save": (I, [P, S]), "sf_load": (I, [P, S]),
}


def load_library():
    build = pathlib.Path(os.environ.get("STEPFUSE_BUILD", ROOT / "build"))
    found = sorted(build.rglob("libtorch_bridge.so"))
    if not found:
        raise SystemExit(f"no libtorch_bridge.so under {build}: build target torch_bridge, or set STEPFUSE_BUILD")
    lib = ctypes.CDLL(str(found[0]))
    for name, (result, arguments) in SIGNATURES.items():
        getattr(lib, name).restype = result
        getattr(lib, name).argtypes = arguments
    return lib


_lib = None


def library():
    global _lib
    _lib = _lib or load_library()
    return _lib


def check(failed):
    if failed:
        raise RuntimeError(library().sf_error().decode())


@functools.cache
def numbers():
    """The library's number of each storage type that torch has."""
    return {dtype: library().sf_dtype(name.encode()) for name, dtype in NAMES.items()}


class Scaler:
    """A LossScaler that several steps share."""

    def __init__(self, init_scale=65536.0):
        self.handle = library().sf_scaler_new(init_scale)

    def __del__(self):
        library().sf_scaler_free(self.handle)

    def read(self, state):
        return library().sf_scaler_read(self.handle, state.encode())

    def write(self, state, value):
        check(library().sf_scaler_write(self.handle, state.encode(), value))


class Step:
    """One step over a growing list of tensors; `buffers` are lists of tensors by buffer name."""

    def __init__(self, recipe, options="", backend="interpret", scaler=None, grad=torch.float32):
        self.lib = library()
        self.scaler = scaler
        self.handle = self.lib.sf_open(recipe.encode(), options.encode(), backend.encode(),
                                       scaler.handle if scaler else None)
        if not self.handle:
            raise RuntimeError(self.lib.sf_error().decode())
        self.grad_dtype = grad
        self.buffers = {}
        self.count = 0
        self.args = {}

    def __del__(self):
        if getattr(self, "handle", None):
            self.lib.sf_close(self.handle)

    def text(self):
        return self.lib.sf_text(self.handle).decode()

    def names(self):
        """Of its buffers."""
        return [self.lib.sf_buffer_name(self.handle, i).decode() for i in range(self.lib.sf_buffer_count(self.handle))]

    def slot(self, name):
        return self.lib.sf_buffer(self.handle, name.encode())

    def dtype(self, name):
        d = self.lib.sf_buffer_dtype(self.handle, self.slot(name))
        return self.grad_dtype if d < 0 else next(dtype for dtype, number in numbers().items() if number == d)

    def bind(self, groups, **buffers):
        """The tensors so far, by buffer; every buffer but grad. Called again after an append."""
        n = self.count = len(groups)
        self.buffers = buffers
        width = self.lib.sf_buffer_count(self.handle)
        some = next(iter(buffers.values()), [])
        sizes = (ctypes.c_int64 * max(1, n))(*[t.numel() for t in some])
        columns = (ctypes.c_int64 * max(1, n))(*[t.numel() // max(1, t.shape[0]) if t.ndim > 1 else 0 for t in some])
        flat = [numbers()[self.grad_dtype]] * (n * width)
        for name, tensors in buffers.items():
            assert self.slot(name) >= 0, name
            for t, x in enumerate(tensors):
                flat[t * width + self.slot(name)] = numbers()[x.dtype]
        check(self.lib.sf_layout(self.handle, n, sizes, columns, (ctypes.c_int32 * max(1, n))(*groups),
                                 (ctypes.c_int32 * max(1, len(flat)))(*flat)))
        for (group, name), value in self.args.items():  # an append makes new arguments
            check(self.lib.sf_set_arg(self.handle, name.encode(), group, value))
        for name, tensors in buffers.items():
            check(self.lib.sf_bind(self.handle, name.encode(), self.pointers(tensors)))

    @staticmethod
    def pointers(tensors):
        for x in tensors:
            assert x is None or x.is_contiguous()
        return (ctypes.c_void_p * max(1, len(tensors)))(*[None if x is None else x.data_ptr() for x in tensors])

    def init_state(self):
        check(self.lib.sf_init_state(self.handle))

    def set(self, group=-1, **args):
        for name, value in args.items():
            check(self.lib.sf_set_arg(self.handle, name.encode(), group, float(value)))
            self.args[group, name] = float(value)

    def set_state(self, name, value, member=0):
        check(self.lib.sf_set_state(self.handle, name.encode(), member, float(value)))

    def state(self, name, member=0):
        value = ctypes.c_double()
        check(self.lib.sf_get_state(self.handle, name.encode(), member, ctypes.byref(value)))
        return value.value

    def save(self, path):
        check(self.lib.sf_save(self.handle, str(path).encode()))

    def load(self, path):
        check(self.lib.sf_load(self.handle, str(path).encode()))

    def run(self, grads=()):
        """grads: a tensor, or None for a missing gradient, per tensor."""
        self.run_pointers(self.pointers(list(grads)) if self.count else None)

    def run_pointers(self, pointers, stream=None):
        """The addresses of one gradient per tensor, as pointers() makes them; on a CUDA stream's handle."""
        check(self.lib.sf_run(self.handle, pointers, stream))
