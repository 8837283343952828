"""Runs the compiled steps of an optimizer's parameters and state.

Everything is bound lazily: at the first step, and whenever the walk reports that something other than gradients has changed.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import _core
from . import orders, packed, parts, stored
from .agreement import facts
from .binding import Binding
from .checks import check_memory
from .private import increment_versions
from .tensors import gradient_dtype, is_distributed, local, on_host, same_layout, type_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .owner import Owner
    from .parts import Mode, Part
    from .ranks import Ranks


def combine(sums: list[dict[str, Tensor]], largest: bool) -> dict[str, Tensor]:
    """Combines the results of several parts' steps as if they were one step."""
    totals = {name: torch.stack([of_part[name] for of_part in sums]) for name in (sums[0] if sums else ())}
    return {name: t[0] if len(t) == 1 else t.amax() if largest else t.sum() for name, t in totals.items()}


class Engine(Binding):
    def __init__(self, optimizer: Owner) -> None:
        super().__init__(optimizer)
        self.kept: dict[int, Tensor] = {}  # copies of gradients with a different layout, while a step may read them
        self.pid = os.getpid()
        self.captured: dict[int, int] = {}  # addresses at which a captured step reads the gradients, by their index in the walk
        self.values: Mapping[str, float] = {}  # the newest step's arguments that groups do not have

    # --- a step

    def measure(self, mode: Mode) -> None:
        """Runs the part of a deferred step that only reads gradients."""
        self.scan(mode, {})
        if self.to_compare is not None:
            self.agree()
        self.push_args(self.values)
        self.reduce()

    def run(self, mode: Mode, values: Mapping[str, float], measured: bool = False) -> None:
        """Runs a step. `values` are arguments that groups do not have, if they differ from the program's defaults.

        `measured` says that the last measure() was of these gradients. Without it, results that no step has used are measured again.
        """
        measured = measured and self.measured and mode == self.mode
        for shards in self.packed_shards:
            shards.look()
        self.scan(mode, self.kept if measured else {}, increment_versions if self.writes_weights else None)
        if self.to_compare is not None:
            self.agree()
        for shards in self.packed_shards:
            if shards.is_delayed:  # its next scale follows from what was written
                shards.follow()
        self.push_args(values)
        if not (measured and self.measured) and self.mode.reads_ahead and (  # the scan may have bound again
                self.measured or self.ranks is not None or len(self.parts) > 1 and self.parts[0].sums):
            self.reduce()
        for index, part in enumerate(self.parts):
            for p, copy in part.copies:
                copy.copy_(p)
            part.step.run(self.walk, index, part.stream())
            stored.publish_scales(part)
            for p, copy in part.copies:
                p.data.copy_(copy)  # `data`: autograd already knows of the step's write
            packed.publish(part)
            orders.publish(part)
            part.early.clear()
        if self.gathered.wholes:
            self.gathered.scatter()
        if self.packed_shards:
            self.copy_shards(values)
        if self.ranks is not None:
            self.ranks.step += 1
        self.measured = False
        self.kept = {}  # the CPU's kernels have read them by now; a GPU's allocator knows the stream

    def copy_shards(self, values: Mapping[str, float]) -> None:
        """Makes the copies in 4 bits of DTensors that ranks have in parts."""
        has_gradient = {id(p): p.grad is not None for p, *_ in self.order}
        reasons = [reason.ne(0) for reason in self.skip_reasons(values.get("skip_norm", math.inf))]
        for shards in self.packed_shards:
            is_skipped = torch.zeros((), dtype=torch.bool, device=shards.device)
            for reason in reasons:
                is_skipped = is_skipped | reason.to(shards.device)
            shards.publish(is_skipped, [has_gradient[id(p)] for p in shards.params])

    def scan(self, mode: Mode, kept: dict[int, Tensor], touch: Callable[[list[Tensor]], None] | None = None) -> None:
        """Finds the gradients, and binds again if anything else has changed. `touch` is called with the tensors that will be stepped."""
        if self.pid != os.getpid():
            raise _core.Error("this optimizer made steps before the process was forked, and its threads are still in the parent process; "
                              "make a new optimizer in the child, or start the child with 'spawn'")
        groups = self.optimizer.param_groups
        unusual = None
        if self.bound and self.mode == mode:
            unusual = self.walk.scan(groups, self.optimizer.state, self.choices, touch)
        if self.is_capturing():
            self.check_capture(unusual is not None)
        if unusual is None or any(gradient_dtype(p) != dtype for p, _, _, dtype in map(self.order.__getitem__, unusual)):
            self.mode = mode
            self.bind()
            kept = {}
            unusual = self.walk.scan(groups, self.optimizer.state, self.choices, touch)
            if unusual is None:
                raise _core.Error("the parameters changed while they were bound; does a different thread step them, too?")
        if self.walk.was_written():
            self.take_all_writes([self.order[i][0] for i in self.walk.written()])
            self.walk.settle()
        self.kept = {i: self.dense_gradient(i, kept.get(i)) for i in unusual} if unusual else {}
        if self.gathered.wholes:
            self.gathered.gather(self.walk, [dtype for _, _, _, dtype in self.order])

    def push_args(self, values: Mapping[str, float]) -> None:
        """Gives the steps their arguments. Steps that may be captured read them from the device."""
        self.values = values
        capturing = self.is_capturing()
        if capturing:
            self.captured = self.find_gradients()
        for part in self.parts:
            if part.args:
                self.set_args(part, values)
            if part.scales:
                part.set_scales()
            if part.is_capturable and not capturing:
                part.step.push(part.stream())

    def is_capturing(self) -> bool:
        for group in self.optimizer.param_groups:
            if group["params"]:
                return parts.is_capturing(group["params"][0].device)
        return False

    def check_capture(self, is_bound: bool) -> None:
        who = type(self.optimizer).__name__
        if not any(group.get("capturable") for group in self.optimizer.param_groups):
            raise RuntimeError(f"{who}: a captured step needs capturable=True; pass it to the constructor")
        if not is_bound:
            raise RuntimeError(f"{who}: make a step like this one before the capture, and change no parameter, state or option in between")
        if self.ranks is not None or self.gathered.wholes or self.packed_shards:
            raise RuntimeError(f"{who}: a step that exchanges numbers with other ranks cannot be captured; step outside of the graph")

    def find_gradients(self) -> dict[int, int | None]:
        """Returns the addresses of the gradients that the steps read in place; None stands for no gradient."""
        return {i: None if p.grad is None else local(p.grad).data_ptr() for i, (p, *_) in enumerate(self.order) if i not in self.kept}

    def prepare_replay(self, values: Mapping[str, float]) -> None:
        """Copies the groups' current numbers to where the captured step reads them, and checks its gradients."""
        who = type(self.optimizer).__name__
        if not self.captured:
            raise RuntimeError(f"{who}: there is no captured step; call step() within torch.cuda.graph() first")
        now = self.find_gradients()
        for i, (_, name, *_) in enumerate(self.order):
            if i in self.captured and now.get(i) != self.captured[i]:
                what = "is missing" if now.get(i) is None else "is new" if self.captured[i] is None else "has moved"
                raise RuntimeError(f"{who}: the gradient of {name} {what}, and the graph reads what it was captured with; keep gradients in "
                                   "place (zero_grad(set_to_none=False), or backward() in the same graph), or capture again")
        if self.walk.scan(self.optimizer.param_groups, self.optimizer.state, self.choices, None) is None:
            raise RuntimeError(f"{who}: parameters, state or options differ from those of the captured step; capture again")
        self.push_args(values)

    def agree(self) -> None:
        """Compares ranks once, before the first step: ranks that differ would wait for each other, or their models would diverge."""
        ranks, self.to_compare = self.to_compare, None
        self.compared = True
        # A rank without a share has counted no step itself, so the loaded count wins.
        ranks.step = max([ranks.step, *(int(part.counts.max()) for part in self.parts if part.counts is not None)])
        ranks.agree(facts(self, ranks.step))

    def reduce(self) -> None:
        """Runs the first phase, and adds up its results over all parts and ranks."""
        pieces = self.optimizer._pieces if self.ranks is not None else None
        exchanged: list[dict[str, Tensor]] = []
        if pieces is not None and pieces.observes:  # pieces are available from observe() of all tensors until reduce()
            for index, part in enumerate(self.parts):
                if self.measured or len(part.early) < len(part.params):
                    self.observe(index, 0, len(part.params))
            exchanged = pieces.exchange(self)
        for index, part in enumerate(self.parts):
            part.step.reduce(self.walk, index, part.stream(), self.measured and not exchanged)
        if pieces is not None and not pieces.observes:
            exchanged = pieces.exchange(self)
        for part, totals in zip(self.parts, exchanged):
            for name, total in totals.items():
                part.sums[name].copy_(total)
        self.measured = True
        if self.ranks is None and len(self.parts) == 1:
            return
        largest = self.mode.norm == "inf"
        totals = combine([part.sums for part in self.parts], largest)
        if self.ranks is not None and pieces is None:
            each = []
            for mesh in self.meshes or (None,):
                mine = combine([part.sums for part in self.parts if part.key.mesh == mesh], largest)
                ranks = self.meshes.get(mesh, self.ranks)
                words = torch.stack([*mine.values(), *(torch.zeros(2 - len(mine), dtype=torch.float32, device=ranks.device))])
                ranks.all_reduce("the all-reduce of the norm", words, largest)
                each += [dict(zip(mine, words))] if mine else []
            totals = combine(each, largest)
        for part in self.parts:
            for name, total in totals.items():
                part.sums[name].copy_(total)

    def ranks_of(self, part: Part) -> Ranks:
        """Returns the ranks that share the norm of a part's parameters."""
        return self.meshes.get(part.key.mesh, self.ranks)

    def observe(self, index: int, first: int, count: int) -> None:
        """Runs the first phase for some tensors of a part, whose gradients are where they were in the last step."""
        part = self.parts[index]
        if part.sums and self.ranks is not None:
            part.step.observe(self.walk, index, first, count, part.stream())
            part.early.update(range(first, first + count))

    def norm(self) -> Tensor:
        """Returns the norm of the measured gradients, on their device."""
        if not self.parts:
            return on_host(0.0)
        if self.mode.norm in ("l2", None):
            total = self.parts[0].sums["sum"]
            if total.is_cuda:
                return total.sqrt()
            norm = total.clone()
            _core.take_root(norm.data_ptr())  # torch's root is off by one ulp on the CPU
            return norm
        return self.parts[0].sums["norm"].clamp(min=0.0)

    def found_inf(self) -> Tensor | None:
        """Returns a tensor that is not 0 if the newest step found inf or NaN; None if it did not check, or there was no gradient."""
        if self.walk is None or not self.walk.any():
            return None
        sums = self.parts[0].sums
        return sums.get("nonfinite_sum", sums.get("found_inf"))

    def skip_reasons(self, skip_norm: float) -> list[Tensor]:
        """Returns tensors that are not 0 for the reasons to skip the newest step; empty if no step can be skipped."""
        found = self.found_inf() if self.mode.may_skip else None
        if found is None:
            return []
        return [found, self.norm() > skip_norm] if self.mode.skips_norm else [found]

    def set_args(self, part: Part, values: Mapping[str, float]) -> None:
        factors = {} if self.mode.scaler is None else self.mode.scaler._factors
        for arg, name in part.args:
            value = values.get(name, factors.get(name))
            if value is not None:
                part.set(arg, float(value))

    def dense_gradient(self, index: int, copy: Tensor | None) -> Tensor:
        """Returns a copy of a gradient in its parameter's layout; raises if the gradient cannot be used."""
        p, name, like, dtype = self.order[index]
        grad = p.grad
        who = type(self.optimizer).__name__
        if is_distributed(p) and is_distributed(grad):
            if grad.placements != p.placements:
                raise RuntimeError(f"{who}: {name} has placements {p.placements}, but its gradient has {grad.placements}; "
                                   "redistribute() the gradient before the step")
            grad = local(grad)
            if grad.dtype != dtype:
                raise TypeError(f"{who}: the gradient of {name} is {dtype}, but its local tensor is {grad.dtype}; make a new DTensor of it")
            self.check_gradient(grad, local(p) if id(p) in self.gathered.by_id else like, name)
            if id(p) in self.gathered.by_id:
                return grad  # gather() copies it
            if same_layout(grad, like):
                self.walk.set(index, grad.data_ptr())
                return grad
        if type(grad) not in (Tensor, torch.nn.Parameter):
            raise TypeError(f"{who} takes plain tensors; the gradient of {name} is a {type_name(grad)}")
        if grad.layout != torch.strided:
            raise RuntimeError(f"{who} does not support sparse gradients; the gradient of {name} is sparse; use torch.optim.SparseAdam "
                               "for it, or sparse=False in its embedding")
        self.check_gradient(grad, like, name)
        if copy is None:
            copy = torch.empty_like(like, dtype=grad.dtype)
        copy.copy_(grad)
        self.walk.set(index, copy.data_ptr())
        return copy

    def check_gradient(self, grad: Tensor, like: Tensor, name: str) -> None:
        who = type(self.optimizer).__name__
        if grad.shape != like.shape:
            raise RuntimeError(f"{who}: the gradient of {name} has shape {tuple(grad.shape)}, but the parameter has {tuple(like.shape)}; was one of them "
                               "given different memory through `.data`? Call backward() again")
        if grad.device != like.device:
            raise RuntimeError(f"{who}: the gradient of {name} is on {grad.device}, but the parameter is on {like.device}; move one of them")
        check_memory(who, grad, f"the gradient of {name}")

    def stats(self, wait: bool) -> dict[str, Any] | None:
        if not self.parts:
            return None
        found = [part.step.stats(wait, part.stream()) for part in (self.parts if self.mode.monitor else self.parts[-1:])]
        if found[-1] is not None and self.mode.monitor:
            found[-1]["found_inf"] = max((report or {}).get("found_inf", 0.0) for report in found)
            found[-1]["first_nonfinite"] = self.find_first_nonfinite(found)
        return found[-1]

    def history(self, seen: tuple[int, int]) -> tuple[tuple[int, int], list[dict[str, float]]]:
        """Reports of the finished steps since `seen`, which is (0, 0) at first, and what to pass the next time. Does not wait."""
        if not self.parts:
            return seen, []
        found = self.parts[-1].step.history(seen[1] if seen[0] == self.number else 0)
        return (self.number, found[-1][0] + 1) if found else seen, [reports for _, reports in found]

    def find_first_nonfinite(self, reports: list[dict[str, float] | None]) -> str | None:
        """Returns the name of this rank's first parameter, in the order of the groups, whose gradient was not finite."""
        slots = [int((report or {}).get("first_nonfinite", -1)) for report in reports]
        first = [part.params[slot] for part, slot in zip(self.parts, slots) if 0 <= slot < len(part.params)]
        return next((name for p, name, *_ in self.order if any(p is other for other in first)), None)
