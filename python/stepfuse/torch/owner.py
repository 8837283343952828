"""Protocols for what engines, checks and exchanges read of the optimizer above them, so that none of them imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from .ranks import Ranks
    from .tensors import Position


class Exchange(Protocol):
    """A way for ranks to exchange partial results of a step's first phase instead of sums."""

    observes: bool  # it uses the pieces that observe() leaves, instead of the gradients

    def check(self, who: str, p: Tensor, name: str) -> None: ...
    def exchange(self, engine: Any) -> list[dict[str, Tensor]]: ...


class Owner(Protocol):
    """An optimizer, as its engine sees it."""

    param_groups: list[dict[str, Any]]
    state: Any
    defaults: dict[str, Any]
    _recipe: str
    _couples: bool
    _counts: bool
    _counted: Callable[[Tensor], bool] | None
    _at_once: bool
    _shards: Mapping[int, Position]
    _pieces: Exchange | None
    _group: Any
    _loaded_weights: Mapping[int, tuple[int, int, int]]

    def _options(self, group: dict[str, Any]) -> list[str]: ...
    def _switches(self) -> set[str]: ...
    def _source(self, name: str) -> tuple[str, int]: ...
    def _check_group(self, group: dict[str, Any]) -> None: ...
    def _live_scales(self) -> dict[Tensor, Tensor]: ...
    def _live_packed(self) -> dict[Tensor, Any]: ...
    def _find_ordered(self, p: Tensor, group: dict[str, Any]) -> tuple[Any, Tensor, Tensor | None]: ...
    def _is_shard(self, p: Tensor) -> bool: ...
    def _find_ranks(self) -> Ranks | None: ...
    def _find_meshes(self) -> dict[Any, Ranks]: ...
    def _find_alike(self) -> Ranks | None: ...


class Sharded(Protocol):
    """An optimizer whose ranks have shares of the parameters, as the exchange of pieces sees it."""

    param_groups: list[dict[str, Any]]
    _all: list[Tensor]
    _buckets: list[Any]
    _world: int
    _comm: Ranks
