"""The package in processes: its self-test, what is left of an optimizer after a fork, and ranks."""

import hashlib
import os
import pathlib
import subprocess
import sys

import torch

import stepfuse
from stepfuse.torch import AdamW, GradScaler, clip_grad_norm_


def test_selftest_compiles_though_the_cache_has_the_kernel(tmp_path):
    environment = {**os.environ, "STEPFUSE_CACHE": "on", "STEPFUSE_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-m", "stepfuse.selftest"], capture_output=True, text=True, timeout=120,
                              env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same bits as the interpreter" in done.stdout
    assert "\nLLVM: /" in done.stdout
    assert "SGD, Adam and AdamW take torch's own steps" in done.stdout
    assert done.stdout.splitlines()[-1] == "ok"


def test_selftest_notices_a_torch_that_does_not_work(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text("class nn: pass\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run([sys.executable, "-m", "stepfuse.selftest"], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 1 and "stepfuse.torch does not work with this torch: " in done.stdout, done.stdout


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


def ranks(rank, world, folder):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=world)
    digests = []
    for deferred in (True, False):
        torch.manual_seed(1)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 8))
        optimizer = AdamW(model.parameters(), lr=0.01)
        scaler = GradScaler("cpu", init_scale=256.0, defer_unscale=deferred)
        skipped = []
        for i in range(6):
            optimizer.zero_grad()
            x = torch.full((4, 16), float(rank + i))
            if i == 3 and rank == 1:
                x[0, 0] = float("inf")  # on one rank only
            scaler.scale(model(x).square().mean()).backward()
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            skipped.append(optimizer.last_step_skipped.item())
        assert skipped == [i == 3 for i in range(6)], skipped
        assert scaler.get_scale() == 128.0
        digests.append(hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest())
    pathlib.Path(folder, f"digests{rank}").write_text(" ".join(digests))
    torch.distributed.destroy_process_group()


def test_two_ranks_skip_together(tmp_path):
    torch.multiprocessing.spawn(ranks, (2, str(tmp_path)), nprocs=2)
    assert (tmp_path / "digests0").read_text() == (tmp_path / "digests1").read_text()
