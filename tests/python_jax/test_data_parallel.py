"""Whole parameters on four devices: the step under shard_map gives each device the bits of one."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

import stepfuse.jax

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map


def test_averaged_gradients():
    check = "check_vma" if "check_vma" in inspect.signature(shard_map).parameters else "check_rep"
    tx = stepfuse.jax.adamw(lr=lambda n: 1e-2 / (n + 1), max_norm=1.0, moments="int8", moments_min=1)
    rng = np.random.default_rng(0)
    params = {"w": jnp.asarray(rng.standard_normal((300, 70)), jnp.float32), "b": jnp.ones(70)}
    mesh = Mesh(np.array(jax.devices()[:4]), ("data",))

    def train(params, state, x):
        grads = jax.grad(lambda p: jnp.square(x @ p["w"] + p["b"]).mean())(params)
        grads = jax.lax.pmean(grads, "data")
        return *tx.step(params, state, grads), grads

    whole, part = PartitionSpec(), PartitionSpec("data")
    step = jax.jit(shard_map(train, mesh=mesh, in_specs=(whole, whole, part), out_specs=(whole, whole, whole), **{check: False}))
    one = jax.jit(tx.step)
    a = b = params
    state = other = tx.init(params)
    for i in range(5):
        x = jnp.asarray(rng.standard_normal((8, 300)), jnp.float32)
        a, state, grads = step(a, state, x)
        b, other = one(b, other, jax.tree.map(np.asarray, grads))
        for found, expected in zip(jax.tree.leaves((a, state)), jax.tree.leaves((b, other)), strict=True):
            for shard in found.addressable_shards:
                assert np.asarray(shard.data).tobytes() == np.asarray(expected).tobytes()
            assert len(found.addressable_shards) == 4
