"""NVFP4 copies of f32 parameters (copy_scale="nvfp4"): the arrays that steps write, for 4-bit matrix products.

The parameter is its own master. Its copy is not state. It is made again from the parameter if anything but a step has written to
that, and the step then continues with the new copy's scale: a step that is skipped leaves both as they are. If ranks have parts of
a DTensor, packed_shards.py makes its copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import stored
from .arguments import COPY_BLOCK, COPY_SCALES
from .numbers import to_bits
from .orders import Quantized
from .scaler import DLPACK
from .tensors import cuts_of, is_distributed, local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .parts import Part

BLOCK = 16  # elements of a row that share a scale, and rows of such elements
FORM = "nvfp4"
NEVER = (-1, -1, 0)


class Packed:
    """The codes and scales of a parameter, or of this rank's part of it: always the same tensors."""

    def __init__(self, p: Tensor) -> None:
        mine = local(p)
        self.words = torch.zeros(mine.numel() // 8, dtype=torch.int32, device=p.device)
        self.scales = torch.zeros(mine.numel() // BLOCK, dtype=torch.float8_e4m3fn, device=p.device)
        self.of_tensor = torch.ones((), dtype=torch.float32, device=p.device)
        # For a part of a DTensor: the largest weight that its scale is for, and that the next delayed scale is for.
        self.used, self.coming = torch.zeros_like(self.of_tensor), torch.zeros_like(self.of_tensor)
        self.seen = NEVER  # versions and address of the parameter that this is a copy of
        self.source: Tensor | None = None  # keeps that memory, so that `p.data = …` has a different address

    def is_written(self, p: Tensor) -> bool:
        """Returns whether anything but a step has written to the parameter, or moved it, since the copy was made."""
        return self.seen != version_of(p)

    def forget(self) -> None:
        """Marks the copy as outdated."""
        self.seen, self.source = NEVER, None

    def settle(self, p: Tensor) -> None:
        """Marks the copy as that of the parameter as it is now."""
        before, self.seen = self.seen, version_of(p)
        if self.seen[-1] != before[-1]:
            self.source = local(p).detach()

    def follow(self, p: Tensor) -> None:
        """Makes the copy again if the parameter has changed since it was made."""
        if not self.is_written(p):
            return
        made, states = stored.encode(local(p).detach(), FORM)
        self.words.copy_(made[f".{FORM}.weight"])
        self.scales.copy_(made[f".{FORM}.weight_scale"])
        self.of_tensor.fill_(states["copy_scale_inv"])
        self.settle(p)

    def arrays(self, p: Tensor) -> Quantized:
        rows = local(p).shape[:-1]
        return Quantized(self.words.view(torch.uint8).view(*rows, p.shape[-1] // 2), self.scales.view(*rows, p.shape[-1] // BLOCK),
                         self.of_tensor)


def version_of(p: Tensor) -> tuple[int, int, int]:
    mine = local(p)
    return p._version, mine._version, mine.data_ptr()


def is_in_parts(p: Tensor) -> bool:
    """Returns whether several ranks have parts of a parameter."""
    return is_distributed(p) and bool(cuts_of(p))


def scale_mode(group: dict[str, Any], p: Tensor) -> str | None:
    """Returns how a parameter of that group is copied in 4 bits: only matrices are, and vectors are stepped without a copy."""
    mode = group.get("copy_scale")
    is_copied = mode is not None and COPY_SCALES.get(mode) == "fours" and p.dtype == torch.float32 and p.ndim > 1 and p.numel() > 0
    return mode if is_copied else None


def step_mode(group: dict[str, Any], p: Tensor) -> str | None:
    """Returns how the step that updates a parameter copies it in 4 bits. Parts of DTensors are copied after it."""
    return None if is_in_parts(p) else scale_mode(group, p)


def find(known: dict[Tensor, Packed], p: Tensor) -> Packed:
    """A parameter's copy, which may be out of date."""
    mine = known.get(p)
    if mine is None or mine.words.device != p.device or mine.words.numel() * 8 != local(p).numel():
        mine = known[p] = Packed(p)
    return mine


def bind(part: Part, copies: list[Packed]) -> None:
    """Gives a step what the copies have; where it writes the tensors' scales, stored.publish_scales() takes them."""
    part.packed = copies
    for p, copy in zip(part.params, copies):
        copy.follow(p)
    give_scales(part, range(len(copies)))
    part.shown = [c.of_tensor for c in copies]
    part.written = list(torch.utils.dlpack.from_dlpack(
        part.step.numbers("copy_scale_inv", DLPACK[part.device.type], part.device.index or 0)).unbind())


def give_scales(part: Part, slots: Sequence[int]) -> None:
    """Gives a step the scales of some of its copies, and the largest magnitudes of the parameters that they were made from."""
    numbers = {"copy_scale_inv": [part.packed[slot].of_tensor for slot in slots]}
    if "copy_amax" in part.states:
        numbers["copy_amax"] = [local(part.params[slot]).detach().abs().max().nan_to_num(0, 0, 0) for slot in slots]
    for name, values in numbers.items():
        kept = part.step.read_state(name)
        for slot, value in zip(slots, torch.stack(values).tolist()):
            kept[slot] = to_bits(value, "f32")
        part.step.write_state(name, kept)


def take_writes(part: Part, params: set[int]) -> None:
    """Makes the copies again of those of a part's parameters, by their ids, that the program wrote to."""
    slots = [slot for slot, p in enumerate(part.params) if id(p) in params] if part.packed else []
    for slot in slots:
        part.packed[slot].follow(part.params[slot])
    if slots:
        give_scales(part, slots)


def publish(part: Part) -> None:
    """After a step, which has made the copies from the new parameters, or was skipped."""
    for p, copy in zip(part.params, part.packed):
        copy.settle(p)


def to_torchao(arrays: Quantized, dtype: torch.dtype, swizzled: bool) -> Any:
    """torchao's tensor over the same memory."""
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor
    from torchao.quantization.quantize_.common.kernel_preference import KernelPreference

    if arrays.tensor_scale is not None:
        return NVFP4Tensor(arrays.codes, arrays.scales, BLOCK, dtype, arrays.tensor_scale, is_swizzled_scales=swizzled)
    return MXTensor(arrays.codes, arrays.scales, arrays.codes.dtype, COPY_BLOCK, dtype, KernelPreference.EMULATED, None, swizzled)
