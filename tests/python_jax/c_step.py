"""The same step through the C API, without JAX and without the handlers: what the tests compare bits with."""

import ctypes

import ml_dtypes
import numpy as np

import stepfuse

CPU, INTERPRETER = 0, 1
NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f8e4m3": ml_dtypes.float8_e4m3fn,
         "f8e5m2": ml_dtypes.float8_e5m2, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "bool": np.bool_,
         "i64": np.int64, "f64": np.float64}


def library():
    """The libstepfuse that the package is linked to, with the handle that the process has already."""
    import stepfuse._core  # noqa: F401

    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libstepfuse.so" in line)
    lib = ctypes.CDLL(path)
    lib.stepfuse_error_message.restype = ctypes.c_char_p
    lib.stepfuse_dtype_name.restype = ctypes.c_char_p
    for name in ("buffer", "state", "arg"):
        getattr(lib, f"stepfuse_program_{name}_count").restype = ctypes.c_size_t
        getattr(lib, f"stepfuse_program_{name}_count").argtypes = [ctypes.c_void_p]
        getattr(lib, f"stepfuse_program_{name}").argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return lib


class Struct(ctypes.Structure):
    @classmethod
    def make(cls, **values):
        return cls(size=ctypes.sizeof(cls), **values)


class Tensor(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("elements", ctypes.c_uint64), ("group", ctypes.c_int32),
                ("offset", ctypes.c_uint64), ("uncounted", ctypes.c_int32), ("frozen", ctypes.c_int32), ("storage", ctypes.c_void_p),
                ("storage_count", ctypes.c_size_t), ("full_size", ctypes.c_uint64), ("id", ctypes.c_void_p), ("columns", ctypes.c_uint64)]


class Device(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("kind", ctypes.c_int32), ("threads", ctypes.c_int32), ("ordinal", ctypes.c_int32),
                ("level", ctypes.c_char_p), ("options", ctypes.c_char_p)]


class StepOptions(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("form", ctypes.c_int32), ("observe", ctypes.c_int32), ("stats_ring", ctypes.c_int32),
                ("scaler", ctypes.c_void_p), ("gradient", ctypes.c_char_p), ("allocate", ctypes.c_void_p), ("release", ctypes.c_void_p),
                ("user", ctypes.c_void_p), ("unchecked_args", ctypes.c_int32)]


class ScalerOptions(Struct):
    _fields_ = [("size", ctypes.c_size_t), ("init_scale", ctypes.c_double), ("growth_factor", ctypes.c_double),
                ("backoff_factor", ctypes.c_double), ("growth_interval", ctypes.c_int32)]


class Step:
    """A step on copies of the parameters; `gradients` and `weights` are lists of numpy arrays."""

    def __init__(self, recipe, options, weights, args, device=CPU, groups=None, init_scale=0.0):
        self.lib, self.keep = library(), []
        self.program = stepfuse._core.Program(recipe, options)
        text = ctypes.c_char_p(self.program.text().encode())
        self.weights = [w.copy() for w in weights]
        program = self.out(self.lib.stepfuse_parse, text, None)
        layout = self.out(self.lib.stepfuse_layout_create)
        for i, w in enumerate(weights):
            columns = w.size // w.shape[0] if w.ndim > 1 and w.shape[0] else 0
            tensor = Tensor.make(name=b"t", elements=w.size, group=groups[i] if groups else 0, columns=columns)
            self.check(self.lib.stepfuse_layout_add(layout, ctypes.byref(tensor)))
        scaling = ScalerOptions.make(init_scale=init_scale)
        self.scaler = self.out(self.lib.stepfuse_scaler_create, ctypes.byref(scaling))
        where = Device.make(kind=device, threads=1)
        more = StepOptions.make(scaler=self.scaler)
        self.step = self.out(self.lib.stepfuse_step_create, program, layout, ctypes.byref(where), ctypes.byref(more))
        self.check(self.lib.stepfuse_step_prepare(self.step))
        self.arrays = {}
        for name, (_, dtype, block, _, least, below) in self.program.buffers().items():
            if name == "grad":
                continue
            if name == "weight":
                self.arrays[name] = self.weights
            else:
                self.arrays[name] = [np.zeros(w.shape if block == 1 else -(-w.size // block), NUMPY[dtype]) if least <= w.size < below else None
                                     for w in weights]
            self.check(self.lib.stepfuse_step_bind(self.step, name.encode(), self.pointers(self.arrays[name]), len(weights)))
        self.check(self.lib.stepfuse_step_init_state(self.step, None))
        self.args = self.out(self.lib.stepfuse_step_make_args, self.step)
        self.set(args)

    def check(self, status):
        assert status == 0, self.lib.stepfuse_error_message().decode()

    def out(self, function, *args):
        handle = ctypes.c_void_p()
        self.check(function(*args, ctypes.byref(handle)))
        return handle

    @staticmethod
    def pointers(arrays):
        return (ctypes.c_void_p * len(arrays))(*(None if a is None or a.size == 0 else a.ctypes.data for a in arrays))

    def set(self, args):
        names = list(self.program.args())
        for name, value in args.items():
            name, _, group = name.partition("@")
            index = names.index(name)
            if group:
                self.check(self.lib.stepfuse_args_set_group(self.args, index, int(group), ctypes.c_double(value)))
            else:
                self.check(self.lib.stepfuse_args_set(self.args, index, ctypes.c_double(value)))

    def run(self, gradients):
        self.check(self.lib.stepfuse_step_run(self.step, self.pointers(gradients), ctypes.c_size_t(len(gradients)), self.args, None))

    def values(self):
        """Each state's values, as bits in its dtype."""
        found = {}
        for name, (dtype, *_) in self.program.states().items():
            count = ctypes.c_size_t()
            self.check(self.lib.stepfuse_step_read_state(self.step, name.encode(), None, ctypes.c_size_t(0), ctypes.byref(count), None))
            words = (ctypes.c_uint64 * count.value)()
            self.check(self.lib.stepfuse_step_read_state(self.step, name.encode(), words, count, ctypes.byref(count), None))
            numpy = np.dtype(NUMPY[dtype])
            found[name] = np.array(words, np.uint64).view(np.uint8).reshape(-1, 8)[:, :numpy.itemsize].copy().view(numpy).reshape(-1)
        return found

    def write(self, name, values):
        words = (ctypes.c_uint64 * len(values))(*values)
        self.check(self.lib.stepfuse_step_write_state(self.step, name.encode(), words, ctypes.c_size_t(len(values)), None))

    def __del__(self):
        for name in ("step", "scaler"):
            if hasattr(self, name):
                getattr(self.lib, f"stepfuse_{name}_destroy")(getattr(self, name))
