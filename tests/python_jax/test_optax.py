"""stepfuse.jax compared with optax itself: the same updates to a few ulps of each weight."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import stepfuse.jax

STEPS = 20
# stepfuse's arguments, optax's transformation, and the largest difference after all steps, in ulps of a tensor's
# largest weight.
CASES = {
    "adamw": ({"lr": 1e-2, "weight_decay": 1e-2}, lambda: optax.adamw(1e-2, weight_decay=1e-2), 16),
    "adam": ({"lr": 1e-2}, lambda: optax.adam(1e-2), 16),
    "sgd": ({"lr": 1e-1}, lambda: optax.sgd(1e-1), 0),
    "sgd momentum": ({"lr": 1e-2, "momentum": 0.9}, lambda: optax.sgd(1e-2, momentum=0.9), 2),
    "sgd nesterov": ({"lr": 1e-2, "momentum": 0.9, "nesterov": True}, lambda: optax.sgd(1e-2, momentum=0.9, nesterov=True), 2),
    "lion": ({"lr": 1e-3, "weight_decay": 1e-2}, lambda: optax.lion(1e-3, weight_decay=1e-2), 24),
    "adamax": ({"lr": 1e-2}, lambda: optax.adamax(1e-2), 4),
    "adabelief": ({"lr": 1e-2, "eps": 1e-16}, lambda: optax.adabelief(1e-2, eps_root=0.0), 16),
    "adadelta": ({"lr": 1.0}, lambda: optax.adadelta(1.0), 2),
    "adagrad": ({"lr": 1e-1, "eps": 0.0}, lambda: optax.adagrad(1e-1, initial_accumulator_value=0.0, eps=0.0), 2),
    "rmsprop": ({"lr": 1e-2}, lambda: optax.rmsprop(1e-2, decay=0.99, eps_in_sqrt=False), 2),
    "radam": ({"lr": 1e-2}, lambda: optax.radam(1e-2), 100),
    "lamb": ({"lr": 1e-2, "weight_decay": 0.1}, lambda: optax.lamb(1e-2, weight_decay=0.1), 16),
    "novograd": ({"lr": 1e-2, "beta1": 0.9, "beta2": 0.25, "weight_decay": 0.0}, lambda: optax.novograd(1e-2), 2),
    "schedule_free_adamw": ({"lr": 1e-2}, lambda: optax.contrib.schedule_free_adamw(1e-2), 16),
    "schedule_free_sgd": ({"lr": 1e-2}, lambda: optax.contrib.schedule_free_sgd(1e-2), 16),
    "prodigy": ({}, lambda: optax.contrib.prodigy(1.0), 600),
    "ademamix": ({"lr": 1e-2}, lambda: optax.contrib.ademamix(1e-2), 16),
    "adopt": ({"lr": 1e-2}, lambda: optax.contrib.adopt(1e-2), 10),
    "lars": ({"lr": 1e-2}, lambda: optax.lars(1e-2), 2),
    "signum": ({"lr": 1e-2}, lambda: optax.signum(1e-2), 0),
}


def make(seed):
    rng = np.random.default_rng(seed)
    return {"w": jnp.asarray(rng.standard_normal((50, 60)), jnp.float32), "b": jnp.asarray(rng.standard_normal(60), jnp.float32)}


def run(ours, theirs):
    a = b = make(0)
    state, other = ours.init(a), theirs.init(b)
    step = jax.jit(ours.step)

    @jax.jit
    def update(params, state, grads):
        updates, state = theirs.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    for i in range(STEPS):
        grads = make(i + 1)
        a, state = step(a, state, grads)
        b, other = update(b, other, grads)
    return a, b


def ulps(a, b):
    """The largest difference in ulps of the tensor's largest weight."""
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b))]
    return max(float(np.abs(x - y).max() / np.spacing(np.abs(y).max())) for x, y in pairs)


@pytest.mark.parametrize("case", CASES)
def test_the_weights_of_optax(case):
    keywords, theirs, most = CASES[case]
    a, b = run(stepfuse.jax.optimizer(case.split()[0], **keywords), theirs())
    assert ulps(a, b) <= most


# The functions that optax's own tests minimise: start, minimum, function.
TARGETS = {
    "parabola": ((-1.0, 10.0, 1.0), (1.0, -1.0, 1.0), lambda p: jnp.square(p - jnp.array([1.0, -1.0, 1.0])).sum()),
    "rosenbrock": ((0.0, 0.0), (1.0, 1.0), lambda p: jnp.square(1.0 - p[0]) + 100.0 * jnp.square(p[1] - p[0] ** 2)),
}
# With the learning rates of those tests; the number is the largest difference after 20 steps, in ulps of the largest
# weight.
MINIMISERS = {
    "sgd": ({"lr": 1e-3, "momentum": 0.9}, lambda: optax.sgd(1e-3, momentum=0.9), 4),
    "adadelta": ({"lr": 0.1}, lambda: optax.adadelta(0.1), 4),
    "adam": ({"lr": 0.1}, lambda: optax.adam(0.1), 32),
    "adamw": ({"lr": 0.1, "weight_decay": 1e-4}, lambda: optax.adamw(0.1), 32),
    "adamax": ({"lr": 0.1}, lambda: optax.adamax(0.1), 4),
    "lars": ({"lr": 1.0}, lambda: optax.lars(1.0), 4),
    "lamb": ({"lr": 1e-3, "weight_decay": 0.0}, lambda: optax.lamb(1e-3), 100),
    "lion": ({"lr": 1e-2, "weight_decay": 1e-4}, lambda: optax.lion(1e-2, weight_decay=1e-4), 24),
    "novograd": ({"lr": 1e-3, "beta1": 0.9, "beta2": 0.25, "weight_decay": 0.0}, lambda: optax.novograd(1e-3), 16),
    "rmsprop": ({"lr": 5e-3}, lambda: optax.rmsprop(5e-3, decay=0.99, eps_in_sqrt=False), 4),
    "adabelief": ({"lr": 1e-2, "eps": 1e-16}, lambda: optax.adabelief(1e-2, eps_root=0.0), 100),
    "radam": ({"lr": 5e-3}, lambda: optax.radam(5e-3), 4000),
    # These are defined differently in optax: they find the minimum, too.
    "adagrad": ({"lr": 1.0}, None, 0),
    "adafactor": ({"lr": 5e-3}, None, 0),
    "nadam": ({"lr": 1e-2}, None, 0),
    "adan": ({"lr": 0.1}, None, 0),
    "rprop": ({"lr": 0.1}, None, 0),
    "sm3": ({"lr": 1.0}, None, 0),
}


def minimise(step, carry, steps):
    return jax.jit(lambda carry: jax.lax.fori_loop(0, steps, lambda i, c: step(*c), carry))(carry)[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MINIMISERS)
def test_the_cases_of_its_own_tests(name, target):
    start, minimum, function = TARGETS[target]
    keywords, theirs, most = MINIMISERS[name]
    params = jnp.array(start)
    tx = stepfuse.jax.optimizer(name, **keywords)

    def ours(params, state):
        return tx.step(params, state, jax.grad(function)(params))

    if theirs is not None:
        other = theirs()

        def update(params, state):
            updates, state = other.update(jax.grad(function)(params), state, params)
            return optax.apply_updates(params, updates), state

        found, expected = minimise(ours, (params, tx.init(params)), 20), minimise(update, (params, other.init(params)), 20)
        assert ulps(found, expected) <= most
    np.testing.assert_allclose(minimise(ours, (params, tx.init(params)), 10000), minimum, rtol=3e-2, atol=3e-2)


def test_clip_by_global_norm():
    ours = stepfuse.jax.adamw(lr=optax.cosine_decay_schedule(1e-2, 15), max_norm=1.0, weight_decay=1e-4)
    a, b = run(ours, optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.cosine_decay_schedule(1e-2, 15))))
    assert ulps(a, b) <= 32


def test_as_a_gradient_transformation():
    tx = stepfuse.jax.adamw(lr=optax.cosine_decay_schedule(1e-2, 15), max_norm=1.0)
    params = make(0)
    own, state = params, tx.init(params)
    chained = optax.chain(tx.as_optax(), optax.scale(1.0))
    other = chained.init(params)
    for i in range(STEPS):
        own, state = jax.jit(tx.step)(own, state, make(i + 1))
        updates, other = jax.jit(chained.update)(make(i + 1), other, params)
        params = optax.apply_updates(params, updates)
    assert ulps(own, params) <= STEPS  # new - old is rounded once per step
    with pytest.raises(ValueError, match="params: an optimizer of stepfuse needs the parameters"):
        tx.as_optax().update(make(1), tx.init(params))
