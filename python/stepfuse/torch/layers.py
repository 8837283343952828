"""Reports per parameter: of the whole parameter if ranks have shards, and of several parameters together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .tensors import is_distributed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .binding import Binding
    from .parts import Part
    from .ranks import Ranks

PREFIX = "layer_"
NORMS = ("grad_norm", "weight_norm", "update_norm")
COUNTS = ("updates", "lost_updates")
SUMS = (*NORMS, *COUNTS)  # norms as squares


class Report(NamedTuple):
    """The newest finished step's report of a parameter's elements on this rank."""

    param: Tensor
    name: str
    sums: dict[str, float]  # squares of norms, and counts, which add up over ranks
    others: dict[str, float]  # what the formula reports, which does not add up over ranks


def reports_of(part: Part, wait: bool) -> list[Report] | None:
    lists = part.step.lists(wait, part.stream())
    if lists is None:
        return None
    own = {name: lists[PREFIX + name] for name in SUMS if PREFIX + name in lists}
    others = {name: values for name, values in lists.items() if not name.startswith(PREFIX) and len(values) == len(part.params)}
    return [Report(p, name, {key: values[slot] ** 2 if key in NORMS else values[slot] for key, values in own.items()},
                   {key: values[slot] for key, values in others.items()})
            for slot, (p, name) in enumerate(zip(part.params, part.names))]


def read(engine: Binding, wait: bool) -> dict[str, dict[str, float]] | None:
    """Returns the newest finished step's reports by the parameter's name."""
    check(engine)
    found: dict[str, dict[str, float]] = {}
    for part in engine.parts:
        reports = reports_of(part, wait)
        if reports is None:
            return None
        ranks = ranks_of(engine, part)
        # Several ranks may hold the same elements, which count once.
        sums = [report.sums for report in reports] if ranks is None else add_up(
            ranks, [report.sums if counted else {} for report, counted in zip(reports, part.counted)], list(reports[0].sums))
        found.update((report.name, {**derive(mine), **(report.others if ranks is None else {})}) for report, mine in zip(reports, sums))
    return found


def check(engine: Binding) -> None:
    if not engine.mode.reports_layers:
        raise ValueError(f"layer_stats() of {type(engine.optimizer).__name__}: nothing is reported by layer; pass layer_norms=True or check_updates=True "
                         "to the constructor")


def add_up(ranks: Ranks, rows: list[dict[str, float]], names: list[str]) -> list[dict[str, float]]:
    """Adds up rows of sums over all ranks. Each rank has rows of the same parameters."""
    words = torch.tensor([[row.get(name, 0.0) for name in names] for row in rows], dtype=torch.float64, device=ranks.device)
    ranks.all_reduce("the sum of reports by layer", words)
    return [dict(zip(names, row)) for row in words.tolist()]


def ranks_of(engine: Binding, part: Part) -> Ranks | None:
    """Returns the ranks that have the shards of a part's parameters."""
    mesh = next((p.device_mesh for p in part.params if is_distributed(p)), None)
    if mesh is None:
        return None
    return engine.meshes.get(mesh) or engine.ranks or engine.optimizer._find_ranks()


def derive(sums: dict[str, float]) -> dict[str, Any]:
    """Returns norms and shares, from squares and counts."""
    found = {name: math.sqrt(value) if name in NORMS else value for name, value in sums.items()}
    if found.get("weight_norm"):
        found["update_ratio"] = found["update_norm"] / found["weight_norm"]
    if "lost_updates" in found:
        found["lost_updates"] = found["lost_updates"] / found["updates"] if found["updates"] else 0.0
    return found


def join(reports: Iterable[dict[str, float]]) -> dict[str, float]:
    """Returns one report of several parameters."""
    sums: dict[str, float] = {}
    for report in reports:
        for name in SUMS:
            if name in report:
                value = report[name] ** 2 if name in NORMS else report[name] * (report["updates"] if name == "lost_updates" else 1)
                sums[name] = sums.get(name, 0.0) + value
    return derive(sums)
