"""XLA's custom calls on the CUDA driver of the tests: arrays go into its memory, the handler of platform CUDA is called, results come back."""

import ctypes
import os

import jax
import jax.numpy as jnp
import numpy as np

from stepfuse.jax import library

# XLA's numbers of types.
XLA = {"bool": 1, "int8": 2, "int16": 3, "int32": 4, "uint8": 6, "uint32": 8, "float16": 10, "float32": 11, "float64": 12, "bfloat16": 16,
       "float8_e5m2": 19, "float8_e4m3fn": 20}


class Buffer(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int32), ("rank", ctypes.c_int32), ("data", ctypes.c_void_p), ("dims", ctypes.POINTER(ctypes.c_int64))]


class Attribute(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int32), ("is_array", ctypes.c_int32), ("data", ctypes.c_void_p),
                ("size", ctypes.c_uint64)]


class Device:
    """One device and a stream on it. `ffi_call` stands for jax.ffi.ffi_call with arrays that are not traced."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.frames = ctypes.CDLL(os.environ["STEPFUSE_CALL_FRAME"])
        self.frames.call_handler.restype = ctypes.c_char_p
        self.handlers = ctypes.CDLL(str(library.FILE))
        self.stream = ctypes.c_void_p()
        context = ctypes.c_void_p()
        self.driver("cuInit", 0)
        self.driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.driver("cuCtxSetCurrent", context)
        self.driver("cuStreamCreate", ctypes.byref(self.stream), 1)
        self.memory = {}  # by target, position and bytes: addresses stay from call to call
        self.moves = False  # new addresses at each call
        self.calls = []  # of the driver by the handlers: {function: count} for each call of one

    def driver(self, name, *args):
        result = getattr(self.cuda, name)(*args)
        assert result == 0, f"{name}: {result}"

    def count(self, name):
        calls = self.cuda.stepfuse_fake_calls
        calls.restype = ctypes.c_uint64
        return calls(name.encode())

    def place(self, *key):
        size = key[-1]
        if self.moves or key not in self.memory:
            address = ctypes.c_uint64()
            self.driver("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
            self.memory[key] = address.value
        return self.memory[key]

    def upload(self, key, array):
        address = self.place(*key, array.nbytes)
        if array.nbytes:
            self.driver("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), array.ctypes.data_as(ctypes.c_void_p),
                        ctypes.c_size_t(array.nbytes), self.stream)
        return address

    def ffi_call(self, target, results, input_output_aliases=None):
        single = not isinstance(results, list)
        types = [results] if single else results
        aliases = {out: operand for operand, out in (input_output_aliases or {}).items()}

        def call(*operands, **attributes):
            arrays = [np.array(o, order="C") for o in operands]
            addresses = [self.upload((target, "in", i), a) for i, a in enumerate(arrays)]
            sizes = [int(np.prod(t.shape)) * jnp.dtype(t.dtype).itemsize for t in types]
            places = [addresses[aliases[i]] if i in aliases else self.place(target, "out", i, n) for i, n in enumerate(sizes)]
            self.call_handler(target, [*arrays, *types], [*addresses, *places], len(arrays), attributes)
            found = [np.empty(t.shape, jnp.dtype(t.dtype)) for t in types]
            for array, address in zip(found, places):
                if array.nbytes:
                    self.driver("cuMemcpyDtoHAsync_v2", array.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(address),
                                ctypes.c_size_t(array.nbytes), self.stream)
            self.driver("cuStreamSynchronize", self.stream)
            found = [jnp.asarray(a) for a in found]
            return found[0] if single else found

        return call

    def call_handler(self, target, arrays, addresses, operands, attributes):
        kept = [(ctypes.c_int64 * max(len(a.shape), 1))(*a.shape) for a in arrays]
        buffers = (Buffer * len(arrays))(*(Buffer(XLA[jnp.dtype(a.dtype).name], len(a.shape), address, dims)
                                           for a, address, dims in zip(arrays, addresses, kept)))
        given = []
        for name, value in sorted(attributes.items()):
            if isinstance(value, str):
                data = value.encode()
                given.append(Attribute(name.encode(), 0, 0, ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data)))
            else:
                value = np.asarray(value)
                given.append(Attribute(name.encode(), XLA[value.dtype.name], value.ndim, value.ctypes.data, value.size))
            kept.append((data if isinstance(value, str) else value))
        handler = getattr(self.handlers, target.replace("stepfuse_", "stepfuse_jax_") + "_cuda")
        names = ("cuStreamSynchronize", "cuCtxSynchronize", "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuLaunchKernelEx")
        before = [self.count(name) for name in names]
        message = self.frames.call_handler(handler, self.stream, buffers, ctypes.c_size_t(operands), ctypes.c_size_t(len(arrays) - operands),
                                           (Attribute * len(given))(*given), ctypes.c_size_t(len(given)))
        self.calls.append({name: self.count(name) - n for name, n in zip(names, before)})
        if message:
            raise RuntimeError(message.decode())
