"""A part is what one step updates: the parameters of one device, dtype and kind of group. A mode is its work in addition to the update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .arguments import check_factors
from .tensors import local, on_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .tensors import Position


CPU, CUDA = 0, 2  # stepfuse.h's numbers


def on_cuda(device: torch.device) -> bool:
    """Returns whether the step of such tensors runs on CUDA. The tests' driver shares the host's memory and accepts CPU tensors."""
    return device.type == "cuda"


def core_device(device: torch.device) -> tuple[int, int, int]:
    """Returns where a step of such tensors runs, as _core.Step takes it: kind, ordinal, threads."""
    cuda = on_cuda(device)
    return CUDA if cuda else CPU, device.index or 0, 0 if cuda else torch.get_num_threads()


def allocator(device: torch.device) -> tuple[Callable[[int, int], int], Callable[[int], None]] | None:
    """Returns the allocator of a step's own memory. On a GPU that is torch's caching allocator, which counts and reuses memory."""
    if device.type != "cuda":
        return None
    return (lambda size, stream: torch.cuda.caching_allocator_alloc(size, device, stream),
            torch.cuda.caching_allocator_delete)


def current_stream(device: torch.device) -> int:
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0


def is_capturing(device: torch.device) -> bool:
    """Returns whether the current stream is being captured into a CUDA graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


class Mode(NamedTuple):
    """A step's work in addition to the update."""

    norm: str | None = None  # the norm by which it clips
    external_norm: bool = False
    scaler: Any = None  # it unscales by this scaler's scale, and skips if that found inf
    deferred: bool = False  # torch's calls left the work to it: the norm was read before, and a GradScaler adapts the scale
    nonfinite: str | None = None  # "skip" or "report" steps with gradients that are not finite; None: a scaler decides
    skips_norm: bool = False  # it measures the norm, and skips steps with a norm above argument skip_norm
    clip: str | None = None  # "zclip" or "adagc": clips by past norms
    monitor: bool = False  # it reports the first parameter that is not finite, and counts skipped steps
    layer_norms: bool = False  # it reports norms of each parameter
    check_updates: bool = False  # it counts each parameter's updates that rounded to nothing

    def options(self, shared: bool, last: bool, flags: bool) -> list[str]:
        """Returns the options. A norm and a verdict that are `shared`, by parts or ranks, are added up between the launches."""
        options = []
        if self.norm is not None:
            options.append(f"clip={self.clip or self.norm}")
        if self.external_norm:
            options.append("external-norm")
        if self.scaler is not None:
            options.append("loss-scale=fixed" if self.deferred or not last else f"loss-scale={self.scaler.policy}")
        if self.nonfinite is not None:
            options += ["check", *["on-nonfinite=propagate"] * (self.nonfinite == "report")]
        flags_of = {"skip-norm": self.skips_norm, "monitor": self.monitor, "layer-norms": self.layer_norms, "check-updates": self.check_updates}
        options += [name for name, wanted in flags_of.items() if wanted]
        if flags and self.reads_ahead:
            options.append("tensor-flags")
        if self.deferred or shared and self.reads_ahead:
            options.append("all-reduce")
        if self.deferred:  # as torch's clip function does
            options.append("on-norm-overflow=torch")
        return options

    def sums(self) -> tuple[str, ...]:
        """Returns the names of such a step's reductions over the gradients, without a formula's own."""
        measures, checks = self.norm is not None or self.skips_norm, self.scaler is not None or self.nonfinite is not None
        return (("sum", "norm") if measures else ()) + (("nonfinite_sum", "found_inf") if measures or checks else ())

    @property
    def reports_layers(self) -> bool:
        return self.layer_norms or self.check_updates

    @property
    def may_skip(self) -> bool:
        return self.scaler is not None or self.nonfinite == "skip" or self.skips_norm

    @property
    def reads_ahead(self) -> bool:
        """Whether a first phase reads all gradients before any weight changes."""
        return self.norm is not None or self.may_skip

    @property
    def keeps_state(self) -> bool:
        """Whether such a step changes more than parameters and their state: a scale, averages of norms, counts."""
        return self.scaler is not None or self.clip is not None or self.monitor


class Key(NamedTuple):
    """Parameters that agree in this are one part."""

    kind: tuple[str, ...]  # options of the program
    device: torch.device
    seed: int | None  # a step has one
    mesh: Any = None  # of DTensors, where there are several
    copies: str | None = None  # how the parameters are copied in 4 bits after the step, because ranks have parts of them


class Part:
    """The parameters of one device, dtype and kind of group: one step."""

    def __init__(self, kind: tuple[str, ...], device: torch.device, seed: int | None, mesh: Any, copies: str | None) -> None:
        self.key = Key(kind, device, seed, mesh, copies)
        self.kind = kind
        self.options = kind  # and the mode's
        self.device = device
        self.streams = device.type == "cuda"
        self.is_capturable = False  # its runs read arguments from the device
        self.params: list[Tensor] = []
        self.locals: list[Tensor] = []  # what of them is on this rank
        self.gathered: list[bool] = []  # whole on one rank while the step runs
        self.counted: list[bool] = []  # not a duplicate of one on another rank
        self.names: list[str] = []
        self.positions: list[Position] = []
        self.groups: list[dict[str, Any]] = []
        self.group_of: list[int] = []
        self.copies: list[tuple[Tensor, Tensor]] = []  # a parameter with gaps, and its dense copy
        self.counts: Tensor | None = None  # f32, `step` in torch's state
        self.kept: dict[str, Tensor] = {}  # per-parameter values of the step other than arrays
        self.shown_numbers: dict[str, list[Tensor]] = {}  # their parts, and those of the counts, in the parameters' state
        self.outputs: dict[str, list[Tensor]] = {}  # arrays that the step writes and that are not kept
        self.packed: list[Any] = []  # the parameters' copies in 4 bits (packed.Packed)
        self.ordered: list[tuple[Any, Tensor, Tensor | None]] = []  # copies in other orders (orders.Ordered), of these codes and scales
        self.shown: list[Tensor] = []  # the parameters' copy_scale_inv, and where the step writes them
        self.written: list[Tensor] = []
        self.args: list[tuple[int, str]] = []  # arguments that no group has
        self.numbers: list[tuple[int, int, int, str, int]] = []  # arguments that groups have, as the walk takes them
        self.scales: list[tuple[int, str]] = []  # arguments with a value per parameter, and the groups' key
        self.index_in_group: list[int] = []
        self.scaled: dict[str, list[tuple[float, ...]]] = {}  # the values that were set last
        self.last: dict[int, float] = {}
        self.states: dict[str, tuple[str, int, int]] = {}
        self.step: Any = None
        self.sums: dict[str, Tensor] = {}  # sums over the gradients, where the step writes them
        self.pieces: dict[str, Tensor] = {}  # pieces that are folded to the sums
        self.early: set[int] = set()  # tensors that were observed before the step

    def add(self, p: Tensor, name: str, group: dict[str, Any], counted: bool, position: Position, index_in_group: int,
            whole: Tensor | None = None) -> int:
        """`whole` is what stands for the parameter on this rank if one rank has all of it."""
        self.index_in_group.append(index_in_group)
        self.locals.append(local(p) if whole is None else whole)
        self.gathered.append(whole is not None)
        self.counted.append(counted)
        self.positions.append(position)
        if not self.groups or self.groups[-1] is not group:
            self.groups.append(group)
        self.params.append(p)
        self.names.append(name)
        self.group_of.append(len(self.groups) - 1)
        return len(self.params) - 1

    def publish(self, state: dict[Tensor, dict[str, Any]], name: str, each: Iterable[Tensor], per_line: bool = False) -> None:
        """Puts each parameter's values of a step's state into its own state. `per_line` means per row or column; the owner has those of a
        gathered parameter."""
        self.shown_numbers[name] = list(each)
        for p, mine, is_gathered in zip(self.params, self.shown_numbers[name], self.gathered):
            if not (per_line and is_gathered and mine.numel() == 0):
                state[p][name] = mine

    def set_values(self, name: str, kept: Tensor, values: list[float]) -> None:
        """Sets a step's values, even if the state's views of them have been moved to other memory."""
        kept.copy_(on_host(values, kept.dtype))
        at = 0
        for mine in self.shown_numbers.get(name, ()):
            there = kept[at:at + mine.numel()]
            if mine.data_ptr() != there.data_ptr():
                mine.copy_(there.view(mine.shape))
            at += mine.numel()

    def stream(self) -> int:
        return current_stream(self.device) if self.streams else 0

    @property
    def counts_on_host(self) -> bool:
        return self.counts is not None and not on_cuda(self.device)

    def set(self, arg: int, value: float) -> None:
        if self.last.get(arg) != value:
            self.step.set(arg, -1, value)
            self.last[arg] = value

    def set_scales(self) -> None:
        for arg, key in self.scales:
            now = [group[key] for group in self.groups]
            if now == self.scaled.get(key):
                continue
            for group in self.groups:
                check_factors(key, group[key], len(group["params"]))
            for slot, (g, index) in enumerate(zip(self.group_of, self.index_in_group)):
                self.step.set(arg, slot, now[g][index])
            self.scaled[key] = now
