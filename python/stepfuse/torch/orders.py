"""Copies of weights in other orders (orientation=, scale_layout=): transposes, and scales as matrix products of few bits take them.

The step fills these arrays from a copy's codes and scales. Nothing of them is state: they are made again from the codes and scales
if anything but a step has changed these. Here values are only moved; the library has computed them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .arguments import COPY_BLOCK, COPY_SCALES, IN_SQUARES, ROW_BLOCKS
from .tensors import cuts_between_squares, cuts_of, is_distributed, local, rows_are_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from .parts import Part

CODES_T, SCALES_T = "weight_t", "weight_scale_t"
SWIZZLED, SWIZZLED_T = "weight_scale_swizzled", "weight_scale_t_swizzled"
BUFFERS = frozenset((CODES_T, SCALES_T, SWIZZLED, SWIZZLED_T))


class Quantized(NamedTuple):
    """The arrays of a copy. A weight is its code times its scale, and times the tensor's scale if there is one."""

    codes: Tensor  # of 4 bits: bytes with two of them, the first in the lower half
    scales: Tensor
    tensor_scale: Tensor | None


def transposed_codes(codes: Tensor) -> Tensor:
    """Transposes a matrix of bytes with two codes of 4 bits each, the first in the lower half."""
    halves = torch.stack((codes & 15, codes >> 4), -1).flatten(-2).t()
    return halves[:, ::2] | halves[:, 1::2] << 4


def swizzled(scales: Tensor) -> Tensor:
    """Returns a matrix of bytes in tiles of 128 rows by 4 columns, one after the other, filled up with zeros."""
    rows, columns = -(-scales.shape[0] // 128), -(-scales.shape[1] // 4)
    padded = scales.new_zeros(rows * 128, columns * 4)
    padded[:scales.shape[0], :scales.shape[1]] = scales
    return padded.view(rows, 4, 32, columns, 4).permute(0, 3, 2, 1, 4).reshape(-1)


def options_of(group: dict[str, Any], p: Tensor, mode: str | None) -> list[str]:
    """Returns the program's options for the orders of a parameter's copies, which are in `mode`. Only matrices have other orders."""
    asked = [f"{name.replace('_', '-')}={group[name]}" for name, usual in (("orientation", "rowwise"), ("scale_layout", "rows"))
             if group.get(name) not in (None, usual)]
    if not asked or mode is None or p.ndim != 2:
        return []
    name = asked[0].partition("=")[0].replace("-", "_")
    if is_distributed(p):
        check_shards(name, p, mode)
    if not local(p).is_contiguous():
        raise TypeError(f"{name}= is for matrices that are stored row by row, and one of shape {tuple(p.shape)} has strides {p.stride()}; make it "
                        "contiguous, or leave it out of the group")
    return asked


def check_shards(name: str, p: Tensor, mode: str) -> None:
    """Refuses a DTensor whose shards have no copies of their own, on all ranks alike."""
    block = ROW_BLOCKS.get(mode, COPY_BLOCK)
    if COPY_SCALES[mode] not in ("blocks", "fours") or not rows_are_blocks(p, block) or any(not placement.is_shard(0) for _, placement in cuts_of(p)):
        raise TypeError(f"{name}= is for copies whose shards have scales of their own, and one of shape {tuple(p.shape)} is a DTensor with "
                        f"copy_scale={mode!r}; use 'mxfp8', with rows that are multiples of {COPY_BLOCK}, or leave it out of the group")
    if mode in IN_SQUARES and (p.shape[0] % block or not cuts_between_squares(p, block)):
        ranks = max((p.device_mesh.size(d) for d, _ in cuts_of(p)), default=1)
        unit = block * ranks
        raise ValueError(f"{name}= of a DTensor needs a multiple of {block} rows on each rank, and one of shape {tuple(p.shape)} is cut over "
                         f"{ranks} ranks; give it {-(-p.shape[0] // unit) * unit} rows, or any multiple of {unit}, or leave it out of the group")


def check_gathered(who: str, name: str, group: dict[str, Any], p: Tensor, mode: str | None) -> None:
    """Refuses orders for a DTensor that one rank has whole while it steps."""
    if options_of(group, p, mode):
        raise TypeError(f"{who}: {name} is a DTensor that one rank steps as a whole, and orientation= and scale_layout= are for shards; leave "
                        "them out of its group, or leave out exact=True if that is the reason")


def check(group: dict[str, Any]) -> None:
    """Refuses orders that a group's copies cannot have."""
    mode = group.get("copy_scale")
    for name, usual in (("orientation", "rowwise"), ("scale_layout", "rows")):
        if group.get(name) not in (None, usual) and mode is None:
            raise ValueError(f"{name}={group[name]!r} needs copies of weights; give the group copy_scale=, too")
    if group.get("orientation") == "both" and COPY_SCALES.get(mode) == "blocks" and mode not in IN_SQUARES:
        raise ValueError(f"orientation='both' needs scales that the transpose has, too, and copy_scale={mode!r} has scales along rows; use 'mxfp8'")
    if group.get("scale_layout") == "swizzled" and COPY_SCALES.get(mode) not in (None, "blocks", "fours"):
        raise ValueError("scale_layout='swizzled' needs scales of blocks; use copy_scale='mx', 'mxfp8' or 'nvfp4'")


class Ordered:
    """The arrays of one parameter, which are always the same tensors, and what they were made from."""

    def __init__(self, codes: Tensor, scales: Tensor | None, transposed: bool, swizzles: bool) -> None:
        self.transposed, self.swizzles = transposed, swizzles
        self.arrays = {name: torch.empty_like(array) for name, array in self.make(codes, scales).items()}
        self.seen: tuple[int, ...] = ()

    def make(self, codes: Tensor, scales: Tensor | None) -> dict[str, Tensor]:
        """The arrays of a copy: codes of 8 bits, or bytes with two of 4 bits; scales that blocks of a row, or squares, share."""
        made: dict[str, Tensor] = {}
        is_four = codes.dtype == torch.uint8
        bits = codes if is_four else codes.view(torch.uint8)
        rows, columns = codes.shape[0], codes.shape[1] * (2 if is_four else 1)
        if self.transposed:
            made[CODES_T] = (transposed_codes(bits) if is_four else bits.t()).contiguous().view(codes.dtype)
        if scales is None or scales.ndim != 2:
            return made
        of_blocks = scales.element_size() == 1
        plain = scales.view(torch.uint8) if of_blocks else scales
        turned = plain
        if self.transposed and of_blocks:  # each square of the matrix has one scale
            side = columns // plain.shape[1]
            turned = plain[::side].t().repeat_interleave(side, 0)
        elif self.transposed:
            turned = plain.t()
        if self.transposed and not self.swizzles:
            made[SCALES_T] = turned.contiguous().view(scales.dtype)
        if self.swizzles:
            made[SWIZZLED] = swizzled(plain).view(scales.dtype)
            if self.transposed:
                made[SWIZZLED_T] = swizzled(turned).view(scales.dtype)
        return made

    def follow(self, codes: Tensor, scales: Tensor | None) -> None:
        """Makes the arrays again if codes or scales have changed since."""
        now = versions(codes, scales)
        if self.seen == now:
            return
        for name, array in self.make(codes, scales).items():
            self.arrays[name].view(torch.uint8).copy_(array.view(torch.uint8))
        self.seen = now

    def choose(self, plain: Quantized, transposed: bool) -> Quantized | None:
        """Returns codes and scales in the orders that were asked for; None if there is no transpose."""
        if transposed and not self.transposed:
            return None
        scales = self.arrays.get((SWIZZLED_T if self.swizzles else SCALES_T) if transposed else SWIZZLED, plain.scales)
        return plain._replace(codes=self.arrays[CODES_T] if transposed else plain.codes, scales=scales)

    def settle(self, codes: Tensor, scales: Tensor | None) -> None:
        """After a step, which has filled the arrays."""
        self.seen = versions(codes, scales)


def publish(part: Part) -> None:
    """After a step, which has filled the arrays of its parameters' copies."""
    for ordered, codes, scales in part.ordered:
        ordered.settle(codes, scales)


def versions(codes: Tensor, scales: Tensor | None) -> tuple[int, ...]:
    return tuple(number for t in (codes, scales) if t is not None for number in (t._version, t.data_ptr()))


def find(known: dict[Tensor, Ordered], p: Tensor, group: dict[str, Any], codes: Tensor, scales: Tensor | None) -> Ordered:
    """A parameter's arrays, up to date."""
    mine, wanted = known.get(p), (group.get("orientation") == "both", group.get("scale_layout") == "swizzled")
    fits: Callable[[Ordered], bool] = lambda o: (o.transposed, o.swizzles) == wanted and all(
        o.arrays[name].shape == array.shape and o.arrays[name].device == array.device and o.arrays[name].dtype == array.dtype
        for name, array in o.make(codes, scales).items())
    if mine is None or mine.seen != versions(codes, scales) and not fits(mine) or (mine.transposed, mine.swizzles) != wanted:
        mine = known[p] = Ordered(codes, scales, *wanted)
    mine.follow(codes, scales)
    return mine
