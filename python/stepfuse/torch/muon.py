"""Muon: a step before and a step after torch's matrix products, which make the matrices orthogonal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .arguments import check_choice, check_integer, check_number, refuse
from .checks import DTYPES
from .binding import PLAIN
from .engine import Engine
from .fused import Fused
from .orthogonal import Iteration
from .tensors import gradient_dtype
from .versions import base

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT
    from typing_extensions import Unpack

    from .options import OptimizerOptions


SETTINGS = ("ns_coefficients", "ns_steps", "eps", "adjust_lr_fn")  # of a group, for the matrix products
ADJUSTMENTS = ("original", "match_rms_adamw")


class MomentumEngine(Engine):
    """Runs the half before the matrix products. It has no weights, and so none of their options."""

    writes_weights = False

    def shared_options(self, group: dict[str, Any]) -> list[str]:
        return []

    def kind(self, group: dict[str, Any], p: Tensor) -> tuple[str, ...]:
        if self.optimizer._is_shard(p):
            raise TypeError(f"{type(self.optimizer).__name__} makes whole matrices orthogonal, and this rank has only a part of one: "
                            "use DDP, with which every rank has all of it")
        options = (f"grad={DTYPES[gradient_dtype(p)]}", *self.optimizer._options(group))
        return (*options, *self.moments(group, p, options))


    def choices(self) -> list[tuple[Any, ...]]:
        return [(*made, *(group[name] for name in SETTINGS)) for made, group in zip(super().choices(), self.optimizer.param_groups)]


class UpdateEngine(Engine):
    """The second half, whose gradients are the orthogonal matrices. It keeps no moments."""

    def moments(self, group: dict[str, Any], p: Tensor, options: tuple[str, ...]) -> list[str]:
        return []


class Update(Fused):
    """An optimizer's second half: over the same groups and state."""

    _recipe = "muon_update"
    _counts = False
    _engine_type = UpdateEngine

    def __init__(self, whole: Muon) -> None:
        self.whole = whole

    param_groups = property(lambda self: self.whole.param_groups)
    state = property(lambda self: self.whole.state)
    defaults = property(lambda self: self.whole.defaults)
    _scales = property(lambda self: self.whole._live_scales())

    def _check_group(self, group: dict[str, Any]) -> None:
        """The first half has checked it."""

    def _options(self, group: dict[str, Any]) -> list[str]:
        options = ["profile=torch-foreach"] + ["check"] * self.whole._may_skip
        return options + ["with=match_rms_adamw"] * (group["adjust_lr_fn"] == "match_rms_adamw")

    def _switches(self) -> set[str]:
        return {"adjust_lr_fn"}


class Muon(Fused, base("Muon", "2.9")):
    """torch.optim.Muon with one kernel before and one kernel after the matrix products, which are torch's.

    The first unscales, clips and updates the momentum; the second applies weight decay and updates the weights. A skipped
    step has no update: the second half finds NaN in it and leaves the weights alone. Options: OptimizerOptions.
    """

    _recipe = "muon_momentum"
    _counts = False
    _engine_type = MomentumEngine
    _may_skip = False
    _update: Update | None = None

    def __init__(self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
                 **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, weight_decay, momentum, nesterov, ns_coefficients, eps, ns_steps, adjust_lr_fn, **options)

    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        if group.get("capturable"):
            refuse("capturable", True, "Muon has matrix products between its two launches, which no graph was tried with; leave it out")
        check_integer("ns_steps", group["ns_steps"], "a number of Newton-Schulz steps", 0, 100)
        check_number("eps", group["eps"], "the least norm of a matrix")
        check_choice("adjust_lr_fn", group["adjust_lr_fn"], ADJUSTMENTS)
        for p in group["params"]:
            if p.ndim != 2:
                raise ValueError(f"Muon takes matrices; a parameter has shape {tuple(p.shape)}: give it to an optimizer of its own, such as AdamW")

    def _options(self, group: dict[str, Any]) -> list[str]:
        return ["profile=torch-foreach"] + ["nesterov"] * bool(group["nesterov"])

    def _switches(self) -> set[str]:
        return {"nesterov"}

    def step(self, closure: Callable[[], Any] | None = None, *, norm: float | Tensor | None = None) -> Any:
        self._may_skip = (self._own_mode if self._deferred is None else self._deferred.mode(self._own_mode)).may_skip
        result = super().step(closure, norm=norm)
        with torch.no_grad():
            self._step_along(self._orthogonal())
        return result

    def _orthogonal(self) -> list[tuple[Tensor, Tensor]]:
        """Returns the parameters that have a gradient, and their update matrices."""
        found = []
        for part in self._engine.parts:
            for p, update, g in zip(part.params, part.outputs["update"], part.group_of):
                if p.grad is not None:
                    group = part.groups[g]
                    iteration = Iteration(tuple(group["ns_coefficients"]), group["ns_steps"], group["eps"])
                    made = iteration(update[None])[0] if update.numel() else update
                    found.append((p, torch.empty_like(p, dtype=p.grad.dtype).copy_(made)))
        return found

    def _step_along(self, directions: list[tuple[Tensor, Tensor]]) -> None:
        gradients = [p.grad for p, _ in directions]
        try:
            for p, direction in directions:
                p.grad = direction
            own = self._own_mode
            self._second()._bound().run(PLAIN._replace(layer_norms=own.layer_norms, check_updates=own.check_updates), {})
        finally:
            for (p, _), gradient in zip(directions, gradients):
                p.grad = gradient

    def layer_stats(self, wait: bool = True) -> dict[str, dict[str, float]] | None:
        """The first half reports norms of gradients, and the second half everything else."""
        gradients = super().layer_stats(wait)
        if gradients is None or self._update is None:
            return None
        updates = self._update.layer_stats(wait) or {}
        return {name: {**updates.get(name, {}), **mine} for name, mine in gradients.items()}

    def _with_weights(self) -> Update:
        return self._second()

    def _second(self) -> Update:
        if self._update is None:
            self._update = Update(self)
        return self._update

    def _make_state(self) -> None:
        super()._make_state()
        self._second()._make_state()

    def _pull(self) -> None:
        super()._pull()
        if self._update is not None:
            self._update._pull()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._update = None
