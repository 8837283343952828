"""Functions that torch does not document are named in one file, and the package works without each of them."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest
import torch

import stepfuse.torch
from stepfuse.torch import private

FOLDER = pathlib.Path(stepfuse.torch.__file__).resolve().parent
MODULES = ("torch", "dist", "profiler")  # how files call torch and its modules
ATTRIBUTES = ("_local_tensor", "_spec", "_cdata", "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def private_names(text):
    """What of torch a source names that begins with an underscore."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch" and node.level == 0:
            yield from (name for name in (*node.module.split("."), *(alias.name for alias in node.names)) if is_private(name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            root = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if node.attr in ATTRIBUTES or isinstance(root, ast.Name) and root.id in MODULES:
                yield node.attr


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=lambda file: file.name)
def test_no_other_file_names_them(file):
    found = set(private_names(file.read_text()))
    assert file.name == "private.py" or not found, f"{file.name} names {', '.join(sorted(found))}: that belongs into private.py, with a replacement"


def test_the_check_finds_them():
    text = "import torch\nfrom torch.optim import _functional\ntorch._C._x()\np._local_tensor\nself._own\ntorch.Tensor.__add__\n"
    assert set(private_names(text)) == {"_functional", "_C", "_x", "_local_tensor"}


PROGRAM = """
import torch
from stepfuse.torch import AdamW, GradScaler, LossScaler, binding, private
torch.set_num_threads(1)

plain = {"set_grad_enabled": torch.set_grad_enabled, "increment_versions": private._increment_each, "record": private._record,
         "local_tensor": private._to_local, "copy_all": private._copy_each, "tree_leaves": private._leaves}
assert all(getattr(private, name) is replacement for name, replacement in plain.items())
assert private.EXCHANGE is None and not private.can_defer_unscale() and binding.new_walk().asks() == "methods"

def made(cls, **kw):
    torch.manual_seed(1)
    params = [torch.nn.Parameter(torch.randn(4, 3)), torch.nn.Parameter(torch.randn(5))]
    return params, cls(params, lr=0.01, **kw)

def gradients(params, scale):
    torch.manual_seed(2)
    for p in params:
        p.grad = torch.randn(p.shape) * scale

# step(), with masters that writes are taken into, and a hook and the profiler, which torch's wrapper serves
params, ours = made(AdamW, fused=True)
others, theirs = made(torch.optim.AdamW, fused=True)
calls = []
ours.register_step_post_hook(lambda *_: calls.append(1))
with torch.profiler.profile() as profile:
    for _ in range(3):
        gradients(params, 1.0)
        gradients(others, 1.0)
        before = params[0]._version
        ours.step()
        theirs.step()
        assert torch.is_grad_enabled() and params[0]._version == before + 1
assert all(torch.equal(p, q) for p, q in zip(params, others)) and len(calls) == 3
assert any(event.key == "Optimizer.step#AdamW.step" for event in profile.key_averages())

# a GradScaler that would defer leaves the unscaling to torch
params, ours = made(AdamW)
scaler, theirs = GradScaler("cpu", init_scale=4.0, defer_unscale=True), torch.amp.GradScaler("cpu", init_scale=4.0)
others, plain = made(AdamW)
for scale, optimizer, values in ((scaler, ours, params), (theirs, plain, others)):
    scale.scale(torch.ones(()))
    gradients(values, 4.0)
    scale.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(values, 1.0)
    scale.step(optimizer)
    scale.update()
assert all(torch.equal(p, q) for p, q in zip(params, others)) and scaler.state_dict() == theirs.state_dict()

# averages are copied one by one
params, ours = made(AdamW, ema_decay=0.5)
gradients(params, 1.0)
ours.step()
with ours.averaged():
    assert torch.equal(params[0], ours.state[params[0]]["ema"])

# DTensors' local parts, and weights that are on their way
import tempfile
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor
from stepfuse.torch import ZeroRedundancyOptimizer
dist.init_process_group("gloo", store=dist.FileStore(tempfile.mkstemp()[1], 1), rank=0, world_size=1)
mesh = dist.device_mesh.init_device_mesh("cpu", (1,))
whole, reference = made(AdamW, max_norm=0.5)
shards = [torch.nn.Parameter(distribute_tensor(p.detach(), mesh, [Shard(0)])) for p in whole]
ours = AdamW(shards, lr=0.01, max_norm=0.5)
gradients(whole, 1.0)
for p, q in zip(shards, whole):
    p.grad = distribute_tensor(q.grad, mesh, [Shard(0)])
ours.step()
reference.step()
assert all(torch.equal(p.full_tensor(), q) for p, q in zip(shards, whole))

from stepfuse.torch import late
arrived = []
p = torch.nn.Parameter(torch.ones(3))
p.grad = torch.full((3,), 2.0)
late.expect([p], lambda: (arrived.append(1), late.welcome([p])))
assert torch.equal(p.grad, torch.full((3,), 2.0)) and not arrived
assert (p + 1).tolist() == [2.0, 2.0, 2.0] and arrived
assert type(private.default_store()) is dist.HashStore and private.default_store() is private.default_store()
print("all replacements were taken")
"""


def test_all_of_it_works_without_them():
    environment = {**os.environ, "STEPFUSE_PLAIN_TORCH": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip().endswith("all replacements were taken")


def test_with_them_none_of_the_replacements_is_taken():
    if os.environ.get("STEPFUSE_PLAIN_TORCH") == "1":
        pytest.skip("this run takes the replacements")
    assert private.set_grad_enabled is torch._C._set_grad_enabled
    assert private.tree_leaves is not private._leaves and private.local_tensor is not private._to_local
    assert not private.is_step_watched(stepfuse.torch.SGD([torch.nn.Parameter(torch.ones(1))]))
