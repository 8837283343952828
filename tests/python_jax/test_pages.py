"""The programs of docs/jax.md, as they stand there."""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "jax.md"
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)


@pytest.fixture(scope="module")
def names():
    """The names after the first program, which the others start from."""
    has: dict = {}
    exec(compile(PROGRAMS[0], "page", "exec"), has)
    return has


def test_there_are_three():
    assert len(PROGRAMS) == 3


def test_the_first_trains(names):
    assert names["state"].values["step"].tolist() == [300, 300]
    assert names["loss"](names["params"], jnp.ones((32, 64))) < names["loss"]({"w": jnp.zeros(64), "b": 0.0}, jnp.ones((32, 64))) / 10


def test_groups(names):
    has = dict(names)
    exec(compile(PROGRAMS[1], "page", "exec"), has)
    before = {"w": jnp.ones(64), "b": jnp.ones((3, 3))}
    after, _ = has["tx"].step(before, has["tx"].init(before), jax.tree.map(jnp.zeros_like, before))
    assert np.array_equal(after["w"], np.ones(64)) and (after["b"] < 1).all(), "only matrices decay"


@pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="this jax has no jax.shard_map")
def test_shards(names):
    has = {**names, "params": {"embedding": jnp.ones((1024, 64)), "bias": jnp.zeros(64)},
           "loss": lambda p, x: jnp.square(x @ p["embedding"] + p["bias"]).mean()}
    exec(compile(PROGRAMS[2], "page", "exec"), has)
    params, state = has["step"](has["params"], has["state"], jnp.ones((8, 1024)))
    assert state.values["grad_norm"] > 0 and (params["embedding"] < 1).all()
