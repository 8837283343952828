"""Exchanges data between the processes of a training, between a step's phases, and reports failures among them.

Knows torch.distributed; its process groups transport the data.
"""

from __future__ import annotations

import gc
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from .. import _core
from . import private
from .arguments import count_words

TICK = timedelta(seconds=1)  # how often a waiting rank checks whether a different one has failed
GRACE = timedelta(seconds=5)  # how long a rank that has failed waits to hear where the others are
# torch has renamed them.
ALL_GATHER = getattr(dist, "all_gather_single", None) or getattr(dist, "all_gather_into_tensor", None)
REDUCE_SCATTER = getattr(dist, "reduce_scatter_single", None) or getattr(dist, "reduce_scatter_tensor", None)
LANES, PIECE = 2048, 16384  # of the language's reduction order


class RankError(_core.Error):
    """A rank died, does not answer, or differs from the others; the message says which."""


def fold(values: Tensor, largest: bool = False) -> Tensor:
    """Folds the last dimension in the language's order, as one device folds its pieces (ir/semantics/reduction.hpp)."""
    combine = torch.maximum if largest else torch.add
    while True:
        pieces = max(1, -(-values.shape[-1] // PIECE))
        identity = float("-inf") if largest else 0.0
        lanes = torch.nn.functional.pad(values, (0, pieces * PIECE - values.shape[-1]), value=identity)
        lanes = lanes.unflatten(-1, (pieces, PIECE // LANES, LANES))
        total = torch.full_like(lanes[..., 0, :], identity)
        for i in range(PIECE // LANES):
            total = combine(total, lanes[..., i, :])
        while total.shape[-1] > 1:
            total = combine(*total.chunk(2, dim=-1))
        values = total.squeeze(-1)
        if pieces == 1:
            return values.squeeze(-1)


def replicas_of(params: Sequence[Tensor]) -> Any:
    """Returns the group of the DistributedDataParallel that has all these parameters, or None. Parameters do not know it, so
    this searches all objects, once per optimizer."""
    wanted = {id(p) for p in params}
    for found in gc.get_objects():
        if type(found) is DistributedDataParallel and wanted <= {id(p) for p in found.parameters()}:
            return found.process_group if found.process_group.size() > 1 else None
    return None


def names(ranks: Sequence[int]) -> str:
    words = [str(r) for r in ranks]
    if len(words) == 1:
        return f"rank {words[0]}"
    return f"ranks {', '.join(words[:-1])} and {words[-1]}"


class Ranks:
    """One group of processes, or several in sequence (the dimensions of a device mesh)."""

    def __init__(self, groups: Sequence[Any], device: torch.device) -> None:
        self.groups = list(groups)
        self.device = device
        self.members = sorted({r for g in self.groups for r in dist.get_process_group_ranks(g)})
        self.me = dist.get_rank()
        self.place = "/".join(["stepfuse", *(g.group_name for g in self.groups)])
        self.step = 0  # the current step
        self.messages = 0  # collectives of this rank so far

    # --- collectives

    def begin(self, what: str, call: Callable[..., Any], *args: Any, **kw: Any) -> Any:
        """Starts a collective of torch.distributed."""
        self.messages += 1
        try:
            return call(*args, async_op=True, **kw)
        except RuntimeError as error:
            self.fail(what, error)

    def wait(self, what: str, work: Any) -> None:
        """Waits for it. On a GPU only the stream waits; on the CPU this also notices that a different rank has failed."""
        if work is None:
            return
        if self.device.type != "cpu":
            work.wait()
            return
        while True:
            try:
                work.wait(TICK)
                return
            except RuntimeError as error:
                if work.is_completed() or self.alarmed():
                    self.fail(what, error)

    def all_reduce(self, what: str, values: Tensor, largest: bool = False) -> None:
        op = dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM
        for group in self.groups:
            self.wait(what, self.begin(what, dist.all_reduce, values, op=op, group=group))

    def all_gather(self, what: str, values: Tensor) -> Tensor:
        """Returns the values of each rank of the one group, in their order."""
        group = self.groups[0]
        out = values.new_empty((group.size(), *values.shape))
        self.wait(what, self.begin(what, ALL_GATHER, out.flatten(), values.flatten(), group=group))
        return out

    # --- what ranks must have in common

    def agree(self, facts: dict[str, list[str]]) -> None:
        """Raises on every rank, and says which one differs in what, unless all ranks agree."""
        digests = [hashlib.sha256("\0".join(lines).encode()).digest()[:16] for lines in facts.values()]
        mine = torch.frombuffer(bytearray(b"".join(digests)), dtype=torch.uint8).to(self.device)
        for group in self.groups:
            everybody = mine.new_empty(group.size() * mine.numel())
            what = "the comparison of what ranks have"
            self.wait(what, self.begin(what, ALL_GATHER, everybody, mine, group=group))
            if (everybody.view(group.size(), -1) == mine).all():
                continue
            lists: list[Any] = [None] * group.size()
            dist.all_gather_object(lists, facts, group=group)
            self.raise_alarm("found that ranks differ")
            raise RankError(difference(dict(zip(dist.get_process_group_ranks(group), lists))))

    # --- when one fails

    def store(self) -> Any:
        return private.default_store()

    def alarmed(self) -> bool:
        try:
            return self.store().check([f"{self.place}/alarm"])
        except RuntimeError:  # the process that holds the store is gone
            return True

    def raise_alarm(self, what: str) -> None:
        try:
            self.store().set(f"{self.place}/at/{self.me}", what)
            self.store().set(f"{self.place}/alarm", "1")
        except RuntimeError:
            pass

    def fail(self, what: str, error: Exception) -> NoReturn:
        self.raise_alarm(what)
        silent, told, reached = [], {}, True
        left = GRACE
        for rank in self.members:
            key = f"{self.place}/at/{rank}"
            try:
                self.store().wait([key], left)
                told.setdefault(self.store().get(key).decode(), []).append(rank)
            except RuntimeError:
                left = timedelta(milliseconds=1)  # the others had as long
                silent.append(rank)
        try:
            self.store().check([self.place])
        except RuntimeError:
            reached = False
        if not reached:
            who = "the rank that holds torch.distributed's store (rank 0 where torchrun does not) is gone"
        elif silent:
            who = f"{names(silent)} {'does' if len(silent) == 1 else 'do'} not answer: dead, or stuck elsewhere"
        else:
            who = "all ranks answer, so it was too slow or the connection broke"
        others = "; ".join(f"{names(r)} stopped at {w}" for w, r in told.items())
        raise RankError(f"rank {self.me}: {what} failed in step {self.step}: {who}.{f' {others}.' * reached} Start again from the "
                        f"last checkpoint, with as many ranks as there are. (torch.distributed: {error})") from error


def difference(facts: dict[int, dict[str, list[str]]]) -> str:
    """Describes how the facts of some ranks differ from those of most."""
    said = []
    for fact in next(iter(facts.values())):
        lists = {rank: tuple(f.get(fact, ())) for rank, f in facts.items()}
        usual, _ = Counter(lists.values()).most_common(1)[0]
        for rank, lines in lists.items():
            if lines == usual:
                continue
            like = names([r for r, other in lists.items() if other == usual])
            mine, theirs = next(((a, b) for a, b in zip(lines, usual) if a != b),
                                (count_words(len(lines), "line"), count_words(len(usual), "line")))
            said.append(f"rank {rank} has a different {fact} than {like}: {mine}, not {theirs}")
    return ("; ".join(said) + ". Nothing was exchanged: make all ranks alike, and load the same checkpoint on each")
