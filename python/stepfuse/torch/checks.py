"""Refuses parameters and gradients that no step can take, and names the parameter."""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .. import _core
from . import orders
from .arguments import COPY_BLOCK, COPY_SCALES, IN_SQUARES, ROW_BLOCKS, check_choice, choice_for_any_shape, count_words
from .groups import names_of
from .programs import program
from .tensors import (
    cut_dimension, cuts_between_squares, cuts_of, cuts_within_blocks, gradient_dtype, has_memory, has_whole_rows, is_distributed, lies_by_rows, local,
    matrix_shape, overlaps_itself, rows_are_blocks, span_bytes, type_name,
)

if TYPE_CHECKING:
    from typing import Any

    from .owner import Owner
    from .parts import Mode, Part

DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
          torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}
SQUARES = f"{COPY_BLOCK}x{COPY_BLOCK}"  # those that shards may have on their own
TAKEN = ", ".join(str(t).removeprefix("torch.") for t in DTYPES)
PLAIN = (Tensor, torch.nn.Parameter)
LAYER_SUMS = r"layer_\w+_sum"  # these are reported, and layers.py adds them up over ranks


def check_parameter(who: str, p: Tensor, name: str) -> None:
    if is_distributed(p):
        if any(placement.is_partial() for placement in p.placements):
            raise TypeError(f"{who} takes DTensors that are sharded or replicated; {name} has placements {p.placements}")
        p = local(p)
    if type(p) not in PLAIN:
        raise TypeError(f"{who} takes plain tensors, DTensors and torch.nn.Parameter; {name} is a {type_name(p)}")
    if p.layout != torch.strided:
        raise TypeError(f"{who} does not take sparse parameters; {name} is one")
    if p.dtype not in DTYPES:
        raise TypeError(f"{who} takes parameters in {TAKEN}; {name} is {p.dtype}; convert it to float32, or give it to a separate optimizer "
                        "of torch.optim")
    if (gradient := gradient_dtype(p)) not in DTYPES:
        raise TypeError(f"{who} takes gradients in {TAKEN}; the gradient of {name} is {gradient}; cast it, or set the parameter's grad_dtype")
    if p.device.type not in ("cpu", "cuda"):
        raise TypeError(f"{who} takes parameters on the CPU and on CUDA devices; {name} is on {p.device}")
    if overlaps_itself(p):
        raise RuntimeError(f"{who}: elements of {name} share memory (strides {p.stride()}); clone() it")
    check_memory(who, p, name)


def check_memory(who: str, t: Tensor, name: str) -> None:
    if not has_memory(t):
        raise RuntimeError(f"{who}: {name} has {count_words(t.numel(), 'element')}, but a storage of only "
                           f"{count_words(t.untyped_storage().nbytes(), 'byte')}; restore its memory (untyped_storage().resize_()) before the step")


def check_moments(who: str, p: Tensor, name: str, kind: tuple[str, ...], elements: int, block: int) -> None:
    """Refuses formats for a DTensor whose mesh cuts its rows anywhere but between blocks of that size."""
    kept = [option for option in kind if option.startswith("moments=") and option[len("moments="):] not in DTYPES.values()]
    exempt = any(elements < int(option[len("moments-below="):]) for option in kind if option.startswith("moments-below="))
    if not kept or exempt or not is_distributed(p):
        return
    if not local(p).is_contiguous():
        raise TypeError(f"{who}: {kept[0]} counts blocks along rows, but the shard of {name} is not stored row by row (strides "
                        f"{local(p).stride()}); make it contiguous, or give it its own group with moments='bf16'")
    if not rows_are_blocks(p, block) or cuts_within_blocks(p, block):
        raise TypeError(f"{who}: {kept[0]} has blocks of {block} elements along rows, and {name}, of shape {tuple(p.shape)}, has placements "
                        f"{p.placements}, which cut them; give it its own group with moments='bf16'")


def check_copies(who: str, groups: list[dict[str, Any]]) -> None:
    """Checks options for copies with a scale (copy_scale=), if there are any."""
    for group in groups:
        orders.check(group)
    scaled = [(index, group) for index, group in enumerate(groups) if group.get("copy_scale") is not None]
    for index, group in scaled:
        check_choice("copy_scale", group["copy_scale"], COPY_SCALES)
        if group.get("weight_rounding") or group.get("master") not in (None, "f32"):
            raise ValueError("copy_scale= needs f32 masters; leave out weight_rounding= and master=")
        for p, name in zip(group["params"], names_of(group, index)):
            check_copy(who, p, name, group)
    eights = [group for _, group in scaled if COPY_SCALES[group["copy_scale"]] != "fours"]
    if eights and not any(p.dtype.itemsize == 1 for group in eights for p in group["params"]):
        raise ValueError(f"{who}: copy_scale= needs 8-bit parameters, and there are none; convert those that should have f32 masters to "
                         "torch.float8_e4m3fn or torch.float8_e5m2, or leave out copy_scale=")


def check_copy(who: str, p: Tensor, name: str, group: dict[str, Any]) -> None:
    way = group.get("copy_scale")
    if way is None:
        return
    check_choice("copy_scale", way, COPY_SCALES)
    in_fours = COPY_SCALES[way] == "fours"
    if p.ndim < 2 if in_fours else p.dtype == torch.float32:  # stepped without a copy; an f32 parameter is its own master
        return
    if in_fours and (p.dtype != torch.float32 or not p.is_contiguous()):
        raise TypeError(f"{who}: copy_scale={way!r} copies f32 matrices without gaps, but {name} is {p.dtype} with strides {p.stride()}; "
                        "give it its own group with copy_scale=None, or convert it")
    if not in_fours and p.dtype.itemsize != 1:
        raise TypeError(f"{who}: copy_scale= needs 8-bit parameters, but {name} is {p.dtype}; give it its own group with "
                        "copy_scale=None, or convert it to torch.float8_e4m3fn or torch.float8_e5m2")
    kept = {choice.rpartition("=")[2] for choice in re.split("[|,]", str(group.get("moments") or ""))} - {"", *DTYPES.values()}
    if kept and way in IN_SQUARES:
        raise ValueError(f"{who}: copy_scale={way!r} counts blocks from the start of each row, but moments={group['moments']!r} from the first "
                         f"element; give {name} its own group with moments='bf16' or copy_scale={choice_for_any_shape(way)!r}")
    if way in ROW_BLOCKS:
        check_rows(who, p, name, way)
    elif is_distributed(p):
        check_shards(who, p, name, way)


def check_rows(who: str, p: Tensor, name: str, way: str) -> None:
    """Refuses rows, the last dimension in memory, that have less than whole blocks."""
    if is_distributed(p) and (cuts_of(p) and cut_dimension(p) is None or not local(p).is_contiguous()):
        raise TypeError(f"{who}: copy_scale={way!r} takes DTensors that one mesh dimension cuts between rows; {name}, of shape {tuple(p.shape)}, has "
                        f"placements {p.placements}; redistribute it, or use copy_scale=None")
    if is_distributed(p) and COPY_SCALES[way] == "fours" and not cuts_between_squares(p, ROW_BLOCKS[way]):
        ranks, step = p.device_mesh.size(cut_dimension(p)), ROW_BLOCKS[way] // math.gcd(ROW_BLOCKS[way], p.shape[1:-1].numel())
        unit = step * ranks
        raise ValueError(f"{who}: copy_scale={way!r} needs a multiple of {step} rows on each rank, and {name}, of shape {tuple(p.shape)}, is cut over "
                         f"{ranks} ranks; give it {-(-p.shape[0] // unit) * unit} rows, or any multiple of {unit}, or its own group with "
                         "copy_scale=None")
    row = matrix_shape(p)[1]
    if p.ndim > 1 and p.numel() > row and row % ROW_BLOCKS[way]:
        raise ValueError(f"{who}: copy_scale={way!r} has a scale per {ROW_BLOCKS[way]} elements of a row, and {name}, of shape {tuple(p.shape)}, has "
                         f"rows of {row}; give it its own group with copy_scale={choice_for_any_shape(way)!r}")


def check_shards(who: str, p: Tensor, name: str, way: str) -> None:
    """Refuses a mesh that cuts a scaled copy within rows, unless it cuts between blocks with their own scales."""
    in_blocks = COPY_SCALES[way] == "blocks" and rows_are_blocks(p, COPY_BLOCK)
    if not local(p).is_contiguous():
        raise TypeError(f"{who}: copy_scale={way!r} takes shards that are stored row by row; the shard of {name} has strides {local(p).stride()}; "
                        "make it contiguous, or use copy_scale=None")
    if cuts_within_blocks(p, COPY_BLOCK) if in_blocks else cuts_of(p) and cut_dimension(p) is None:
        raise TypeError(f"{who}: copy_scale={way!r} takes DTensors that one mesh dimension cuts between rows; {name}, of shape {tuple(p.shape)}, has "
                        f"placements {p.placements}; redistribute it, or use copy_scale=None")


def check_together(parts: list[Part], mode: Mode) -> None:
    devices = sorted({str(part.device) for part in parts})
    if len(devices) > 1:
        raise _core.Error("clipping and loss scale are part of the step only if all parameters are on one device; these are on "
                          f"{' and '.join(devices)}. Use torch's GradScaler and torch.nn.utils.clip_grad_norm_ around this "
                          "optimizer instead")
    if mode.norm is not None and any("clip=agc" in part.kind for part in parts):
        raise ValueError("clip_factor= clips the gradients already; leave out clip_grad_norm_")
    if mode.deferred and mode.scaler is not None and any("grad=f16" in part.kind for part in parts):
        raise ValueError("Attempting to unscale FP16 gradients.")  # torch's words


def reductions(step: str) -> list[tuple[str, str]]:
    """Returns the names of a step's reductions with their types; <f32> is one value per tensor."""
    return re.findall(r"%(\S+) = reduce_\w+ %\S+ : (\S+)", step)


def own_reductions(step: str, exchanged: tuple[str, ...]) -> list[tuple[str, str]]:
    """Returns the reductions whose results ranks do not add up."""
    # A formula may call a value as the pipeline calls its norm.
    formula = set(re.findall(r"%(\S+) = reduce_\w+ ", step.partition("\n  stage optimizer\n")[2]))
    return [(name, of) for name, of in reductions(step) if (name not in exchanged or name in formula) and not re.fullmatch(LAYER_SUMS, name)]


@functools.lru_cache(maxsize=256)
def needs_whole(recipe: str, options: tuple[str, ...], exchanged: tuple[str, ...], has_rows: bool) -> bool:
    """Whether a step reduces over more of a parameter than blocks and squares, and rows if shards have whole ones, but not over several
    parameters. Shards of parameters with squares have whole ones (cuts_between_squares)."""
    own = [of for _, of in own_reductions(program(recipe, options).text(), exchanged)]
    part = rf"<\w+/(\d+|{SQUARES}{'|row' if has_rows else ''})>"
    return all(of.startswith("<") for of in own) and any(not re.fullmatch(part, of) for of in own)


def check_whole(optimizer: Owner, part: Part, step: str, exchanged: tuple[str, ...], on_ranks: bool) -> None:
    """Refuses reductions that ranks do not exchange, if this rank has only a part of what they reduce. Those over blocks are fine."""
    found = reductions(step)
    in_rows = rf"\d+|{SQUARES}" if re.search(r"state @\S+ : <\w+/row>", step) else rf"\d+|{SQUARES}|row"  # such states would be parts of longer ones
    if "row" in in_rows and any(of == "<f32/row>" for _, of in found):
        for p, name, position, is_gathered in zip(part.params, part.names, part.positions, part.gathered):
            if not is_gathered and not has_whole_rows(p, position):
                raise _core.Error(f"{type(optimizer).__name__}: rows of {name} are divided between ranks, and the step reduces over rows; give "
                                  "it its own group (with clip_factor=None), or use DDP")
    for p, name in zip(part.locals if "/row>" in step else (), part.names):
        if not lies_by_rows(p):
            raise _core.Error(f"{type(optimizer).__name__}: {name} is stored column by column (strides {p.stride()}), and the step has values of rows; "
                              "make it contiguous(), or give it its own group (with clip_factor=None)")
    own = [name for name, of in own_reductions(step, exchanged) if not re.fullmatch(rf"<\w+/({in_rows})>", of)]
    if not own:
        return
    who = f"clip='adagc' of {type(optimizer).__name__} takes a norm" if own == ["own_sum"] else f"the formula of {type(optimizer).__name__} reduces '{own[0]}'"
    for p, name, is_gathered in zip(part.params, part.names, part.gathered):
        if not is_gathered and optimizer._is_shard(p):
            raise _core.Error(f"{who} over a whole parameter, and this rank has only a part of it ({name}); use an "
                              "elementwise formula, or DDP")
    if on_ranks and optimizer._couples:
        raise _core.Error(f"{who} over all parameters, and other ranks have some of them; use a formula without that, or DDP")


def check_disjoint(who: str, parts: list[Part]) -> None:
    spans = [(p.data_ptr(), span_bytes(p), name, p) for part in parts for p, name in zip(part.locals, part.names) if p.numel()]
    spans.sort(key=lambda span: span[:3])
    clusters: list[list[tuple[int, int, str, Tensor]]] = []  # each span overlaps another one of its cluster
    end = 0
    for begin, size, *rest in spans:
        if begin >= end:
            clusters.append([])
        clusters[-1].append((begin, size, *rest))
        end = max(end, begin + size)
    for cluster in clusters:
        if len(cluster) > 1 and (shared := find_shared(cluster)) is not None:
            raise RuntimeError(f"{who}: {shared[0]} and {shared[1]} share memory")


def find_shared(spans: list[tuple[int, int, str, Tensor]]) -> tuple[str, str] | None:
    """Returns the names of two tensors with a common element. Those of a[:, :4] and a[:, 4:] differ, although the spans overlap."""
    begin = spans[0][0]
    unit = functools.reduce(math.gcd, (n for first, _, _, p in spans for n in (first - begin, p.element_size())))
    taken = torch.zeros(max(first + size - begin for first, size, *_ in spans) // unit, dtype=torch.bool, device="cpu")
    views: list[tuple[str, Tensor]] = []
    for first, _, name, p in spans:
        each = p.element_size() // unit
        view = taken.as_strided((*p.shape, each), (*(n * each for n in p.stride()), 1), (first - begin) // unit)
        if view.any():
            taken.zero_()
            view.fill_(True)
            return next(other for other, earlier in views if earlier.any()), name
        views.append((name, view.fill_(True)))
    return None
