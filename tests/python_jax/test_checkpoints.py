"""Checkpoints of stepfuse.jax: back into JAX, into a step of the C API, and into PyTorch, each to go on with the same bits."""

import os
import pathlib
import subprocess

import c_step
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_bits import assert_same, make_arrays, program_options, same

import stepfuse.jax

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
KINDS = [
    ({"max_norm": 1.0}, np.float32),
    ({"moments": "fp8", "max_norm": 1.0}, np.float32),
    ({"moments": "exp_avg=int8,exp_avg_sq=sqrt8", "moments_min": 1}, np.float32),
    ({"master": True, "moments": "bf16", "loss_scale": stepfuse.jax.LossScale(init_scale=8.0)}, jnp.float16),
    ({"master": "remainder", "clip": "zclip"}, jnp.bfloat16),
]


def train(tx, dtype, steps, scale=1.0):
    start = make_arrays(0, dtype)
    params, state = jax.tree.map(jnp.array, start), tx.init(start)
    for i in range(steps):
        grads = jax.tree.map(lambda g: np.asarray(g.astype(np.float32) * scale).astype(dtype), make_arrays(i + 1, dtype))
        params, state = jax.jit(tx.step)(params, state, grads)
    return params, state


def scale_of(tx):
    return tx.init_scale or 1.0


@pytest.mark.parametrize("keywords, dtype", KINDS, ids=str)
def test_back_into_jax(keywords, dtype, tmp_path):
    tx = stepfuse.jax.adamw(lr=0.01, **keywords)
    params, state = train(tx, dtype, 3, scale_of(tx))
    stepfuse.jax.save_checkpoint(tmp_path / "run.safetensors", tx, params, state)
    loaded = stepfuse.jax.load_checkpoint(tmp_path / "run.safetensors", tx, params)
    assert int(loaded.count) == 3
    assert jax.tree.structure(loaded) == jax.tree.structure(state)
    reports = {v.name for v in stepfuse.jax.call.make_plan(tx, params)[0].program.values} - {"step", "scale", "growth_tracker", "seed"}
    for (path, a), b in zip(jax.tree_util.tree_flatten_with_path(state)[0], jax.tree.leaves(loaded), strict=True):
        if not any(name in str(path) for name in reports):
            assert same(a, b), path
    grads = make_arrays(9, dtype)
    for a, b in zip(jax.tree.leaves(jax.jit(tx.step)(params, state, grads)[0]), jax.tree.leaves(jax.jit(tx.step)(params, loaded, grads)[0])):
        assert same(a, b)


@pytest.mark.parametrize("keywords, dtype", KINDS, ids=str)
def test_into_a_step_of_the_c_api_and_back(keywords, dtype, tmp_path):
    tx = stepfuse.jax.adamw(lr=0.01, **keywords)
    scale = scale_of(tx)
    params, state = train(tx, dtype, 3, scale)
    stepfuse.jax.save_checkpoint(tmp_path / "run.safetensors", tx, params, state)
    args = {"lr": 0.01, **({"max_norm": 1.0} if "max_norm" in keywords else {})}
    reference = c_step.Step("adamw", program_options(tx, dtype), [np.asarray(p) for p in jax.tree.leaves(params)], args, init_scale=tx.init_scale)
    c_step.call("load_checkpoint", str(tmp_path / "run.safetensors"), reference.step)
    for i in range(3, 5):
        grads = jax.tree.map(lambda g: np.asarray(g.astype(np.float32) * scale).astype(dtype), make_arrays(i + 1, dtype))
        params, state = jax.jit(tx.step)(params, state, grads)
        reference.run(jax.tree.leaves(grads))
    assert_same(tx, params, state, reference)
    c_step.call("save_checkpoint", str(tmp_path / "c.safetensors"), reference.step)
    loaded = stepfuse.jax.load_checkpoint(tmp_path / "c.safetensors", tx, params)
    grads = make_arrays(9, dtype)
    for a, b in zip(jax.tree.leaves(jax.jit(tx.step)(params, state, grads)[0]), jax.tree.leaves(jax.jit(tx.step)(params, loaded, grads)[0])):
        assert same(a, b)


IN_TORCH = """
import sys
import numpy as np, torch
sys.path.insert(0, sys.argv[1])
import torch_checkpoint
import stepfuse.torch
found = np.load(sys.argv[2])
params = [torch.nn.Parameter(torch.from_numpy(found[f"p{i}"])) for i in range(int(found["count"]))]
optimizer = stepfuse.torch.AdamW(params, lr=0.01, weight_decay=0.1)
torch_checkpoint.load(sys.argv[3], optimizer)
for i, p in enumerate(params):
    p.grad = torch.from_numpy(found[f"g{i}"])
optimizer.step()
torch_checkpoint.save(sys.argv[4], "adamw", optimizer)
np.savez(sys.argv[2], **{f"p{i}": p.detach().numpy() for i, p in enumerate(params)})
"""


def test_into_pytorch_and_back(tmp_path):
    python = os.environ.get("STEPFUSE_TORCH_PYTHON")
    needed = "import torch, safetensors, xxhash, numpy"
    if not python or subprocess.run([python, "-c", needed], capture_output=True).returncode:
        pytest.skip("STEPFUSE_TORCH_PYTHON names no Python with PyTorch, safetensors and xxhash")
    tx = stepfuse.jax.adamw(lr=0.01, weight_decay=0.1, profile="torch-foreach")
    params, state = train(tx, np.float32, 3)
    run, data, back = (str(tmp_path / name) for name in ("run.safetensors", "data.npz", "back.safetensors"))
    stepfuse.jax.save_checkpoint(run, tx, params, state)
    grads = make_arrays(4)
    p, g = jax.tree.leaves(params), jax.tree.leaves(grads)
    np.savez(data, count=len(p), **{f"p{i}": x for i, x in enumerate(p)}, **{f"g{i}": x for i, x in enumerate(g)})
    subprocess.run([python, "-c", IN_TORCH, str(TOOLS), data, run, back], check=True, timeout=1500)
    params, state = jax.jit(tx.step)(params, state, grads)
    there = np.load(data)
    for i, leaf in enumerate(jax.tree.leaves(params)):
        assert same(leaf, there[f"p{i}"]), i
    loaded = stepfuse.jax.load_checkpoint(back, tx, params)
    assert int(loaded.count) == 4
    for name in ("exp_avg", "exp_avg_sq"):
        for a, b in zip(jax.tree.leaves(loaded.arrays[name]), jax.tree.leaves(state.arrays[name]), strict=True):
            assert same(a, b), name


def test_mistakes(tmp_path):
    tx = stepfuse.jax.adamw(lr=0.01)
    params, state = train(tx, np.float32, 1)
    stepfuse.jax.save_checkpoint(tmp_path / "run.safetensors", tx, params, state)
    with pytest.raises(stepfuse.Error, match="layout"):
        stepfuse.jax.load_checkpoint(tmp_path / "run.safetensors", tx, {"w": jnp.zeros(3)})
    with pytest.raises(stepfuse.Error, match="fp8"):
        stepfuse.jax.load_checkpoint(tmp_path / "run.safetensors", stepfuse.jax.adamw(moments="fp8", moments_min=1), params)
    with pytest.raises(ValueError, match="state.arrays"):
        stepfuse.jax.save_checkpoint(tmp_path / "run.safetensors", stepfuse.jax.lion(), params, state)
