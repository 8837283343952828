"""What the tests on the tests' driver and on a GPU step alike."""

import jax
import jax.numpy as jnp
import numpy as np

KINDS = {
    "adamw with a schedule": ({"lr": lambda n: 0.1 / (n + 1), "max_norm": 1.0}, np.float32),
    "fp8": ({"moments": "fp8", "moments_min": 1, "max_norm": lambda n: 1.0 + n}, np.float32),
    "stochastic": ({"weight_rounding": "stochastic", "seed": 5, "lr": 0.01}, jnp.bfloat16),
    "zclip": ({"clip": "zclip", "lr": 0.01}, np.float32),
    "monitor": ({"options": ["monitor"], "max_norm": 1.0}, np.float32),
    "remainder": ({"master": "remainder", "moments": "int8", "moments_min": 1}, jnp.bfloat16),
    "store": ({"store": {"exp_avg": "int8"}, "max_norm": 1.0}, np.float32),
}


def make_arrays(seed, table, dtype=np.float32, scale=1.0):
    """Arrays on JAX's default device; `table` is the size of the longest one."""
    rng = np.random.default_rng(seed)
    shapes = {"kernel": (40, 30), "bias": (30,), "scale": (), "table": (table,), "none": (0, 3)}
    return {name: jnp.asarray(scale * rng.standard_normal(shape), dtype) for name, shape in shapes.items()}


def bits(tree):
    return [(jax.tree_util.keystr(path), np.asarray(leaf).tobytes()) for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]]
