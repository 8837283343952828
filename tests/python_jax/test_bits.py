"""stepfuse.jax computes the bits of the C API's step on the CPU and of the interpreter, for every optimizer and form of moments."""

import functools
import pathlib

import c_step
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stepfuse.jax

SHAPES = {"dense": {"kernel": (40, 130), "bias": (130,)}, "scale": (), "table": (5000,), "none": (0, 3)}
STEPS = 4
ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMS = ("f32", "bf16", *sorted(file.stem for file in ROOT.glob("ir/formats/*.fmt")))
OPTIMIZERS = [n for n in stepfuse._core.recipes() if n not in stepfuse.jax._NOT_OPTIMIZERS]


def make_arrays(seed, dtype=np.float32):
    rng = np.random.default_rng(seed)
    shapes, tree = jax.tree.flatten(SHAPES, is_leaf=lambda s: isinstance(s, tuple))
    return tree.unflatten([np.asarray(rng.standard_normal(s), np.float32).astype(dtype) for s in shapes])


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def assert_same(tx, params, state, reference):
    for a, b in zip(jax.tree.leaves(params), reference.weights):
        assert same(a, b), "weights"
    for name, tree in state.arrays.items():
        expected = [a for a in reference.arrays[name] if a is not None]
        for a, b in zip(jax.tree.leaves(tree), expected, strict=True):
            assert same(a, b), name
    for name, bits in reference.values().items():
        value = np.asarray(state.values[name])
        if bits.dtype == np.int64:
            bits = bits.astype(np.int32)
        if bits.dtype == np.float64:
            bits = bits.view(np.uint32)
        assert same(value.reshape(-1), bits), f"{name}: {value} and {bits}"


def program_options(tx, dtype):
    """The options with which the optimizer's program is made, for one dtype of parameters and gradients."""
    name = stepfuse.jax.state.NAMES[jnp.dtype(dtype)]
    return [*tx.options, *([] if name == "f32" else [f"model={name}", f"grad={name}"])]


def check(tx, args, device=c_step.CPU, dtype=np.float32, scale=1.0, poison=None, seed=0):
    """Runs both over the same gradients; `poison` is the step whose gradients have an inf."""
    start = make_arrays(0, dtype)
    params = jax.tree.map(jnp.array, start)
    state = jax.jit(tx.init)(params)
    reference = c_step.Step(tx.formula, program_options(tx, dtype), jax.tree.leaves(start), args, device, init_scale=tx.init_scale)
    if seed:
        reference.write("seed", [seed])
    step = jax.jit(tx.step, donate_argnums=(0, 1))
    for i in range(STEPS):
        grads = jax.tree.map(lambda g: np.asarray(g.astype(np.float32) * scale).astype(dtype), make_arrays(i + 1, dtype))
        if i == poison:
            grads["table"][7] = np.inf
        params, state = step(params, state, grads)
        reference.run(jax.tree.leaves(grads))
        assert_same(tx, params, state, reference)
    assert int(state.count) == STEPS


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_has_the_bits_of_the_cpu(name):
    check(getattr(stepfuse.jax, name)(lr=0.01, max_norm=1.0), {"lr": 0.01, "max_norm": 1.0})


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_has_the_bits_of_the_interpreter(name):
    check(stepfuse.jax.optimizer(name, lr=0.01), {"lr": 0.01}, c_step.INTERPRETER)


UNSIGNED = ("dyn8u", "sqrt8")  # forms of moments that are never negative


def find_moments(name):
    """The names of an optimizer's moments."""
    try:
        buffers = stepfuse._core.Program(name, ["moments=bf16"]).buffers()
    except stepfuse.Error:
        return []
    return [buffer for buffer, (_, dtype, *_) in buffers.items() if dtype == "bf16"]


def give_forms(name):
    """Arguments `moments` of an optimizer by form; an unsigned form is for the moments that a training leaves at 0 or more."""
    tx = stepfuse.jax.optimizer(name, lr=0.01)
    params, state = make_arrays(0), tx.init(make_arrays(0))
    for i in range(2):  # the gradients of the test
        params, state = tx.step(params, state, make_arrays(i + 1))
    positive = [m for m in find_moments(name) if all(np.min(leaf, initial=0) >= 0 for leaf in jax.tree.leaves(state.arrays[m]))]
    given = {form: ",".join(f"{m}={form}" for m in positive) if form in UNSIGNED else form for form in FORMS}
    return {form: moments for form, moments in given.items() if moments}


WITH_MOMENTS = [name for name in OPTIMIZERS if find_moments(name)]


def test_the_optimizers_that_are_enumerated():
    assert len(WITH_MOMENTS) >= 20 and len(FORMS) == 9


@pytest.mark.parametrize("name", WITH_MOMENTS)
def test_every_optimizer_with_every_form_of_moments(name):
    """All forms are steps of one jitted function; each has the bits of the CPU and of the interpreter."""
    made = {form: stepfuse.jax.optimizer(name, lr=0.01, moments=moments, moments_min=1) for form, moments in give_forms(name).items()}
    start = make_arrays(0)
    params = {form: jax.tree.map(jnp.array, start) for form in made}
    states = jax.jit(lambda params: {form: tx.init(params[form]) for form, tx in made.items()})(params)
    step = jax.jit(lambda params, states, grads: {form: tx.step(params[form], states[form], grads) for form, tx in made.items()})
    references = {(form, device): c_step.Step(name, list(tx.options), jax.tree.leaves(start), {"lr": 0.01}, device)
                  for form, tx in made.items() for device in (c_step.CPU, c_step.INTERPRETER)}
    for i in range(2):
        grads = make_arrays(i + 1)
        found = step(params, states, grads)
        params, states = ({form: pair[k] for form, pair in found.items()} for k in (0, 1))
        for (form, _), reference in references.items():
            reference.run(jax.tree.leaves(grads))
            assert_same(made[form], params[form], states[form], reference)


def test_a_form_for_each_moment():
    check(stepfuse.jax.adamw(lr=0.01, max_norm=1.0, moments="exp_avg=int8,exp_avg_sq=sqrt8"), {"lr": 0.01, "max_norm": 1.0})


@pytest.mark.parametrize("keywords", [{"master": True}, {"master": "remainder"}, {"master": "ecc24"}, {"weight_rounding": "nearest"},
                                      {"weight_rounding": "kahan"}, {"weight_rounding": "stochastic", "seed": 5}], ids=str)
def test_bf16_parameters(keywords):
    tx = stepfuse.jax.adamw(lr=0.01, max_norm=1.0, moments="fp8", **keywords)
    check(tx, {"lr": 0.01, "max_norm": 1.0}, dtype=jnp.bfloat16, seed=keywords.get("seed", 0))


@pytest.mark.parametrize(("store", "dtype"), [({"exp_avg@16": "int8", "exp_avg_sq": "bf16"}, jnp.float32),
                                              ({"weight": "bf16+ecc24", "moments": "dyn8"}, jnp.bfloat16)], ids=str)
def test_stored_forms_by_name(store, dtype):
    tx = stepfuse.jax.adamw(lr=0.01, max_norm=1.0, store=store)
    check(tx, {"lr": 0.01, "max_norm": 1.0}, dtype=dtype)
    kept = {str(a.dtype) for a in jax.tree.leaves(tx.init(make_arrays(0, dtype)).arrays)}
    assert kept >= ({"int8", "bfloat16"} if dtype == jnp.float32 else {"uint8", "int8"})


def test_f16_with_a_dynamic_loss_scale_skips_a_step_with_inf():
    tx = stepfuse.jax.adamw(lr=0.01, max_norm=1.0, master=True, loss_scale=stepfuse.jax.LossScale(init_scale=8.0, growth_interval=2))
    check(tx, {"lr": 0.01, "max_norm": 1.0, "growth_interval": 2}, dtype=np.float16, scale=8.0, poison=1)


@pytest.mark.parametrize("clip", ["l1", "inf", "value", "zclip", "adagc", "agc"])
def test_other_ways_to_clip(clip):
    check(stepfuse.jax.adamw(lr=0.01, clip=clip), {"lr": 0.01})


def test_options_of_formulas():
    check(stepfuse.jax.sgd(lr=0.01, momentum=0.9, nesterov=True), {"lr": 0.01, "momentum": 0.9})
    check(stepfuse.jax.adam(lr=0.01, amsgrad=True, maximize=True), {"lr": 0.01})


def test_a_formula_of_ones_own():
    text = """
    optimizer mine "SGD with momentum" {
      hyper lr = 1e-3, mu = 0.9
      moment buffer
      buffer = mu * buffer + g
      w = w - lr * buffer
    }
    """
    check(stepfuse.jax.optimizer(text, lr=0.5, mu=0.8, max_norm=2.0), {"lr": 0.5, "mu": 0.8, "max_norm": 2.0})


def test_groups():
    tx = stepfuse.jax.adamw(lr=0.01, weight_decay=0.1, groups={"plain": {"weight_decay": 0.0, "lr": lambda n: 0.5 / (n + 1)}},
                            group_of=lambda path, p: "plain" if p.ndim < 2 else None)
    start = make_arrays(0)
    leaves = jax.tree.leaves(start)
    reference = c_step.Step("adamw", list(tx.options), leaves, {"lr": 0.01, "weight_decay": 0.1, "weight_decay@1": 0.0},
                            groups=[int(leaf.ndim < 2) for leaf in leaves])
    params, state = jax.tree.map(jnp.array, start), tx.init(start)
    for i in range(STEPS):
        grads = make_arrays(i + 1)
        params, state = jax.jit(tx.step)(params, state, grads)
        reference.set({"lr@1": float(np.float32(0.5) / np.float32(i + 1))})
        reference.run(jax.tree.leaves(grads))
        assert_same(tx, params, state, reference)


def test_a_schedule_is_data():
    tx = stepfuse.jax.adamw(lr=lambda count: 0.1 / (count + 1), max_norm=lambda count: 1.0 + count)
    start = make_arrays(0)
    reference = c_step.Step("adamw", list(tx.options), jax.tree.leaves(start), {})
    params, state = jax.tree.map(jnp.array, start), tx.init(start)
    step = jax.jit(tx.step, donate_argnums=(0, 1))
    for i in range(STEPS):
        grads = make_arrays(i + 1)
        params, state = step(params, state, grads)
        reference.set({"lr": float(np.float32(0.1) / np.float32(i + 1)), "max_norm": 1.0 + i})
        reference.run(jax.tree.leaves(grads))
        assert_same(tx, params, state, reference)
    assert step._cache_size() == 1


def test_a_hyperparameter_of_one_call():
    tx = stepfuse.jax.adamw(lr=0.01)
    start = make_arrays(0)
    grads = make_arrays(1)
    params, _ = jax.jit(functools.partial(tx.step, lr=0.25))(start, tx.init(start), grads)
    traced, _ = jax.jit(lambda p, s, g, lr: tx.step(p, s, g, lr=lr))(start, tx.init(start), grads, 0.25)
    reference = c_step.Step("adamw", list(tx.options), jax.tree.leaves(start), {"lr": 0.25})
    reference.run(jax.tree.leaves(grads))
    for a, b, c in zip(jax.tree.leaves(params), reference.weights, jax.tree.leaves(traced)):
        assert same(a, b) and same(c, b)
