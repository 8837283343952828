"""The package in processes: its self-test, and what is left of an optimizer after a fork."""

import functools
import os
import subprocess
import sys

import torch

import stepfuse
from stepfuse.torch import AdamW


def test_selftest_compiles_though_the_cache_has_the_kernel(tmp_path):
    environment = {**os.environ, "STEPFUSE_CACHE": "on", "STEPFUSE_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-m", "stepfuse.selftest"], capture_output=True, text=True, timeout=1500,
                              env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same bits as the interpreter" in done.stdout
    assert "\nLLVM: /" in done.stdout
    assert "torch: steps of SGD, Adam and AdamW match torch's" in done.stdout
    assert done.stdout.splitlines()[-1] == "ok"


def test_selftest_notices_a_torch_that_does_not_work(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("class nn: pass\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run([sys.executable, "-m", "stepfuse.selftest"], capture_output=True, text=True, timeout=1500,
                          env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 1 and "stepfuse.torch does not work with this torch: " in done.stdout, done.stdout


PROGRAM = """
import sys
import torch
from stepfuse.torch import AdamW
p = torch.nn.Parameter(torch.ones(4))
optimizer = AdamW([p], lr=0.1)
def train():
    optimizer.zero_grad()
    p.square().sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
train()
assert "torch._dynamo" not in sys.modules
torch.compile(train, backend="eager")()
assert "torch._dynamo" in sys.modules
print(optimizer.state[p]["step"].item())
"""


def test_torchs_compiler_is_imported_only_to_compile():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout == "2.0\n", done.stdout + done.stderr


def test_what_a_program_puts_in_place_of_torchs_methods_is_called(monkeypatch):
    calls = []
    for name in ("add_param_group", "zero_grad", "state_dict", "load_state_dict"):
        torchs = getattr(torch.optim.Optimizer, name)

        @functools.wraps(torchs)
        def counted(self, *args, _name=name, _torchs=torchs, **kw):
            calls.append(_name)
            return _torchs(self, *args, **kw)

        monkeypatch.setattr(torch.optim.Optimizer, name, counted)
    optimizer = AdamW([torch.nn.Parameter(torch.ones(4))])
    optimizer.zero_grad()
    optimizer.load_state_dict(optimizer.state_dict())
    assert calls == ["add_param_group", "zero_grad", "state_dict", "load_state_dict"]


def test_a_forked_child_is_told():
    p = torch.nn.Parameter(torch.ones(8))
    p.grad = torch.ones(8)
    optimizer = AdamW([p])
    optimizer.step()
    child = os.fork()
    if child == 0:
        try:
            optimizer.step()
        except stepfuse.Error as error:
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    optimizer.step()
