"""The step on a real GPU, called by XLA: the CPU's bits. Skipped unless STEPFUSE_TEST_DEVICE=cuda, for a JAX with CUDA."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from on_devices import KINDS, bits, make_arrays

import stepfuse.jax

if os.environ.get("STEPFUSE_TEST_DEVICE") != "cuda":
    pytest.skip("skipped: set STEPFUSE_TEST_DEVICE=cuda where JAX sees a GPU", allow_module_level=True)

TABLE = 100300
STEPS = 4


def run(tx, platform, dtype, scale, poison):
    """All steps under jit with donation; the bits after each."""
    device = jax.devices(platform)[0]
    found = []
    with jax.default_device(device):
        params = make_arrays(0, TABLE, dtype)
        state = jax.jit(tx.init)(params)
        step = jax.jit(tx.step, donate_argnums=(0, 1))
        for i in range(STEPS):
            grads = make_arrays(i + 1, TABLE, dtype, scale)
            if i == poison:
                grads["table"] = grads["table"].at[7].set(np.inf)
            params, state = step(params, state, grads)
            assert {d.platform for leaf in jax.tree.leaves(params) for d in leaf.devices()} == {device.platform}
            found.append((bits(params), bits(state)))
    return found


def check(tx, dtype=np.float32, scale=1.0, poison=None):
    for i, (gpu, cpu) in enumerate(zip(run(tx, "cuda", dtype, scale, poison), run(tx, "cpu", dtype, scale, poison))):
        for a, b in zip(gpu, cpu):
            differing = [name for (name, x), (_, y) in zip(a, b) if x != y]
            assert a == b, f"step {i}: {differing}"


@pytest.mark.parametrize("kind", KINDS)
def test_bits_of_the_cpu(kind):
    keywords, dtype = KINDS[kind]
    check(stepfuse.jax.adamw(**keywords), dtype)


@pytest.mark.parametrize("name", ["lion", "sgd", "lamb", "adafactor", "muon_update"])
def test_other_optimizers(name):
    check(stepfuse.jax.optimizer(name, lr=0.01))


def test_a_loss_scale_skips_a_step_with_inf():
    scaling = stepfuse.jax.LossScale(init_scale=8.0, growth_interval=2)
    check(stepfuse.jax.adamw(lr=0.01, max_norm=1.0, master=True, loss_scale=scaling), np.float16, scale=8.0, poison=1)


def test_a_training_loop_on_the_gpu():
    """Gradients and step in one jitted function."""
    device = jax.devices("cuda")[0]
    with jax.default_device(device):
        x = jax.random.normal(jax.random.key(0), (512, 32))
        y = jax.random.normal(jax.random.key(1), (512, 8))
        params = {"a": 0.1 * jax.random.normal(jax.random.key(2), (32, 128)), "b": 0.1 * jax.random.normal(jax.random.key(3), (128, 8))}
        tx = stepfuse.jax.adamw(lr=3e-3, max_norm=1.0)
        state = tx.init(params)

        def loss(params):
            return jnp.mean((jnp.tanh(x @ params["a"]) @ params["b"] - y) ** 2)

        @jax.jit
        def train(params, state):
            value, grads = jax.value_and_grad(loss)(params)
            return *tx.step(params, state, grads), value

        losses = []
        for _ in range(60):
            params, state, value = train(params, state)
            losses.append(float(value))
    assert losses[-1] < 0.6 * losses[0]
