"""stepfuse.h by ctypes, in the library that the Python package is linked to: comparisons drive a step as a C program does.

PYTHONPATH names the package, as in build/python.
"""

import ctypes
import functools

CPU, INTERPRETER, CUDA = 0, 1, 2
FORMS = ("fused", "split", "unfused")


class Error(RuntimeError):
    pass


@functools.cache
def library():
    """The libstepfuse that this process has loaded already."""
    import stepfuse._core  # noqa: F401

    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "libstepfuse.so" in line)
    lib = ctypes.CDLL(path)
    for name in ("error_message", "dtype_name"):
        getattr(lib, f"stepfuse_{name}").restype = ctypes.c_char_p
    for name in ("buffer", "state", "arg"):
        count, get = getattr(lib, f"stepfuse_program_{name}_count"), getattr(lib, f"stepfuse_program_{name}")
        count.restype, count.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
        get.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return lib


def call(function, *args):
    """Calls stepfuse_FUNCTION; a float is a double there, a str a text, an int from 2^31 on or a length a size_t."""
    plain = [ctypes.c_double(a) if isinstance(a, float) else a.encode() if isinstance(a, str) else a for a in args]
    if getattr(library(), f"stepfuse_{function}")(*plain):
        raise Error(library().stepfuse_error_message().decode())


def make(function, *args):
    """Returns what stepfuse_FUNCTION puts into its last argument, a handle or a text."""
    handle = ctypes.c_void_p()
    call(function, *args, ctypes.byref(handle))
    return handle


def destroy(kind, handle):
    if handle:
        getattr(library(), f"stepfuse_{kind}_destroy")(handle)


class Struct(ctypes.Structure):
    @classmethod
    def make(cls, **values):
        return cls(size=ctypes.sizeof(cls), **values)


def struct(class_name, /, **fields):
    return type(class_name, (Struct,), {"_fields_": [("size", ctypes.c_size_t), *fields.items()]})


P, S, I32, U32, U64, N = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t
Tensor = struct("Tensor", name=S, elements=U64, group=I32, offset=U64, uncounted=I32, frozen=I32, storage=P, storage_count=N, full_size=U64,
                id=P, columns=U64)
Device = struct("Device", kind=I32, threads=I32, ordinal=I32, level=S, options=S)
StepOptions = struct("StepOptions", form=I32, observe=I32, stats_ring=I32, scaler=P, gradient=S, allocate=P, release=P, user=P, unchecked_args=I32)
ScalerOptions = struct("ScalerOptions", init_scale=ctypes.c_double, growth_factor=ctypes.c_double, backoff_factor=ctypes.c_double,
                       growth_interval=I32)
Buffer = struct("Buffer", name=S, dtypes=U32, is_written=I32, initialised=I32, init_from=I32, block=I32, rows=I32, least=U64, below=U64)
State = struct("State", name=S, dtype=I32, granularity=I32, is_shared=I32, is_report=I32, initial=U64)
Arg = struct("Arg", name=S, dtype=I32, granularity=I32, has_default=I32, default_value=ctypes.c_double)
Cache = struct("Cache", compiled=U64, hits=U64)


class Storage(ctypes.Structure):
    _fields_ = [("buffer", S), ("dtype", I32)]


def declared(program, kind):
    """Returns a program's declarations by name, in order; `kind` is Buffer, State or Arg."""
    name, found = kind.__name__.lower(), {}
    for i in range(getattr(library(), f"stepfuse_program_{name}_count")(program)):
        item = kind.make()
        call(f"program_{name}", program, i, ctypes.byref(item))
        found[item.name.decode()] = item
    return found


def read_state(step, name):
    """The words of a state's values."""
    count = N()
    call("step_read_state", step, name, None, N(0), ctypes.byref(count), None)
    words = (U64 * count.value)()
    call("step_read_state", step, name, words, count, ctypes.byref(count), None)
    return list(words)


def write_state(step, name, words):
    call("step_write_state", step, name, (U64 * len(words))(*words), N(len(words)), None)


def pointers(addresses):
    """An array of addresses, null for None and 0."""
    return (P * max(1, len(addresses)))(*addresses)


def compiled():
    """How many kernels this process has compiled."""
    stats = Cache.make()
    call("cache_stats", ctypes.byref(stats))
    return stats.compiled
