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
import threading
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


def _main(rank, world, store, seconds, calls, answers):
    gc.freeze()  # Garbage collection then skips the modules' objects; visiting them would copy their pages.
    torch.set_num_threads(1)
    while True:
        try:
            function, arguments = pickle.loads(calls.recv_bytes())
        except EOFError:  # the tests' process has ended
            break
        try:
            if not dist.is_initialized():
                dist.init_process_group("gloo", store=dist.FileStore(store, world), rank=rank, world_size=world,
                                        timeout=datetime.timedelta(seconds=seconds))
            result = function(rank, world, *arguments)
        except Exception as error:
            traceback.print_exc()
            result = error
        sys.stdout.flush()
        sys.stderr.flush()
        answers.send_bytes(pickle.dumps(result))  # tensors by value
        if isinstance(result, Exception):
            break  # so that ranks which wait for this one are told at once, instead of after `seconds`
    os._exit(0)  # not the group's end, which waits for ranks that a test has killed


class _Ranks:
    """Processes that make a group with the first call, and execute one call after the other."""

    def __init__(self, world, seconds):
        self.folder = tempfile.TemporaryDirectory()
        self.ranks = []
        for rank in range(world):
            calls, mine = _server.Pipe(duplex=False)
            answers, theirs = _server.Pipe(duplex=False)
            arguments = (rank, world, str(pathlib.Path(self.folder.name) / "store"), seconds, calls, theirs)
            process = _server.Process(target=_main, args=arguments, daemon=True)  # killed when the tests end
            process.start()
            calls.close()
            theirs.close()
            self.ranks.append((process, mine, answers))

    def call(self, function, arguments, patience):
        for _, calls, _ in self.ranks:
            calls.send_bytes(pickle.dumps((function, arguments)))
        return [self.result(process, answers, patience) for process, _, answers in self.ranks]

    def result(self, process, answers, patience):
        if not answers.poll(patience):
            return Died("no answer")
        try:
            return pickle.loads(answers.recv_bytes())
        except EOFError:
            process.join()
            return Died(process.exitcode)

    def end(self):
        for process, calls, answers in self.ranks:
            process.kill()
            process.join()
            calls.close()
            answers.close()
        self.folder.cleanup()


_idle = {}  # by module and number of ranks: ranks that have answered every call so far
_taking = threading.Lock()
_LONGEST = 600.0


def run(world, function, *arguments, seconds=_LONGEST, patience=SECONDS):
    """What `function(rank, world, *arguments)` returns or raises on each rank, or Died. Collectives time out after `seconds`.

    Functions of one module are called in the same processes until one raises or dies, because each process fills torch's caches
    of DTensor operations itself. So a function puts back what it changes in a module.
    """
    key = function.__module__, world
    with _taking:
        ended = [_idle.pop(other) for other in list(_idle) if other[0] != key[0]]
        ranks = _idle.pop(key, None) if seconds == _LONGEST else None
    for other in ended:
        other.end()
    ranks = ranks or _Ranks(world, seconds)
    results = ranks.call(function, arguments, patience)
    failed = any(isinstance(result, Exception) for result in results)
    if failed or seconds != _LONGEST or _idle.setdefault(key, ranks) is not ranks:
        ranks.end()
    return results


def run_each(world, function, cases):
    return [good(run(world, function, *case)) for case in cases]


def good(results):
    """The results, where no rank raised."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
