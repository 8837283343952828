"""Steps of stepfuse over PyTorch tensors, through the C API of the library that the Python package is linked to."""

import ctypes
import struct

import torch

import c_api
from c_api import N, call, make

NAMES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f8e4m3": torch.float8_e4m3fn,
         "f8e5m2": torch.float8_e5m2, "f8e8m0": torch.float8_e8m0fnu, "i32": torch.int32,
         "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16}
PACKED = {"bool": "?", "i32": "i", "i64": "q", "f32": "f", "f64": "d"}  # states, as struct has them


def dtype_name(number):
    return (c_api.library().stepfuse_dtype_name(number) or b"").decode()


NUMBERS = {NAMES[name]: number for number in range(32) if (name := dtype_name(number)) in NAMES}


def has_several(types):
    return types & (types - 1) != 0


class Scaler:
    """A LossScaler that several steps share."""

    def __init__(self, init_scale=65536.0):
        self.handle = make("scaler_create", ctypes.byref(c_api.ScalerOptions.make(init_scale=init_scale)))

    def __del__(self):
        c_api.destroy("scaler", getattr(self, "handle", None))

    def read(self, state):
        value = ctypes.c_double()
        call("scaler_read", self.handle, state, ctypes.byref(value))
        return value.value

    def write(self, state, value):
        call("scaler_write", self.handle, state, float(value))


def make_program(step, options):
    """`step` is a recipe's name, an optimizer's formula, or a step's text."""
    if "step @" in step:
        return make("parse", step, None)
    words = [word.encode() for word in options.split()]
    given = (ctypes.c_char_p * max(1, len(words)))(*words), N(len(words))
    return make("formula", step, None, *given) if "{" in step else make("recipe", step, *given)


def choose_backend(text):
    """Device and form of "interpret", "cpu[:form[:level[:threads]]]" or "cuda[:form]", as in "cpu:fused:host:2"."""
    kind, form, level, threads = (text.split(":") + [""] * 3)[:4]
    if kind == "cuda":
        where = c_api.Device.make(kind=c_api.CUDA, ordinal=torch.cuda.current_device())
    elif kind == "cpu":
        where = c_api.Device.make(kind=c_api.CPU, threads=int(threads or 1), level=level.encode() or None)
    else:
        where = c_api.Device.make(kind=c_api.INTERPRETER)
    return where, c_api.FORMS.index(form or "fused")


class Step:
    """One step over a growing list of tensors; `buffers` are lists of tensors by buffer name."""

    def __init__(self, recipe, options="", backend="interpret", scaler=None, grad=torch.float32):
        self.scaler = scaler or Scaler()
        self.program = make_program(recipe, options)
        self.device, self.form = choose_backend(backend)
        self.declared = c_api.declared(self.program, c_api.Buffer)
        self.states = c_api.declared(self.program, c_api.State)
        self.arguments = list(c_api.declared(self.program, c_api.Arg))
        self.grad_dtype = grad
        self.count, self.given = 0, {}
        self.step = self.args = None

    def __del__(self):
        for kind in ("args", "step", "program"):
            c_api.destroy(kind, getattr(self, kind, None))

    def text(self):
        text = make("program_print", self.program)
        try:
            return ctypes.string_at(text).decode()
        finally:
            c_api.library().stepfuse_free(text)

    def names(self):
        """Returns the names of its buffers."""
        return list(self.declared)

    def slot(self, name):
        return list(self.declared).index(name) if name in self.declared else -1

    def dtype(self, name):
        types = self.declared[name].dtypes
        return self.grad_dtype if has_several(types) else NAMES[dtype_name(types.bit_length() - 1)]

    def describe(self, t, group, buffers):
        """Tensor t as the C API describes it, and what that refers to."""
        some = next((tensors[t] for tensors in buffers.values()), None)
        of = {name: NUMBERS[tensors[t].dtype] for name, tensors in buffers.items()}
        several = [name for name, b in self.declared.items() if has_several(b.dtypes)]
        storage = (c_api.Storage * max(1, len(several)))(*((name.encode(), of.get(name, NUMBERS[self.grad_dtype])) for name in several))
        columns = some.numel() // max(1, some.shape[0]) if some.ndim > 1 else 0
        return c_api.Tensor.make(name=f"t{t}".encode(), elements=some.numel(), group=group, columns=columns,
                                 storage=ctypes.addressof(storage), storage_count=len(several)), storage

    def bind(self, groups, **buffers):
        """The tensors so far, by buffer; every buffer but grad. Called again after an append."""
        assert all(name in self.declared for name in buffers), list(buffers)
        described = [self.describe(t, groups[t], buffers) for t in range(self.count, len(groups))]
        self.count, self.buffers = len(groups), buffers  # the arrays live as long as they are bound
        if self.step is None:
            layout = make("layout_create")
            for tensor, _ in described:
                call("layout_add", layout, ctypes.byref(tensor))
            options = c_api.StepOptions.make(form=self.form, scaler=self.scaler.handle)
            self.step = make("step_create", self.program, layout, ctypes.byref(self.device), ctypes.byref(options))
            c_api.destroy("layout", layout)
        else:
            for tensor, _ in described:
                call("step_append", self.step, ctypes.byref(tensor))
        call("step_prepare", self.step)
        call("step_adopt_state", self.step)  # who drives this says what the arrays begin with
        c_api.destroy("args", self.args)
        self.args = make("step_make_args", self.step)
        for (group, name), value in self.given.items():  # an append makes new arguments
            self.set(group, **{name: value})
        for name, tensors in buffers.items():
            call("step_bind", self.step, name, self.pointers(tensors), N(self.count))

    @staticmethod
    def pointers(tensors):
        assert all(x is None or x.is_contiguous() for x in tensors)
        return c_api.pointers([None if x is None else x.data_ptr() for x in tensors])

    def init_state(self):
        call("step_init_state", self.step, None)

    def set(self, group=-1, **args):
        for name, value in args.items():
            where = self.arguments.index(name)
            if group < 0:
                call("args_set", self.args, where, float(value))
            else:
                call("args_set_group", self.args, where, group, float(value))
            self.given[group, name] = value

    def set_state(self, name, value, member=0):
        words = c_api.read_state(self.step, name)
        kind = PACKED[dtype_name(self.states[name].dtype)]
        words[member] = int.from_bytes(struct.pack(f"<{kind}", value if kind in "fd" else int(value)).ljust(8, b"\0"), "little")
        c_api.write_state(self.step, name, words)

    def state(self, name, member=0):
        word = c_api.read_state(self.step, name)[member].to_bytes(8, "little")
        return float(struct.unpack_from(f"<{PACKED[dtype_name(self.states[name].dtype)]}", word)[0])

    def save(self, path):
        call("save_checkpoint", str(path), self.step)

    def load(self, path):
        call("load_checkpoint", str(path), self.step)

    def run(self, grads=()):
        """grads: a tensor, or None for a missing gradient, per tensor."""
        grads = list(grads)
        self.run_pointers(self.pointers(grads) if self.count and grads else None)

    def run_pointers(self, pointers, stream=None):
        """The addresses of one gradient per tensor, as pointers() makes them; on a CUDA stream's handle."""
        handle = ctypes.c_void_p(stream) if stream else None
        call("step_run", self.step, pointers, N(self.count if pointers else 0), self.args, handle)
