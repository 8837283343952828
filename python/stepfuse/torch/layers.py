"""Reports per parameter: of the whole parameter if ranks have shards, and of several parameters together. Knows a step's program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .binding import PER_TENSOR
from .programs import program
from .tensors import cuts_of, is_distributed

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


def own_reports(made: Any) -> list[str]:
    """Returns what a program reports per tensor without being told to, such as LAMB's trust_ratio."""
    return [name for name, (_, granularity, is_report, _) in made.states().items()
            if is_report and granularity == PER_TENSOR and not name.startswith(PREFIX)]


def reports_of(engine: Binding, part: Part, wait: bool) -> list[Report] | None:
    lists = part.step.lists(wait, part.stream())
    if lists is None:
        return None
    own = {name: lists[PREFIX + name] for name in SUMS if PREFIX + name in lists}
    others = {name: lists[name] for name in own_reports(program(engine.optimizer._recipe, part.options)) if name in lists}
    return [Report(p, name, {key: values[slot] ** 2 if key in NORMS else values[slot] for key, values in own.items()},
                   {key: values[slot] for key, values in others.items()})
            for slot, (p, name) in enumerate(zip(part.params, part.names))]


def read(engine: Binding, wait: bool) -> dict[str, dict[str, float]] | None:
    """Returns the newest finished step's reports by the parameter's name."""
    optimizer = engine.optimizer
    check(engine, program(optimizer._recipe, (*optimizer._options(optimizer.param_groups[0]), *engine.mode.options(False, True, False))))
    found: dict[str, dict[str, float]] = {}
    for part in engine.parts:
        reports = reports_of(engine, part, wait)
        if reports is None:
            return None
        ranks = ranks_of(engine, part) if engine.mode.reports_layers else None
        # Several ranks may hold the same elements, which count once.
        sums = [report.sums for report in reports] if ranks is None else add_up(
            ranks, [report.sums if counted else {} for report, counted in zip(reports, part.counted)], list(reports[0].sums))
        each = [(report.name, {**derive(mine), **(report.others if is_whole(report.param) else {})}) for report, mine in zip(reports, sums)]
        found.update((name, report) for name, report in each if report)
    return found


def check(engine: Binding, made: Any = None) -> None:
    """Refuses an optimizer whose steps report nothing per parameter. `made` is a program whose own reports count, too."""
    if not engine.mode.reports_layers and (made is None or not own_reports(made)):
        raise ValueError(f"layer_stats() of {type(engine.optimizer).__name__}: its steps report nothing per parameter; pass layer_norms=True or "
                         "check_updates=True to the constructor")


def is_whole(p: Tensor) -> bool:
    """Returns whether this rank has all of a parameter."""
    return not is_distributed(p) or not cuts_of(p)


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
