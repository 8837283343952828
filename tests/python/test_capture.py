"""capturable=True: a step in a CUDA graph, on the tests' driver; numbers stay live, and what a replay would miss is named."""

import contextlib
import ctypes
import os

import pytest
import torch
from pairs import needs_names

from stepfuse.torch import SGD, Adagrad, AdamW, GradScaler, Lion, LossScaler, Muon, clip_grad_norm_, parts

on_the_driver = pytest.mark.skipif(os.environ.get("STEPFUSE_TEST_DRIVER") != "1", reason="skipped: needs the tests' driver, as python_on_cuda has it")


class Driver:
    """A stream of the driver, and the graphs that are captured from it."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.is_capturing = False
        self.stream, context = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def call(self, name, *arguments):
        status = getattr(self.cuda, name)(*arguments)
        assert status == 0, (name, status)

    @contextlib.contextmanager
    def capture(self):
        """Yields a function that replays the graph."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()

        def replay():
            self.call("cuGraphLaunch", executable, self.stream)
            self.call("cuStreamSynchronize", self.stream)

        self.call("cuStreamBeginCapture_v2", self.stream, 2)
        self.is_capturing = True
        try:
            yield replay
        finally:
            self.is_capturing = False
            self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
            self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))

    def synchronize(self):
        self.call("cuStreamSynchronize", self.stream)


@pytest.fixture
def driver(monkeypatch):
    made = Driver()
    monkeypatch.setattr(parts, "is_capturing", lambda device: made.is_capturing)
    monkeypatch.setattr(parts.Part, "stream", lambda part: made.stream.value)
    return made


def model(dtype=torch.float32, seed=1):
    torch.manual_seed(seed)
    params = [torch.nn.Parameter(torch.randn(n).to(dtype)) for n in (300, 4097, 17)]
    for p in params:
        p.grad = torch.zeros_like(p)
    return params


def set_gradients(params, i, scale=1.0):
    """In place, as with zero_grad(set_to_none=False)."""
    generator = torch.Generator().manual_seed(100 + i)
    for p in params:
        p.grad.copy_(torch.randn(p.shape, generator=generator) * scale)


CASES = [
    (AdamW, {}, torch.float32), (AdamW, {"fused": True, "max_norm": 1.0}, torch.float32), (SGD, {"momentum": 0.9, "skip_norm": 50.0}, torch.float32),
    (AdamW, {"moments": "fp8", "ema_decay": 0.9}, torch.bfloat16), (AdamW, {"master": "remainder", "max_norm": 1.0, "monitor": True}, torch.bfloat16),
    (Lion, {"weight_rounding": "stochastic", "seed": 5}, torch.bfloat16), (Adagrad, {"scaler": True, "max_norm": 2.0}, torch.float32),
    (AdamW, {"caution": True, "update_clip": "rms"}, torch.float32)]


@on_the_driver
@pytest.mark.parametrize(("cls", "more", "dtype"), CASES, ids=str)
def test_replays_are_steps_with_live_numbers(driver, cls, more, dtype):
    """Against the same optimizer without a graph: weights and state, bit for bit, while the learning rate and others change."""
    sides = []
    for captured in (True, False):
        params = model(dtype)
        own = {**more, **({"scaler": LossScaler(init_scale=8.0, growth_interval=3)} if "scaler" in more else {})}
        optimizer = cls(params, lr=0.01, capturable=captured, **own)
        replay = None
        for i in range(8):
            group = optimizer.param_groups[0]
            group["lr"] = 0.01 * (1 + i)
            if "weight_decay" in group:
                group["weight_decay"] = 0.01 * i
            if "ema_decay" in more:
                group["ema_decay"] = 0.5 + 0.05 * i
            if i == 5 and "max_norm" in more:
                optimizer.max_norm = 0.25
            set_gradients(params, i, scale=float("nan") if i == 6 and "scaler" in more else 8.0 if "scaler" in more else 1.0)
            if not captured or i < 2:
                optimizer.step()
                driver.synchronize()
                continue
            if replay is None:
                before = [p.detach().clone() for p in params]
                with driver.capture() as replay:
                    optimizer.step()
                assert all(torch.equal(p, b) for p, b in zip(params, before))  # the capture itself does nothing
            optimizer.prepare_replay()
            replay()
        sides.append((params, optimizer.state_dict(), optimizer.stats()))
    (a, state, stats), (b, other, other_stats) = sides
    assert all(torch.equal(p, q) for p, q in zip(a, b)) and stats == other_stats
    for index, values in other["state"].items():
        assert all(torch.equal(torch.as_tensor(v), torch.as_tensor(state["state"][index][name])) for name, v in values.items())


@on_the_driver
@pytest.mark.parametrize("scaled", [False, True])
def test_clip_and_step_in_the_deferred_order(driver, scaled):
    sides = []
    for captured in (True, False):
        params = model()
        optimizer = AdamW(params, lr=0.01, capturable=captured)
        scaler = GradScaler("cpu", init_scale=4.0, growth_interval=1000, defer_unscale=True) if scaled else None
        if scaled:
            scaler.scale(torch.ones(()))

        def step():
            if scaled:
                scaler.unscale_(optimizer)
            clip_grad_norm_(optimizer, 0.5)
            scaler.step(optimizer) if scaled else optimizer.step()
            if scaled:
                scaler.update()

        replay = None
        for i in range(6):
            optimizer.param_groups[0]["lr"] = 0.01 * (1 + i)
            set_gradients(params, i, 4.0 if scaled else 1.0)
            if not captured or i < 2:
                step()
                driver.synchronize()
                continue
            if replay is None:
                with driver.capture() as replay:
                    step()
            optimizer.prepare_replay()
            replay()
        sides.append(params)
    assert all(torch.equal(p, q) for p, q in zip(*sides))


@on_the_driver
@needs_names
def test_what_a_replay_would_miss_is_named(driver):
    params = model()
    optimizer = AdamW([("a", params[0]), ("b", params[1]), ("c", params[2])], lr=0.01, capturable=True)
    with pytest.raises(RuntimeError, match="make a step like this one before the capture"):
        with driver.capture():
            optimizer.step()
    set_gradients(params, 0)
    optimizer.step()
    with pytest.raises(RuntimeError, match="there is no captured step"):
        optimizer.prepare_replay()
    with driver.capture() as replay:
        optimizer.step()
    optimizer.prepare_replay()
    replay()
    kept, params[1].grad = params[1].grad, params[1].grad.clone()
    with pytest.raises(RuntimeError, match="the gradient of b has moved"):
        optimizer.prepare_replay()
    params[1].grad = None
    with pytest.raises(RuntimeError, match="the gradient of b is missing"):
        optimizer.prepare_replay()
    params[1].grad = kept
    optimizer.prepare_replay()
    optimizer.param_groups[0]["maximize"] = True
    with pytest.raises(RuntimeError, match="differ from those of the captured step"):
        optimizer.prepare_replay()


@on_the_driver
def test_without_capturable_a_capture_is_refused(driver):
    params = model()
    optimizer = AdamW(params)
    optimizer.step()
    with pytest.raises(RuntimeError, match="needs capturable=True"):
        with driver.capture():
            optimizer.step()


def test_capturable_is_accepted_everywhere_and_changes_no_bit():
    for cls in (AdamW, SGD, Lion):
        sides = []
        for capturable in (False, True):
            params = model()
            optimizer = cls(params, lr=0.01, capturable=capturable)
            for i in range(3):
                set_gradients(params, i)
                optimizer.step()
            sides.append(params)
        assert all(torch.equal(p, q) for p, q in zip(*sides))
    if hasattr(torch.optim, "Muon"):
        with pytest.raises(ValueError, match="capturable=True: Muon has matrix products"):
            Muon([torch.nn.Parameter(torch.ones(2, 2))], capturable=True)
