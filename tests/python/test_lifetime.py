"""What is collected, what is given back at the end of the process, who runs meanwhile, and counts that f32 cannot have."""

import gc
import subprocess
import sys
import threading
import time
import weakref

import pytest
import torch
from trained import parameter, stepped

from stepfuse import _core
from stepfuse.torch import AdamW, LossScaler


@pytest.mark.parametrize("kw", [{}, {"max_norm": 1.0, "scaler": True}, {"ema_decay": 0.5, "moments": "bf16"}], ids=str)
def test_a_parameter_that_refers_to_its_optimizer_is_collected(kw):
    kw = {**kw, **({"scaler": LossScaler()} if "scaler" in kw else {})}
    params = [parameter(torch.ones(8)), parameter(torch.ones(8), torch.float32)]
    optimizer = AdamW(params, **kw)
    stepped(optimizer, params, 2)
    params[0].optimizer = optimizer
    optimizer.param_groups[0]["mine"] = optimizer
    stepped(optimizer, params, 1)
    held = [weakref.ref(optimizer), *map(weakref.ref, params)]
    del optimizer, params, kw
    gc.collect()
    assert [ref() for ref in held] == [None] * 3


def test_objects_know_their_types():
    """A heap type is referred to by each of its objects."""
    p = parameter(torch.ones(8), torch.float32)
    optimizer = AdamW([p])
    stepped(optimizer, [p], 1)
    for made in (optimizer._engine.walk, optimizer._engine.parts[0].step):
        assert gc.is_tracked(made) and type(made) in gc.get_referents(made)
    assert p in gc.get_referents(optimizer._engine.walk)


def test_other_threads_run_while_a_program_is_made():
    """Nobody takes Python's lock from a thread here; another one runs where the first gives it up."""
    ticks, done = [0], threading.Event()

    def tick():
        while not done.is_set():
            ticks[0] += 1
            time.sleep(0.0001)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=tick)
    thread.start()
    sys.setswitchinterval(1000.0)
    try:
        before = ticks[0]
        for i in range(20000):  # on a busy machine the other thread may wait for a processor
            if ticks[0] != before:
                break
            _core.Program("optimizer mine \"\" { hyper lr = 1e-3\n w = w - lr * (" + " + ".join(["g"] * 200) + f" + {i}) }}", ())
        made = ticks[0] - before
    finally:
        sys.setswitchinterval(interval)
        done.set()
    thread.join()
    assert made > 0


def test_a_number_that_is_given_back_after_python_has_ended():
    program = """
import ctypes, torch
from stepfuse.torch import AdamW
p = torch.nn.Parameter(torch.ones(8))
p.grad = torch.ones(8)
optimizer = AdamW([p], max_norm=1.0)
optimizer.step()
capsule = optimizer._engine.parts[0].step.partials(1, 0, False)["sum"]
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
managed = pointer(capsule, b"dltensor")
name = ctypes.pythonapi.PyCapsule_SetName
name.argtypes = [ctypes.py_object, ctypes.c_char_p]
used = b"used_dltensor"
name(capsule, used)
deleter = ctypes.c_void_p.from_address(managed + 56).value  # behind the tensor and the context
at_exit = ctypes.CDLL(None).__cxa_atexit
at_exit.argtypes = [ctypes.c_void_p] * 3
at_exit(deleter, managed, None)
print("made")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=1500)
    assert (done.returncode, done.stdout) == (0, "made\n"), done.stderr


def test_counts_beyond_what_f32_counts():
    most = 2**24
    p = parameter(torch.ones(8), torch.float32)
    optimizer = AdamW([p], lr=1e-3)
    stepped(optimizer, [p], 1)
    optimizer.state[p]["step"] = torch.tensor(float(most))
    stepped(optimizer, [p], 3)

    def counts():
        return optimizer._engine.parts[0].step.read_state("step")

    assert counts() == [most + 3]
    optimizer.param_groups[0]["maximize"] = True  # another program
    stepped(optimizer, [p], 2)
    assert counts() == [most + 5]
    optimizer.state[p]["step"] = torch.tensor(7.0)
    stepped(optimizer, [p], 1)
    assert counts() == [8]
