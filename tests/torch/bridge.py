"""Steps of stepfuse over PyTorch tensors, through the test library torch_bridge."""

import ctypes
import os
import pathlib

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {torch.float16: 3, torch.bfloat16: 4, torch.float32: 5}  # DType in ir/types.hpp
STORAGE = {v: k for k, v in DTYPES.items()}


def load_library():
    build = pathlib.Path(os.environ.get("STEPFUSE_BUILD", ROOT / "build"))
    for path in sorted(build.rglob("libtorch_bridge.so")):
        lib = ctypes.CDLL(str(path))
        break
    else:
        raise SystemExit(f"no libtorch_bridge.so under {build}: build target torch_bridge, or set STEPFUSE_BUILD")
    lib.sf_error.restype = ctypes.c_char_p
    lib.sf_text.restype = ctypes.c_char_p
    lib.sf_text.argtypes = [ctypes.c_void_p]
    lib.sf_open.restype = ctypes.c_void_p
    lib.sf_open.argtypes = [ctypes.c_char_p] * 3
    lib.sf_close.argtypes = [ctypes.c_void_p]
    lib.sf_layout.argtypes = [ctypes.c_void_p, ctypes.c_int] + [ctypes.c_void_p] * 2 + [ctypes.c_int, ctypes.c_void_p]
    lib.sf_set_arg.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_double]
    lib.sf_set_state.argtypes = lib.sf_set_arg.argtypes
    lib.sf_get_state.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
    lib.sf_get_state.restype = ctypes.c_double
    lib.sf_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    lib.sf_buffer_count.argtypes = [ctypes.c_void_p]
    lib.sf_buffer_dtype.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.sf_run.argtypes = [ctypes.c_void_p] * 3
    return lib


_lib = None


class Step:
    """One step over a growing list of tensors; `buffers` are lists of tensors by buffer name."""

    def __init__(self, recipe, options="", backend="interpret", groups=1, grad=torch.float32):
        global _lib
        _lib = _lib or load_library()
        self.handle = _lib.sf_open(recipe.encode(), options.encode(), backend.encode())
        if not self.handle:
            raise RuntimeError(_lib.sf_error().decode())
        self.group_count = groups
        self.grad_dtype = grad
        self.buffer_count = _lib.sf_buffer_count(self.handle)
        self.buffers = {}
        self.groups = []

    def __del__(self):
        if getattr(self, "handle", None):
            _lib.sf_close(self.handle)

    def text(self):
        return _lib.sf_text(self.handle).decode()

    def _check(self, failed):
        if failed:
            raise RuntimeError(_lib.sf_error().decode())

    def slot(self, name):
        return _lib.sf_buffer(self.handle, name.encode())

    def dtype(self, name):
        d = _lib.sf_buffer_dtype(self.handle, self.slot(name))
        return self.grad_dtype if d < 0 else STORAGE[d]

    def bind(self, groups, **buffers):
        """Tensors so far, by buffer; every buffer but grad. Called again after an append."""
        self.groups, self.buffers = list(groups), buffers
        n = len(self.groups)
        any_buffer = next(iter(buffers.values()))
        sizes = (ctypes.c_int64 * n)(*[t.numel() for t in any_buffer])
        group = (ctypes.c_int32 * n)(*self.groups)
        flat = [DTYPES[self.grad_dtype]] * (n * self.buffer_count)
        for name, tensors in buffers.items():
            slot = self.slot(name)
            assert slot >= 0, name
            for t, x in enumerate(tensors):
                flat[t * self.buffer_count + slot] = DTYPES[x.dtype]
        dtypes = (ctypes.c_int32 * len(flat))(*flat)
        self._check(_lib.sf_layout(self.handle, n, sizes, group, self.group_count, dtypes))

    def set(self, group=0, **args):
        for name, value in args.items():
            self._check(_lib.sf_set_arg(self.handle, name.encode(), group, float(value)))

    def set_state(self, name, value, member=0):
        self._check(_lib.sf_set_state(self.handle, name.encode(), member, float(value)))

    def state(self, name, member=0):
        return _lib.sf_get_state(self.handle, name.encode(), member)

    def run(self, grads):
        """grads: a tensor, or None for a missing gradient, per tensor."""
        n = len(self.groups)
        pointers = (ctypes.c_void_p * max(1, n * self.buffer_count))()
        present = (ctypes.c_uint8 * max(1, n))()
        grad_slot = self.slot("grad")
        for t in range(n):
            for name, tensors in self.buffers.items():
                pointers[t * self.buffer_count + self.slot(name)] = tensors[t].data_ptr()
            if grads[t] is not None and grad_slot >= 0:
                present[t] = 1
                assert grads[t].is_contiguous()
                pointers[t * self.buffer_count + grad_slot] = grads[t].data_ptr()
        self._check(_lib.sf_run(self.handle, pointers, present))
