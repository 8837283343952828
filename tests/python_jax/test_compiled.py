"""What XLA makes of a training step: one custom call in place, compiled once; and what it does without donation."""

import functools
import pickle
import re
import threading

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import stepfuse.jax

SHAPES = {"a": (300, 40), "b": (40,), "c": (70, 100)}


def make_params(seed=0):
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(rng.standard_normal(shape), jnp.float32) for name, shape in SHAPES.items()}


def loss(params, x):
    return jnp.square(jnp.tanh(x @ params["a"] + params["b"])).mean() + jnp.square(params["c"]).mean()


def make_step(tx):
    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def train(params, state, x):
        return tx.step(params, state, jax.grad(loss)(params, x))

    return train


@pytest.mark.parametrize("keywords", [{}, {"max_norm": 1.0, "moments": "fp8", "loss_scale": "dynamic"}], ids=str)
def test_one_custom_call_and_no_copy_of_parameters_or_moments(keywords):
    tx = stepfuse.jax.adamw(lr=optax.cosine_decay_schedule(1e-2, 100), **keywords)
    params = make_params()
    state = tx.init(params)
    hlo = make_step(tx).lower(params, state, jnp.ones((5, 300))).compile().as_text()
    calls = [line for line in hlo.splitlines() if "custom-call(" in line and "stepfuse" in line]
    assert len(calls) == 1 and 'custom_call_target="stepfuse_step"' in calls[0]
    copied = [size for size in re.findall(r"= \w+\[([\d,]*)\]\S* copy\(", hlo) if np.prod([int(n) for n in size.split(",") if n]) > 1]
    assert copied == []
    entry = hlo.splitlines()[0]
    aliased = set(re.findall(r"\{(\d+)\}: \(\1, \{\}, may-alias\)", entry))
    assert len(aliased) >= len(jax.tree.leaves((params, state))) - 1  # all but the count


def test_donated_memory_is_what_the_step_writes():
    tx = stepfuse.jax.adamw(lr=1e-2)
    params = make_params()
    state = tx.init(params)
    train = make_step(tx)
    params, state = train(params, state, jnp.ones((5, 300)))
    before = {leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves((params, state.arrays))}
    params, state = train(params, state, jnp.ones((5, 300)))
    assert {leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves((params, state.arrays))} == before


def test_a_schedule_of_1000_steps_compiles_once():
    traces = 0
    tx = stepfuse.jax.adamw(lr=optax.warmup_cosine_decay_schedule(0.0, 1e-2, 50, 1000), max_norm=optax.linear_schedule(2.0, 1.0, 1000))

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def train(params, state, x):
        nonlocal traces
        traces += 1
        return tx.step(params, state, jax.grad(loss)(params, x))

    params = make_params()
    state = tx.init(params)
    first = float(loss(params, jnp.ones((5, 300))))
    for _ in range(1000):
        params, state = train(params, state, jnp.ones((5, 300)))
    assert traces == 1 and train._cache_size() == 1 and int(state.count) == 1000
    assert float(loss(params, jnp.ones((5, 300)))) < 0.5 * first


def test_without_donation_the_arguments_stay():
    tx = stepfuse.jax.adamw(lr=1e-2)
    params = make_params()
    state = tx.init(params)
    grads = make_params(1)
    copies = jax.tree.map(np.array, (params, state, grads))
    new, _ = jax.jit(tx.step)(params, state, grads)
    for a, b in zip(jax.tree.leaves((params, state, grads)), jax.tree.leaves(copies)):
        assert np.array_equal(a, b)
    eager, _ = tx.step(params, state, grads)  # no jit
    for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(eager)):
        assert np.array_equal(a, b)


def test_gradients_that_are_the_parameters():
    tx = stepfuse.jax.adamw(lr=1e-2)
    params = make_params()
    expected, _ = jax.jit(tx.step)(params, tx.init(params), jax.tree.map(np.array, params))
    found, _ = jax.jit(lambda p, s: tx.step(p, s, p), donate_argnums=(0, 1))(jax.tree.map(jnp.copy, params), tx.init(params))
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found)):
        assert np.array_equal(a, b)


def test_many_steps_in_one_program():
    tx = stepfuse.jax.adamw(lr=lambda n: 1e-2 / (n + 1), max_norm=1.0)
    params = make_params()

    def body(carry, x):
        params, state = carry
        return tx.step(params, state, jax.grad(loss)(params, x)), state.values["grad_norm"]

    xs = jax.random.normal(jax.random.key(0), (6, 5, 300))
    (scanned, state), _ = jax.jit(lambda p, s: jax.lax.scan(body, (p, s), xs))(params, tx.init(params))
    assert int(state.count) == 6 and state.values["step"].tolist() == [6, 6, 6]
    one = jax.jit(body)
    carry = params, tx.init(params)
    for x in xs:
        carry, _ = one(carry, x)
    for a, b in zip(jax.tree.leaves(scanned), jax.tree.leaves(carry[0])):
        assert np.array_equal(a, b)


def test_one_optimizer_on_many_threads_and_devices():
    tx = stepfuse.jax.adamw(lr=1e-2, max_norm=1.0, moments="int8")
    step = jax.jit(tx.step, donate_argnums=(0, 1))

    def run(index, out, device):
        with jax.default_device(device):
            params = jax.device_put(make_params(index), device)
            state = jax.device_put(tx.init(params), device)
            for i in range(20):
                params, state = step(params, state, jax.device_put(make_params(100 * index + i), device))
            out[index] = jax.tree.map(np.array, (params, state))

    together, alone = {}, {}
    threads = [threading.Thread(target=run, args=(i, together, jax.devices()[i % 4])) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(8):
        run(i, alone, jax.devices()[0])
        for a, b in zip(jax.tree.leaves(together[i]), jax.tree.leaves(alone[i]), strict=True):
            assert a.tobytes() == b.tobytes()


def test_a_state_can_be_pickled():
    tx = stepfuse.jax.adamw(lr=1e-2, moments="fp8", moments_min=1)
    params = make_params()
    state = tx.init(params)
    params, state = jax.jit(tx.step)(params, state, make_params(1))
    loaded = pickle.loads(pickle.dumps(jax.tree.map(np.array, (params, state))))
    a = jax.jit(tx.step)(*loaded, make_params(2))
    b = jax.jit(tx.step)(params, state, make_params(2))
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(state))


def test_orbax_saves_a_state(tmp_path):
    ocp = pytest.importorskip("orbax.checkpoint", reason="skipped: this Python has no orbax-checkpoint")
    tx = stepfuse.jax.adamw(lr=lambda n: 1e-2 / (n + 1), moments="fp8", moments_min=1, clip="zclip")
    params = make_params()
    params, state = jax.jit(tx.step)(params, tx.init(params), make_params(1))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "run", (params, state))
    with ocp.StandardCheckpointer() as checkpointer:
        loaded = checkpointer.restore(tmp_path / "run", jax.tree.map(ocp.utils.to_shape_dtype_struct, (params, state)))
    a = jax.jit(tx.step)(*loaded, make_params(2))
    b = jax.jit(tx.step)(params, state, make_params(2))
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


@pytest.mark.skipif(jax.__version__.startswith("0.5."), reason="this version of jax does not export calls in place")
def test_an_exported_program_needs_no_optimizer():
    tx = stepfuse.jax.adamw(lr=1e-2, max_norm=1.0)
    params = make_params()
    state = tx.init(params)
    grads = make_params(1)
    check = [jax.export.DisabledSafetyCheck.custom_call("stepfuse_step")]
    data = jax.export.export(jax.jit(tx.step), disabled_checks=check)(params, state, grads)
    found = jax.jit(data.call)(params, state, grads)
    expected = jax.jit(tx.step)(params, state, grads)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.array_equal(x, y)
