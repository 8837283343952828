"""ZeRO stage 1: each rank updates its share of the parameters and has the state of that share only.

Knows torch.distributed through Ranks, and an optimizer of this package, which steps the share like any parameters.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from .. import __version__
from . import late, layers, stored
from .arguments import count_words
from .binding import new_walk
from .buckets import Bucket, Slice, divide
from .checks import check_parameter
from .eager import Optimizer
from .fused import Fused
from .groups import SCALES, names_of, set_scales
from .optimizers import AdamW
from .options import check_weight_types, take_store
from .pieces import Pieces
from .private import increment_versions
from .programs import has_rows
from .ranks import ALL_GATHER, REDUCE_SCATTER, RankError, Ranks
from .shards import Shards
from .tensors import Position, columns_of, is_dense, type_name

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

    from .scaler import LossScaler

NOT_HYPER = ("params", "param_names")
GATHERING = "the all-gather of the weights"

_alive: weakref.WeakSet[ZeroRedundancyOptimizer] = weakref.WeakSet()


class ZeroRedundancyOptimizer(Shards, Optimizer):
    """One of this package's optimizers, with state and step sharded over ranks.

    It replaces DistributedDataParallel and torch's ZeroRedundancyOptimizer. Gradients are averaged by
    reduce-scatter, bucket by bucket while backward runs; each rank steps its share, and the weights are gathered.
    At first all ranks get the weights of rank 0. After backward `.grad` is None, because the sum is in the shards.

    Args:
        optimizer_class: an elementwise optimizer of this package.
        process_group: the ranks; None: all.
        exact: any number of ranks takes the same steps as one process that accumulates their batches in the order of
            ranks. Gradients are added up in that order, and the norm is folded from all pieces. As many bytes are sent,
            and the gradients need a second copy in memory (on the CPU in any case).
        reduce_gradients: False if DistributedDataParallel has made the gradients equal.
        bucket_bytes: about how much is sent at once.
        overlap_gather: step() does not wait for the other ranks' weights. The first use of a weight from Python, as in
            the next forward, waits for its bucket. Code that reads weights in a different way must call wait() first.
        allow_unused: a parameter without a gradient on a rank counts as zero there; otherwise that is an error.
        defaults: further arguments of the optimizer, such as lr, max_norm, scaler.

    Example:
        >>> optimizer = stepfuse.torch.ZeroRedundancyOptimizer(model.parameters(), stepfuse.torch.AdamW, lr=3e-4, max_norm=1.0)
        >>> model(batch).backward()
        >>> optimizer.step()
    """

    def __init__(self, params: ParamsT, optimizer_class: type[Fused] = AdamW, process_group: Any = None, *,
                 exact: bool = False, reduce_gradients: bool = True, bucket_bytes: int = 25 << 20,
                 overlap_gather: bool = False, allow_unused: bool = False, **defaults: Any) -> None:
        super().__init__(params, {})
        if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Fused)):
            raise TypeError(f"optimizer_class: expected a class of stepfuse.torch; got {optimizer_class}")
        for chosen in (defaults, *self.param_groups):
            take_store(chosen)
        check_weight_types(self.param_groups, defaults.pop("weight_type", None))
        if any(g.get("copy_scale", defaults.get("copy_scale")) is not None for g in self.param_groups):
            raise TypeError("ZeroRedundancyOptimizer: copy_scale= needs whole parameters, and each rank has only parts; use DDP, or leave it out")
        group = dist.group.WORLD if process_group is None else process_group
        self._all = [p for g in self.param_groups for p in g["params"]]
        self._names = [name for i, g in enumerate(self.param_groups) for name in names_of(g, i)]
        for p, name in zip(self._all, self._names):
            if type(p) not in (Tensor, torch.nn.Parameter) or not is_dense(p):
                raise TypeError(f"ZeroRedundancyOptimizer takes plain tensors without gaps, and {name} is a {type_name(p)} with strides {p.stride()}")
            if not p.requires_grad:
                raise ValueError(f"{name} is frozen (requires_grad=False); give the optimizer only parameters that are trained")
        self._check_unowned()
        self._world, self._me = group.size(), group.rank()
        self._comm = Ranks([group], self._all[0].device)
        self._exact, self._reduces, self._allow_unused = exact, reduce_gradients, allow_unused
        self._overlaps = overlap_gather
        # gloo's reduce-scatter is an all-reduce with twice the bytes, which cannot be watched.
        self._ordered = self._world > 1 and (exact or self._all[0].device.type == "cpu")
        self._paused = False
        self._broken: str | None = None
        self._next = 0  # next bucket to be sent
        self._runs: tuple[Any, list[list[tuple[int, int, int]]]] | None = None
        self._agree(optimizer_class, defaults, bucket_bytes)
        with torch.no_grad():
            self._buckets = [Bucket(entries, self._world, self._me, reduce_gradients, self._ordered)
                             for entries in divide(self._all, bucket_bytes)]
        for bucket in self._buckets if self._world > 1 else ():
            self._comm.wait("the broadcast of the weights", self._comm.begin(
                "the broadcast of the weights", dist.broadcast, bucket.weights, src=dist.get_global_rank(group, 0), group=group))
        self._make_inner(optimizer_class, defaults)
        self._check_rows()
        self._homes = {i: home for bucket in self._buckets for i, home in zip(bucket.indices, bucket.homes)}
        self._outside = new_walk()
        for i, p in enumerate(self._all):
            self._outside.add(p, 0, i, p, p.detach(), True)
        self._hooks = [p.register_post_accumulate_grad_hook(hook(weakref.ref(self), b, i))
                       for b, bucket in enumerate(self._buckets) for i, p in enumerate(bucket.params) if reduce_gradients]
        _alive.add(self)
        if reduce_gradients:
            self._step_supports_amp_scaling = True  # a GradScaler would read gradients that are not summed

    def _check_unowned(self) -> None:
        """Refuses a second optimizer, which would take the gradients and the memory of the first."""
        mine = {id(p): name for p, name in zip(self._all, self._names)}

        def shared() -> str | None:
            return next((mine[id(p)] for other in _alive for p in other._all if id(p) in mine), None)

        if shared() is not None:
            gc.collect()  # an unused one may be in a reference cycle
        if (name := shared()) is not None:
            raise RuntimeError(f"{name} already belongs to a different ZeroRedundancyOptimizer, which takes its gradients; delete that one first, or "
                               "make a new model")

    def _agree(self, optimizer_class: type[Fused], defaults: dict[str, Any], bucket_bytes: int) -> None:
        hyper = [{k: v for k, v in g.items() if k not in NOT_HYPER} for g in self.param_groups]
        scaler = defaults.get("scaler")
        self._comm.agree({
            "version": [__version__],
            "recipe": [optimizer_class.__name__, *getattr(optimizer_class, "formula", "").splitlines(), *(f"{k}={v}" for k, v in defaults.items() if k != "scaler"), *map(str, hyper),
                       f"exact={self._exact}", f"reduce_gradients={self._reduces}", f"bucket_bytes={bucket_bytes}",
                       f"scaler={scaler and scaler.state_dict()}"],
            "layout": [f"{name} {tuple(p.shape)} {p.stride()} {p.dtype}" for name, p in zip(self._names, self._all)]})

    def _check_rows(self) -> None:
        """Checks on all ranks alike that rows are whole if the step has per-row values."""
        inner, engine, at = self._inner, self._inner._bound(), 0
        for group in self.param_groups if self._world > 1 else ():
            own = range(at, at := at + len(group["params"]))
            for i in own:
                check_parameter(type(inner).__name__, self._all[i], self._names[i])
            with_rows = {i for i in own if has_rows(inner._recipe, engine.kind(group, self._all[i]))}
            for s in (s for bucket in self._buckets for rank in bucket.slices for s in rank if s.param in with_rows):
                p, name = self._all[s.param], self._names[s.param]
                row = columns_of(p) or p.numel()
                if s.offset % row or s.size % row:
                    why = "clip_factor= clips rows" if group.get("clip_factor") is not None else f"the formula of {type(inner).__name__} has values of rows"
                    raise ValueError(f"{why}, and a row of {name}, of {count_words(row, 'element')}, is divided between two ranks; give it a group with "
                                     "clip_factor=None if that is the reason, or use DistributedDataParallel")

    def _make_inner(self, optimizer_class: type[Fused], defaults: dict[str, Any]) -> None:
        """Makes the optimizer of this rank's share: one parameter per slice, and an empty one per dtype and group."""
        mine = {s.param: (bucket, s) for bucket in self._buckets for s in bucket.slices[self._me]}
        self._shard: dict[int, tuple[Tensor, Slice]] = {}  # by the parameter's index
        self._given: list[tuple[Tensor, Tensor]] = []
        groups, at, positions = [], 0, {}
        self._origins: list[list[int]] = []  # for each group inside, the indices of its parameters in the group outside
        for group in self.param_groups:
            slices, kinds = [], set()
            moments = group.get("moments", defaults.get("moments"))
            self._origins.append([])
            for i in range(at, at + len(group["params"])):
                dtype = self._all[i].dtype
                whole = Position(i, 0, self._all[i].numel(), columns_of(self._all[i]))
                kind = (dtype, stored.fits_rows(moments, whole))
                if i in mine:
                    bucket, s = mine[i]
                    part = torch.nn.Parameter(bucket.own_weights[s.begin:s.begin + s.size])
                    if self._reduces:
                        part.grad = bucket.own_gradients[s.begin:s.begin + s.size]
                    self._shard[i] = (part, s)
                    positions[id(part)] = whole._replace(offset=s.offset)
                    slices.append((f"{self._names[i]}[{s.offset}:{s.offset + s.size}]", part))
                elif kind not in kinds:  # all ranks must have the same kinds of step
                    part = torch.nn.Parameter(torch.empty(0, dtype=dtype, device=self._all[i].device))
                    part.grad = torch.empty_like(part)
                    positions[id(part)] = whole
                    slices.append((f"nothing of {self._names[i]}", part))
                if len(slices) > len(self._origins[-1]):
                    self._origins[-1].append(i - at)
                kinds.add(kind)
            at += len(group["params"])
            groups.append({**{k: v for k, v in group.items() if k not in NOT_HYPER}, "params": slices})
        self._inner = optimizer_class(groups, **defaults)
        self._inner._at_once = True
        if self._world > 1:
            self._inner.share_norm(self._comm.groups[0])
            self._inner._ranks = self._comm
        self._inner._shards = positions
        if self._world > 1:
            self._inner._pieces = Pieces(self) if self._exact else None
        self.defaults = self._inner.defaults
        for outer, inner in zip(self.param_groups, self._inner.param_groups):
            for key, value in inner.items():
                if key not in NOT_HYPER:
                    outer.setdefault(key, value)

    # --- forwarded to the optimizer inside

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the scaler's scale, to call backward() on."""
        return self._inner.scale(loss)

    @property
    def scaler(self) -> LossScaler | None:
        """The loss scaler given to the constructor."""
        return self._inner.scaler

    @property
    def last_step_skipped(self) -> Tensor | None:
        """The optimizer inside's value: the same on all ranks."""
        return self._inner.last_step_skipped

    def stats(self, wait: bool = True) -> dict[str, float] | None:
        """Returns reports of the newest finished step: the same on all ranks."""
        return self._inner.stats(wait)

    def layer_stats(self, wait: bool = True) -> dict[str, dict[str, float]] | None:
        """Returns the inner optimizer's reports by layer, of whole parameters. Call it on all ranks."""
        engine = self._inner._bound()
        layers.check(engine)
        mine = {id(part): i for i, (part, _) in self._shard.items()}
        rows: list[dict[str, float]] = [{} for _ in self._all]
        for part in engine.parts:
            for report in layers.reports_of(engine, part, wait) or ():
                if id(report.param) in mine:
                    rows[mine[id(report.param)]] = report.sums
        sums = layers.add_up(self._comm, rows, layers.SUMS) if self._world > 1 else rows
        wanted = [*(layers.NORMS if engine.mode.layer_norms else ()), *(layers.COUNTS if engine.mode.check_updates else ())]
        found = {name: layers.derive({key: row.get(key, 0.0) for key in wanted}) for name, row in zip(self._names, sums)}
        return found if engine.parts and engine.parts[0].step.stats(wait, engine.parts[0].stream()) is not None else None

    def set_scale(self, params: Tensor | str | Iterable[Tensor | str], **factors: float) -> None:
        """Does the same as for the optimizer inside. Call it on all ranks with the same arguments."""
        set_scales(self.param_groups, params, factors)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Swaps in the averages, as the optimizer inside does. Call it on all ranks: averages, and afterwards weights, are sent to each."""
        self._check_whole()
        self._take_writes()
        try:
            with self._inner.averaged():
                self._gather()
                try:
                    yield
                finally:
                    self.wait()
        finally:
            self._gather()

    @property
    def messages(self) -> int:
        """The number of collectives that this rank has taken part in."""
        return self._comm.messages

    # --- gradients

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Keeps the gradients of a backward() inside in `.grad`, and sends them with those of the next one outside."""
        paused, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = paused

    @torch.no_grad()
    def _take(self, bucket: Bucket, index: int, p: Tensor) -> None:
        """Adds a gradient to its bucket, divided by the number of ranks."""
        if bucket.taken[index]:
            raise RuntimeError(f"{self._names[bucket.indices[index]]} got a second gradient before step() or zero_grad(); "
                               "accumulate with no_sync() around each backward() but the last")
        torch.mul(p.grad, 1.0 / self._world, out=bucket.views[index])
        bucket.taken[index] = True
        p.grad = None

    def _send_full(self) -> None:
        """Sends full buckets, in one order on all ranks, and observes those that have arrived."""
        while self._next < len(self._buckets) and all(self._buckets[self._next].taken):
            bucket = self._buckets[self._next]
            bucket.sent = True
            what, group = f"the reduction of bucket {self._next}", self._comm.groups[0]
            if self._ordered:
                bucket.work = self._comm.begin(what, dist.all_to_all_single, bucket.received, bucket.gradients, group=group)
            elif self._world > 1:
                bucket.work = self._comm.begin(what, REDUCE_SCATTER, bucket.own_gradients, bucket.gradients, group=group)
            self._next += 1
        for bucket in self._buckets[:self._next]:
            if not bucket.done and (bucket.work is None or bucket.work.is_completed()):
                self._finish(bucket)

    @torch.no_grad()
    def _finish(self, bucket: Bucket) -> None:
        self._comm.wait(f"the reduction of bucket {self._buckets.index(bucket)}", bucket.work)
        if bucket.received is not None:
            shares = bucket.received.view(self._world, -1)
            bucket.own_gradients.copy_(shares[0])
            for share in shares[1:]:
                bucket.own_gradients.add_(share)
        bucket.done = True
        engine = self._inner._engine
        if engine is not None and engine.bound:
            for run in self._observable(engine)[self._buckets.index(bucket)]:
                engine.observe(*run)

    def _observable(self, engine: Any) -> list[list[tuple[int, int, int]]]:
        """Returns, per bucket, the runs of tensors (part, first, count) of its slices in the steps."""
        if self._runs is None or self._runs[0] is not engine.walk:
            runs = []
            for bucket in self._buckets:
                places = sorted(engine.places[id(self._shard[s.param][0])] for s in bucket.slices[self._me])
                joined: list[tuple[int, int, int]] = []
                for part, slot in places:
                    if joined and joined[-1][0] == part and sum(joined[-1][1:]) == slot:
                        joined[-1] = (part, joined[-1][1], joined[-1][2] + 1)
                    else:
                        joined.append((part, slot, 1))
                runs.append(joined)
            self._runs = (engine.walk, runs)
        return self._runs[1]

    def _collect(self) -> None:
        """Collects all gradients of this rank's share, summed, including those that no hook brought."""
        missing = []
        for bucket in self._buckets:
            for i, p in enumerate(bucket.params):
                if bucket.taken[i]:
                    continue
                if p.grad is not None:
                    self._take(bucket, i, p)
                elif self._allow_unused:
                    bucket.views[i].zero_()
                    bucket.taken[i] = True
                else:
                    missing.append(self._names[bucket.indices[i]])
        if missing:
            self._comm.raise_alarm("a step without all gradients")
            raise RankError(f"rank {self._comm.me}: step() found no gradient of {', '.join(missing[:3])}"
                            f"{' and others' * (len(missing) > 3)}; pass allow_unused=True, which takes zeros instead")
        self._send_full()
        for bucket in self._buckets:
            if not bucket.done:
                self._finish(bucket)

    def _collect_equal(self) -> None:
        """Collects this rank's share of `.grad` after DDP has reduced it."""
        for i, (part, s) in self._shard.items():
            p = self._all[i]
            if p.grad is None:
                part.grad = None
                continue
            grad = p.grad if p.grad.stride() == p.stride() else torch.empty_like(p).copy_(p.grad)
            part.grad = grad.detach().as_strided((p.numel(),), (1,))[s.offset:s.offset + s.size]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for i, bucket in enumerate(self._buckets):
            if bucket.work is not None and not bucket.done:
                self._comm.wait(f"the reduction of bucket {i}", bucket.work)
        self._start_over()
        super().zero_grad(set_to_none)

    def _start_over(self) -> None:
        self._next = 0
        for bucket in self._buckets:
            bucket.clear()

    # --- the step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Makes one step on all ranks, and returns the closure's result."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if hasattr(self, "grad_scale") and self._reduces:
            raise RuntimeError("ZeroRedundancyOptimizer was stepped by a GradScaler, which saw gradients that ranks have not added up; "
                               "pass scaler=stepfuse.torch.LossScaler() instead, and max_norm= for clipping")
        self._check_whole()
        self._take_writes()
        if self._reduces:
            self._collect()
        else:
            self._collect_equal()
        for outer, inner, origins in zip(self.param_groups, self._inner.param_groups, self._origins):
            inner.update((k, v) for k, v in outer.items() if k not in NOT_HYPER)
            inner.update((k, tuple(outer[k][i] for i in origins)) for k in SCALES.values() if k in outer)
        self._inner.step()
        self._gather()
        self._start_over()
        return loss

    def _take_writes(self) -> None:
        """Takes changes of the model's parameters since the last step, or new memory that they were given, into this rank's share."""
        for i in self._outside.written():
            p, home = self._all[i], self._homes[i]
            if (p.shape, p.dtype, p.device) != (home.shape, home.dtype, home.device):
                self._comm.raise_alarm("a parameter that differs from the one at construction")
                raise TypeError(f"ZeroRedundancyOptimizer: {self._names[i]} is {p.dtype} of shape {tuple(p.shape)} on {p.device}, but was "
                                f"{home.dtype} of shape {tuple(home.shape)} on {home.device} when the optimizer was made; make a new optimizer "
                                "after model.to() and the like")
            if p.data_ptr() != home.data_ptr() or p.stride() != home.stride():
                home.copy_(p.detach())
                p.data = home
            if i in self._shard:
                increment_versions([self._shard[i][0]])  # the optimizer inside notices the write by this
        self._outside.settle()

    def _check_whole(self) -> None:
        self.wait()
        if self._broken is not None:
            raise RankError(f"the weights were not all gathered after a step ({self._broken}), so this optimizer and its model can no longer be used; "
                            "make new ones, and load the last checkpoint")

    def _gather(self) -> None:
        """Sends the updated weights to all ranks, in the order in which forward needs them. A failure from here on leaves half
        a step."""
        increment_versions(self._all)
        self._outside.written()  # the step's own writes
        self._outside.settle()
        if self._world == 1:
            return
        with self._whole_or_broken():
            for bucket in reversed(self._buckets):
                bucket.gathering = self._comm.begin(GATHERING, ALL_GATHER, bucket.weights, bucket.own_weights,
                                                    group=self._comm.groups[0])
        if not self._overlaps:
            self.wait()
            return
        for bucket in self._buckets:
            late.expect(bucket.params, functools.partial(self._arrive, bucket))

    def wait(self) -> None:
        """Waits for all weights of the last step, for code that reads them without torch's Python functions."""
        for bucket in reversed(self._buckets):
            self._arrive(bucket)

    def _arrive(self, bucket: Bucket) -> None:
        if bucket.gathering is not None:
            with self._whole_or_broken():
                self._comm.wait(GATHERING, bucket.gathering)
            bucket.gathering = None
            late.welcome(bucket.params)

    @contextlib.contextmanager
    def _whole_or_broken(self) -> Iterator[None]:
        try:
            yield
        except RankError as error:
            self._broken = str(error)
            for bucket in self._buckets:
                bucket.gathering = None
                late.welcome(bucket.params)
            raise


def hook(owner: weakref.ref[ZeroRedundancyOptimizer], bucket: int, index: int) -> Callable[[Tensor], None]:
    """Returns the hook that takes a gradient when backward has made it. The model holds the hook, which does not keep the optimizer alive."""

    def take(p: Tensor) -> None:
        optimizer = owner()
        if optimizer is not None and not optimizer._paused:
            optimizer._take(optimizer._buckets[bucket], index, p)
            optimizer._send_full()

    return take
