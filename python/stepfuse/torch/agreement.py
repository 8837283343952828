"""Lists what ranks that step together must have in common, as lines of text. The engine's steps must be bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import __version__
from .programs import program

if TYPE_CHECKING:
    from .binding import Binding


def facts(engine: Binding, step: int) -> dict[str, list[str]]:
    optimizer, mode, scaler = engine.optimizer, engine.mode, engine.mode.scaler
    found = {"version": [__version__],
             "optimizer": [type(optimizer).__name__, f"norm {mode.norm}", f"external_norm {mode.external_norm}",
                           f"{'no ' if scaler is None else ''}loss scaler", f"deferred {mode.deferred}"],
             "step count": [str(step)],
             "loss scale": ["none" if scaler is None else str(scaler.get_scale())]}
    if optimizer._group is None:  # ranks have the same parameters
        found["layout"] = [f"{name} {tuple(p.shape)} {p.dtype} {getattr(p, 'placements', '')}" for p, name, *_ in engine.order]
    if optimizer._group is None or optimizer._shards:  # or parts of the same ones
        found["program"] = [line for part in engine.parts for line in common_program(optimizer._recipe, part.options)]
        found["program"] += [f"copy of {name}: nvfp4{'-delayed' * shards.is_delayed}" for shards in engine.packed_shards for name in shards.names]
        found["number"] = numbers(engine)
    return found


def common_program(recipe: str, options: tuple[str, ...]) -> list[str]:
    """Returns the program without flags of single tensors: if several ranks hold a tensor, it counts on only one of them."""
    return program(recipe, tuple(option for option in options if option != "tensor-flags")).text().splitlines()


def numbers(engine: Binding) -> list[str]:
    """Returns the numbers that steps take from the groups. Factors of single parameters are left out if ranks have shares."""
    groups, said = engine.optimizer.param_groups, []
    for part in engine.parts:
        for _, _, where, key, place in part.numbers:
            value = groups[where][key]
            said.append(f"{key} of group {where}{'' if place < 0 else f' at {place}'} = {float(value if place < 0 else value[place])!r}")
        said += [f"seed {part.key.seed}"] if part.key.seed is not None else []
        if not engine.optimizer._shards:
            said += [f"{key} of a group = {group[key]}" for _, key in part.scales for group in part.groups]
    return list(dict.fromkeys(said))
