"""The same step through the C API, without JAX and without the handlers: what the tests compare bits with."""

import ctypes
import pathlib
import sys

import ml_dtypes
import numpy as np

import stepfuse

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools/peers"))
import c_api  # noqa: E402
from c_api import CPU, INTERPRETER, N, call, make  # noqa: E402, F401

NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn,
         "f8e5m2": ml_dtypes.float8_e5m2, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "bool": np.bool_,
         "i64": np.int64, "f64": np.float64}


class Step:
    """A step on copies of the parameters; `gradients` and `weights` are lists of numpy arrays."""

    def __init__(self, recipe, options, weights, args, device=CPU, groups=None, init_scale=0.0):
        self.program = stepfuse._core.Program(recipe, options)
        self.weights = [w.copy() for w in weights]
        program = make("parse", self.program.text(), None)
        layout = make("layout_create")
        for i, w in enumerate(weights):
            columns = w.size // w.shape[0] if w.ndim > 1 and w.shape[0] else 0
            tensor = c_api.Tensor.make(name=b"t", elements=w.size, group=groups[i] if groups else 0, columns=columns)
            call("layout_add", layout, ctypes.byref(tensor))
        self.scaler = make("scaler_create", ctypes.byref(c_api.ScalerOptions.make(init_scale=init_scale)))
        where = c_api.Device.make(kind=device, threads=1)
        more = c_api.StepOptions.make(scaler=self.scaler)
        self.step = make("step_create", program, layout, ctypes.byref(where), ctypes.byref(more))
        call("step_prepare", self.step)
        self.arrays = {}
        for name, (_, dtype, block, _, least, below, *_) in self.program.buffers().items():
            if name == "grad":
                continue
            if name == "weight":
                self.arrays[name] = self.weights
            else:
                self.arrays[name] = [np.zeros(w.shape if block == 1 else -(-w.size // block), NUMPY[dtype]) if least <= w.size < below else None
                                     for w in weights]
            call("step_bind", self.step, name, self.pointers(self.arrays[name]), N(len(weights)))
        call("step_init_state", self.step, None)
        self.args = make("step_make_args", self.step)
        self.set(args)

    @staticmethod
    def pointers(arrays):
        return c_api.pointers([None if a is None or a.size == 0 else a.ctypes.data for a in arrays])

    def set(self, args):
        names = list(self.program.args())
        for name, value in args.items():
            name, _, group = name.partition("@")
            index = names.index(name)
            if group:
                call("args_set_group", self.args, index, int(group), float(value))
            else:
                call("args_set", self.args, index, float(value))

    def run(self, gradients):
        call("step_run", self.step, self.pointers(gradients), N(len(gradients)), self.args, None)

    def values(self):
        """Each state's values, as bits in its dtype."""
        found = {}
        for name, (dtype, *_) in self.program.states().items():
            words = c_api.read_state(self.step, name)
            numpy = np.dtype(NUMPY[dtype])
            found[name] = np.array(words, np.uint64).view(np.uint8).reshape(-1, 8)[:, :numpy.itemsize].copy().view(numpy).reshape(-1)
        return found

    def write(self, name, values):
        c_api.write_state(self.step, name, values)

    def __del__(self):
        for kind in ("step", "scaler"):
            c_api.destroy(kind, getattr(self, kind, None))
