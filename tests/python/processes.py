"""A function on several ranks at once: processes with a gloo group each, forked from one that has imported torch."""

import contextlib
import datetime
import gc
import multiprocessing
import os
import pathlib
import pickle
import sys
import tempfile
import traceback

import pytest
import torch
import torch.distributed as dist

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch has no gloo", allow_module_level=True)

SECONDS = 1500  # after which a rank is taken to hang and is killed: longer than any test on a busy machine

_server = multiprocessing.get_context("forkserver")
# Each rank inherits these modules. Otherwise it would import torch._dynamo in three seconds, with the first of torch's
# optimizers, torch.distributed.optim in half a second, and pytest and fsspec in a quarter.
_server.set_forkserver_preload(["torch", "torch._dynamo", "torch.distributed.tensor", "torch.distributed.fsdp", "torch.distributed.checkpoint",
                                "torch.distributed.optim", "fsspec", "pytest", "stepfuse.torch"])


class Died(Exception):
    """A rank ended without a result; its exit code."""


def _main(rank, world, store, seconds, function, arguments, answer):
    gc.freeze()  # Garbage collection then skips the modules' objects; visiting them would copy their pages.
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world,
                                timeout=datetime.timedelta(seconds=seconds))
        result = function(rank, world, *arguments)
    except Exception as error:
        traceback.print_exc()
        result = error
    answer.send_bytes(pickle.dumps(result))  # tensors by value
    answer.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # not the group's end, which waits for ranks that a test has killed


def run(world, function, *arguments, seconds=600.0, patience=SECONDS):
    """What `function(rank, world, *arguments)` returns or raises on each rank, or Died; collectives time out after `seconds`."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(world):
            mine, theirs = _server.Pipe(duplex=False)
            process = _server.Process(target=_main, args=(rank, world, str(pathlib.Path(folder) / "store"), seconds, function,
                                                          arguments, theirs))
            process.start()
            theirs.close()
            ranks.append((process, mine))
        results = []
        for process, mine in ranks:
            result = Died("no answer")
            if mine.poll(patience):
                with contextlib.suppress(EOFError):
                    result = pickle.loads(mine.recv_bytes())
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
            if isinstance(result, Died):
                result = Died(process.exitcode)
            results.append(result)
        return results


def _each(rank, world, function, cases):
    return [function(rank, world, *case) for case in cases]


def run_each(world, function, cases):
    """For each of the cases what good(run(world, function, *case)) returns; with processes for all of them, which take long to start."""
    return list(zip(*good(run(world, _each, function, cases)), strict=True))


def good(results):
    """The results, where no rank raised."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
