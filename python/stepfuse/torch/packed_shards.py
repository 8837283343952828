"""NVFP4 copies of DTensors (copy_scale="nvfp4"): each rank encodes its own rows, with the scale of the whole tensor.

That scale follows from the tensor's largest weight, which ranks exchange after the update. So such a copy is not made by the step's
kernel, but by a second one, which runs the library's conversion over all parameters of a group of ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import _core
from . import orders, packed, parts, private, stored
from .scaler import DLPACK
from .tensors import cut_dimension, local, matrix_shape, on_host

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .owner import Owner

FORM = "nvfp4_delayed"  # its state has the largest weight that the tensor's scale is for
PREFIX = f"to.{FORM}."


class PackedShards:
    """The copies of DTensors that the same ranks have in parts: on one device, and with one rule for the tensors' scales."""

    def __init__(self, way: str, params: Sequence[Tensor], names: Sequence[str], copies: Sequence[packed.Packed]) -> None:
        from .ranks import Ranks

        self.is_delayed = way == "nvfp4-delayed"
        self.params, self.names, self.copies = list(params), list(names), list(copies)
        self.ordered: list[tuple[Owner, Tensor, dict[str, Any]]] = []
        self.device = params[0].device
        self.ranks = Ranks([params[0].device_mesh.get_group(cut_dimension(params[0]))], self.device)
        # A rank without rows encodes zeros in their place, because it has the tensor's scale, too.
        self.sources = [mine if mine.numel() else torch.zeros(1, packed.BLOCK, device=self.device) for mine in (local(p).detach() for p in params)]
        targets = [(c.words, c.scales) if c.words.numel() else stored.zeros(packed.FORM, source).values() for c, source in zip(copies, self.sources)]
        program = stored.conversion("f32", FORM)
        layout = [(name, t.numel(), 0, False, 0, 0, t.numel(), matrix_shape(t)[1]) for name, t in zip(names, self.sources)]
        self.step = _core.Step(program, layout, *parts.core_device(self.device), None, False, parts.allocator(self.device))
        self.arrays = {"from": self.sources, **{PREFIX + name: arrays for name, arrays in zip(("weight", "weight_scale"), map(list, zip(*targets)))}}
        for name, arrays in self.arrays.items():
            self.step.bind(name, [a.data_ptr() for a in arrays])
        self.step.adopt_state()
        self.amax, self.scales = (self.numbers(name) for name in ("copy_amax", "copy_scale_inv"))
        self.look()

    def numbers(self, name: str) -> Tensor:
        """The step's values of a state, where it keeps them."""
        return torch.utils.dlpack.from_dlpack(self.step.numbers(PREFIX + name, DLPACK[self.device.type], self.device.index or 0))

    def look(self) -> None:
        """Finds the parameters that anything but a step has written to. The steps themselves count as writes before settle()."""
        self.written = [copy.is_written(p) for p, copy in zip(self.params, self.copies)]

    def measure(self, is_skipped: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the tensors' largest magnitudes, and whether any rank has skipped the step."""
        # Not a number counts as infinity, because reductions between ranks may lose it. Both give the scale 1.
        mine = torch.stack([*private.find_largest(self.sources), is_skipped.float()]).nan_to_num(nan=torch.inf, posinf=torch.inf)
        self.ranks.all_reduce("the all-reduce of largest weights", mine, largest=True)
        return mine[:-1], mine[-1] > 0

    def follow(self) -> None:
        """Makes the copies of written parameters again. All ranks have written to the same ones."""
        if not any(self.written):
            return
        largest, _ = self.measure(torch.zeros((), device=self.device))
        written = on_host(self.written, torch.bool).to(self.device)
        self.encode(torch.where(written, largest, self.used()), torch.where(written, largest, self.coming()))
        self.written = [False] * len(self.params)

    def publish(self, is_skipped: Tensor, has_gradients: Sequence[bool]) -> None:
        """After a step: makes the copies of the new parameters. A skipped step leaves them as they are."""
        largest, is_skipped = self.measure(is_skipped)
        if not self.is_delayed:
            self.encode(largest, largest)
            return
        is_stepped = ~is_skipped if all(has_gradients) else ~is_skipped & on_host(has_gradients, torch.bool).to(self.device)
        is_remembered = is_stepped & largest.isfinite() & (largest > 0)
        self.encode(torch.where(is_stepped, self.coming(), self.used()), torch.where(is_remembered, largest, self.coming()))

    def used(self) -> Tensor:
        return torch.stack([copy.used for copy in self.copies])

    def coming(self) -> Tensor:
        return torch.stack([copy.coming for copy in self.copies])

    def encode(self, used: Tensor, coming: Tensor) -> None:
        """Makes all copies again, for tensors with these largest magnitudes."""
        self.amax.copy_(used)
        self.step.run(None, 0, parts.current_stream(self.device))
        private.copy_all([t for c in self.copies for t in (c.used, c.coming, c.of_tensor)],
                         [t for each in zip(used, coming, self.scales) for t in each])
        private.increment_versions([t for c in self.copies for t in (c.words, c.scales)])
        for p, copy in zip(self.params, self.copies):
            copy.settle(p)
        for optimizer, p, group in self.ordered:
            optimizer._find_ordered(p, group)


def find(known: dict[Tensor, packed.Packed], p: Tensor, way: str) -> packed.Packed:
    """A parameter's copy, up to date. For a DTensor in parts all ranks call this after they have written to it."""
    mine = packed.find(known, p)
    if not packed.is_in_parts(p):
        mine.follow(p)
    elif mine.is_written(p):
        PackedShards(way, [p], ["parameter"], [mine]).follow()
    return mine


def collect(optimizer: Owner, places: Sequence[tuple[Tensor, str, int, int]]) -> list[PackedShards]:
    """Returns the copies of an optimizer's DTensors in parts, of those that are in a part of the step."""
    group_of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    alike: dict[tuple[Any, ...], list[tuple[Tensor, str]]] = {}
    for p, name, part, _ in places:
        way = packed.scale_mode(group_of[id(p)], p)
        if part >= 0 and way is not None and packed.is_in_parts(p):
            alike.setdefault((way, p.device, p.device_mesh.get_group(cut_dimension(p))), []).append((p, name))
    made = []
    for (way, *_), found in alike.items():
        params, names = zip(*found)
        shards = PackedShards(way, params, names, [packed.find(optimizer._live_packed(), p) for p in params])
        shards.ordered = [(optimizer, p, group_of[id(p)]) for p in params if orders.options_of(group_of[id(p)], p, way)]
        made.append(shards)
    return made
