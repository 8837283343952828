"""The handlers of platform CUDA on the tests' driver: device memory, XLA's stream, and the bits of the CPU. `test_gpu.py` needs a GPU."""

import os

import jax
import numpy as np
import pytest

import stepfuse.jax

if "STEPFUSE_CALL_FRAME" not in os.environ:
    pytest.skip("ctest runs these as python_jax_on_cuda", allow_module_level=True)

import fake_cuda  # noqa: E402
from on_devices import KINDS, bits, make_arrays  # noqa: E402

TABLE = 1300
STEPS = 3


@pytest.fixture(scope="module")
def device():
    return fake_cuda.Device()


@pytest.fixture
def on_cuda(device):
    device.moves = False
    device.calls.clear()
    device.cuda.stepfuse_fake_lazy(1)  # work that nothing waits for has not happened
    yield device
    device.cuda.stepfuse_fake_lazy(0)


def check(device, monkeypatch, tx, dtype=np.float32, scale=1.0, poison=None):
    """Steps on the CPU and on the device."""
    a = b = make_arrays(0, TABLE, dtype)
    state = tx.init(a)
    with monkeypatch.context() as patch:
        patch.setattr(jax.ffi, "ffi_call", device.ffi_call)
        other = tx.init(b)
    assert bits(state) == bits(other)
    for i in range(STEPS):
        grads = make_arrays(i + 1, TABLE, dtype, scale)
        if i == poison:
            grads["table"] = grads["table"].at[7].set(np.inf)
        a, state = tx.step(a, state, grads)
        with monkeypatch.context() as patch:
            patch.setattr(jax.ffi, "ffi_call", device.ffi_call)
            b, other = tx.step(b, other, grads)
        assert bits(a) == bits(b), i
        assert bits(state) == bits(other), i
    return state


@pytest.mark.parametrize("kind", KINDS)
def test_bits_of_the_cpu(kind, on_cuda, monkeypatch):
    keywords, dtype = KINDS[kind]
    check(on_cuda, monkeypatch, stepfuse.jax.adamw(**keywords), dtype)


@pytest.mark.parametrize("name", ["lion", "sgd", "lamb", "adafactor"])
def test_other_optimizers(name, on_cuda, monkeypatch):
    check(on_cuda, monkeypatch, stepfuse.jax.optimizer(name, lr=0.01))


def test_groups_with_schedules(on_cuda, monkeypatch):
    tx = stepfuse.jax.adamw(lr=lambda n: 0.1 / (n + 1), groups={"plain": {"weight_decay": 0.0, "lr": lambda n: 0.5 / (n + 1)}},
                            group_of=lambda path, p: "plain" if p.ndim < 2 else None)
    check(on_cuda, monkeypatch, tx)


def test_a_loss_scale_skips_a_step_with_inf(on_cuda, monkeypatch):
    scaling = stepfuse.jax.LossScale(init_scale=8.0, growth_interval=2)
    tx = stepfuse.jax.adamw(lr=0.01, max_norm=1.0, master=True, loss_scale=scaling)
    state = check(on_cuda, monkeypatch, tx, np.float16, scale=8.0, poison=1)
    assert set(state.values["step"].tolist()) == {2}


def test_a_step_waits_for_nothing_and_uploads_nothing(on_cuda, monkeypatch):
    check(on_cuda, monkeypatch, stepfuse.jax.adamw(lr=lambda n: 0.1 / (n + 1), max_norm=1.0, eps=1e-7))
    last = on_cuda.calls[-1]
    assert last["cuLaunchKernelEx"] == 1
    assert all(count == 0 for name, count in last.items() if name != "cuLaunchKernelEx"), last


def test_addresses_that_move(on_cuda, monkeypatch):
    on_cuda.moves = True
    check(on_cuda, monkeypatch, stepfuse.jax.adamw(lr=0.01, max_norm=1.0, eps=2e-7))


def test_mistakes(on_cuda, monkeypatch):
    monkeypatch.setattr(jax.ffi, "ffi_call", on_cuda.ffi_call)
    with pytest.raises(RuntimeError, match="device: the interpreter takes arrays on the CPU"):
        stepfuse.jax.adamw(device="interpreter").init(make_arrays(0, TABLE))
    tx = stepfuse.jax.adamw()
    state = tx.init(make_arrays(0, TABLE))
    sharded = stepfuse.jax.call.attributes
    monkeypatch.setattr(stepfuse.jax.call, "attributes", lambda *args: {**sharded(*args), "devices": np.int32(4)})
    with pytest.raises(RuntimeError, match="shards of parameters are stepped on the CPU only"):
        tx.step(make_arrays(0, TABLE), state, make_arrays(1, TABLE))


def test_registration_with_xla():
    """Both platforms have the three targets: lowering for CUDA without a GPU names them."""
    tx = stepfuse.jax.adamw(lr=0.01)
    params = make_arrays(0, TABLE)
    step = jax.jit(tx.step).trace(params, tx.init(params), params).lower(lowering_platforms=("cuda",))
    assert "stepfuse_step" in step.as_text()
