"""Shards of parameters on four devices: every bit of parameters and state is that of one device with whole parameters."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import stepfuse.jax

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

CHECK = {"check_vma" if "check_vma" in inspect.signature(shard_map).parameters else "check_rep": False}
SHAPES = {"table": (512, 256), "bias": (70,), "long": (65536,), "kernel": (300, 70)}
WHOLE, ROWS = PartitionSpec(), PartitionSpec("data")
SPECS = {"table": ROWS, "bias": WHOLE, "long": ROWS, "kernel": WHOLE}


def make_arrays(seed, dtype=np.float32, scale=1.0):
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(scale * rng.standard_normal(shape), dtype) for name, shape in SHAPES.items()}


def sharded(function, tx, params, specs, donate=()):
    mesh = Mesh(np.array(jax.devices()[:4]), ("data",))
    states = tx.state_specs(params)
    inputs = {"init": (specs,), "step": (specs, states, specs)}[function]
    outputs = {"init": states, "step": (specs, states)}[function]
    return jax.jit(shard_map(getattr(tx, function), mesh=mesh, in_specs=inputs, out_specs=outputs, **CHECK), donate_argnums=donate)


def bits(tree):
    return [(jax.tree_util.keystr(path), np.asarray(leaf).tobytes()) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]]


def check(make, dtype=np.float32, scale=1.0, spoil=None, specs=SPECS, donate=(0, 1)):
    params = make_arrays(0, dtype)
    one, many = make(), make(specs=specs)
    a, b = jax.tree.map(jnp.copy, params), jax.tree.map(jnp.copy, params)
    state, other = jax.jit(one.init)(a), sharded("init", many, b, specs)(b)
    assert bits(state) == bits(other)
    step, step_sharded = jax.jit(one.step), sharded("step", many, params, specs, donate)
    for i in range(4):
        grads = make_arrays(i + 1, dtype, scale)
        if i == 2 and spoil is not None:
            grads["long"] = grads["long"].at[60000].set(spoil)
        a, state = step(a, state, grads)
        b, other = step_sharded(b, other, grads)
        assert bits(a) == bits(b), i
        assert bits(state) == bits(other), i
    return step_sharded, b, other


def test_clipping_by_the_norm_of_all_devices():
    check(lambda **k: stepfuse.jax.adamw(lr=lambda n: 1e-2 / (n + 1), max_norm=1.0, **k))


def test_subnormal_pieces_are_exchanged_without_loss():
    check(lambda **k: stepfuse.jax.adamw(lr=1e-2, max_norm=1e-30, **k), scale=1e-22)


@pytest.mark.parametrize("clip", ["l1", "inf", "zclip"])
def test_other_norms(clip):
    check(lambda **k: stepfuse.jax.lion(lr=1e-3, clip=clip, moments="fp8", moments_min=1, **k))


@pytest.mark.parametrize("spoil", [np.inf, np.nan])
def test_what_one_device_finds_skips_the_step_on_all(spoil):
    scaling = stepfuse.jax.LossScale(init_scale=8.0, growth_interval=2)
    _, _, state = check(lambda **k: stepfuse.jax.adamw(lr=1e-2, max_norm=1.0, loss_scale=scaling, **k), spoil=spoil)
    assert float(state.values["scale"]) < 32.0 and set(state.values["step"].tolist()) == {3}


def test_without_a_norm_nothing_is_exchanged():
    step, params, state = check(lambda **k: stepfuse.jax.sgd(lr=1e-2, momentum=0.9, **k))
    hlo = step.lower(params, state, make_arrays(1)).compile().as_text()
    assert "all-reduce" not in hlo and "stepfuse_reduce" not in hlo


def test_random_numbers_belong_to_positions_of_whole_parameters():
    check(lambda **k: stepfuse.jax.adamw(lr=1e-2, max_norm=1.0, weight_rounding="stochastic", seed=7, moments="dyn8", moments_min=70000, **k),
          dtype=jnp.bfloat16)


def test_arrays_that_are_not_donated_are_reduced_again():
    check(lambda **k: stepfuse.jax.adamw(lr=1e-2, max_norm=1.0, **k), donate=())


def test_two_calls_and_no_copies():
    tx = stepfuse.jax.adamw(lr=1e-2, max_norm=1.0, specs=SPECS)
    params = make_arrays(0)
    state = sharded("init", tx, params, SPECS)(params)
    hlo = sharded("step", tx, params, SPECS, (0, 1)).lower(params, state, make_arrays(1)).compile().as_text()
    calls = re.findall(r'custom_call_target="(stepfuse_\w+)"', hlo)
    assert sorted(calls) == ["stepfuse_reduce", "stepfuse_step"] and "all-reduce" in hlo
    copied = [size for size in re.findall(r"= \w+\[([\d,]*)\]\S* copy\(", hlo) if np.prod([int(n) for n in size.split(",") if n]) > 100]
    assert copied == []


def test_mistakes():
    params = make_arrays(0)
    with pytest.raises(ValueError, match=r"no axis 'data' here; call init\(\) and step\(\) inside jax.shard_map"):
        stepfuse.jax.adamw(specs=SPECS).init(params)
    with pytest.raises(ValueError, match="specs is not a pytree like params"):
        stepfuse.jax.adamw(specs={"table": ROWS}).init(params)
    with pytest.raises(ValueError, match="along their first dimension"):
        stepfuse.jax.adamw(specs={**SPECS, "table": PartitionSpec(None, "data")}).init(params)
    with pytest.raises(ValueError, match="takes one axis"):
        stepfuse.jax.adamw(specs={**SPECS, "table": PartitionSpec("model")}).init(params)
    with pytest.raises(ValueError, match="made without them"):
        stepfuse.jax.adamw().state_specs(params)
    tx = stepfuse.jax.lamb(specs=SPECS)
    with pytest.raises(ValueError, match="lamb reduces over the elements"):
        sharded("init", tx, params, SPECS)(params)
    small = {**SPECS, "kernel": ROWS}
    with pytest.raises(ValueError, match=r"a shard of \['kernel'\] has 5250 elements; it must be a multiple of 16384"):
        sharded("init", stepfuse.jax.adamw(specs=small), params, small)(params)
