"""Muon: a step before and a step after the matrices are made orthogonal, by torch's matrix products or by the user's function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .arguments import check_choice, check_integer, check_number
from .checks import DTYPES
from .binding import PLAIN
from .engine import Engine
from .fused import Fused
from .orthogonal import Iteration, Orthogonalize, orthogonalize
from .orthogonal import Update as Matrix
from .programs import program
from .tensors import gradient_dtype, is_distributed, like_parameter, local
from .versions import base

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT
    from typing_extensions import Unpack

    from .options import OptimizerOptions
    from .parts import Part
    from .ranks import Ranks


SETTINGS = ("ns_coefficients", "ns_steps", "eps", "adjust_lr_fn")  # of a group, for the matrix products
ADJUSTMENTS = ("original", "match_rms_adamw")


def length_of(p: Tensor, adjustment: str | None) -> float:
    """Returns the factor by which torch multiplies a matrix's learning rate."""
    rows, columns = p.shape[-2:]
    return 0.2 * math.sqrt(max(rows, columns)) if adjustment == "match_rms_adamw" else math.sqrt(max(1.0, rows / columns)) if columns else 1.0


class MomentumEngine(Engine):
    """Runs the half before the matrix products. It has no weights, and so none of their options."""

    writes_weights = False

    def shared_options(self, group: dict[str, Any]) -> list[str]:
        return []

    def kind(self, group: dict[str, Any], p: Tensor) -> tuple[str, ...]:
        if self.optimizer._shards or self.optimizer._is_shard(p) and not is_distributed(p):
            raise TypeError(f"{type(self.optimizer).__name__} makes whole matrices orthogonal, and this rank has only a part of one; use FSDP2, whose "
                            "matrices it gathers, or DDP, with which every rank has all of them")
        options = (f"grad={DTYPES[gradient_dtype(p)]}", *self.optimizer._options(group))
        return (*options, *self.moments(group, p, options))


    def choices(self) -> list[tuple[Any, ...]]:
        return [(*made, *(group[name] for name in SETTINGS)) for made, group in zip(super().choices(), self.optimizer.param_groups)]


class UpdateEngine(Engine):
    """The second half, whose gradients are the orthogonal matrices. It keeps no moments."""

    def moments(self, group: dict[str, Any], p: Tensor, options: tuple[str, ...]) -> list[str]:
        return []

    def kind(self, group: dict[str, Any], p: Tensor) -> tuple[str, ...]:
        """The formula sees rows and columns of a single whole matrix. For others an argument has the length of the step."""
        told = ("with=given_length", "per-tensor=length") if p.ndim > 2 or is_distributed(p) else ()
        return (*super().kind(group, p), *told)

    def make_step(self, part: Part, old: Part | None, shared: bool, counts: dict[int, int]) -> None:
        super().make_step(part, old, shared, counts)
        for index, name in enumerate(program(self.optimizer._recipe, part.options).args()):
            if name == "length_scale":
                for slot, (p, g) in enumerate(zip(part.params, part.group_of)):
                    part.step.set(index, slot, length_of(p, part.groups[g]["adjust_lr_fn"]))


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
    _packed = property(lambda self: self.whole._live_packed())
    _loaded_weights = property(lambda self: self.whole._loaded_weights)

    def _find_ordered(self, p: Tensor, group: dict[str, Any]) -> tuple[Any, Tensor, Tensor | None]:
        return self.whole._find_ordered(p, group)

    def _check_group(self, group: dict[str, Any]) -> None:
        """The first half has checked it."""

    def _options(self, group: dict[str, Any]) -> list[str]:
        options = ["profile=torch-foreach"] + ["check"] * (self.whole._may_skip and not self.whole._has_shards())
        return options + ["with=match_rms_adamw"] * (group["adjust_lr_fn"] == "match_rms_adamw")

    def _switches(self) -> set[str]:
        return {"adjust_lr_fn"}


class Matrices(base("Muon", "2.9")):
    """torch's class, which also takes batches of matrices."""

    def __init__(self, params: ParamsT, *settings: Any) -> None:
        try:
            super().__init__(params, *settings)
        except ValueError as error:
            # torch refuses batches of matrices last, after everything else has been checked and set.
            is_about_shapes = str(error).startswith("Muon only supports 2D parameters")
            if not is_about_shapes or any(p.ndim < 2 for group in self.param_groups for p in group["params"]):
                raise


class Muon(Fused, Matrices):
    """torch.optim.Muon with one kernel before and one kernel after the matrix products, which are torch's.

    The first unscales, clips and updates the momentum; the second applies weight decay and updates the weights. A skipped
    step has no update: the second half finds NaN in it and leaves the weights alone. Options: OptimizerOptions.

    A parameter with three or more dimensions is a batch of matrices in its last two dimensions. DTensors are gathered: each
    rank makes some of the matrices orthogonal, and sends their parts to the other ranks.

    Args:
        orthogonalize: a function that makes a batch of matrices orthogonal, instead of torch's iteration by Newton and Schulz.
            It takes a bf16 tensor of shape (matrices, rows, columns) and returns one of the same shape. A matrix with NaN, as in
            a skipped step, is given as zeros. ns_coefficients, ns_steps and eps are then not used.
    """

    _recipe = "muon_momentum"
    _counts = False
    _engine_type = MomentumEngine
    _may_skip = False
    _update: Update | None = None
    _orthogonalize: Orthogonalize | None = None
    _exchanges: dict[Any, Ranks] | None = None

    def __init__(self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None, *,
                 orthogonalize: Orthogonalize | None = None, **options: Unpack[OptimizerOptions]) -> None:
        self._orthogonalize = orthogonalize
        super().__init__(params, lr, weight_decay, momentum, nesterov, ns_coefficients, eps, ns_steps, adjust_lr_fn, **options)

    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        if group.get("capturable"):
            raise ValueError("capturable=True: Muon has matrix products between its two launches and was never tried in a graph; leave it out")
        check_integer("ns_steps", group["ns_steps"], 0, 100)
        check_number("eps", group["eps"])
        check_choice("adjust_lr_fn", group["adjust_lr_fn"], ADJUSTMENTS)
        for p in group["params"]:
            if p.ndim < 2:
                raise ValueError(f"Muon takes matrices and batches of matrices; a parameter has shape {tuple(p.shape)}; give it to a separate optimizer, "
                                 "such as AdamW")

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
        updates = []
        for part in self._engine.parts:
            for p, values, g in zip(part.params, part.outputs["update"], part.group_of):
                group = part.groups[g]
                # All ranks send parts of the same matrices, even if one has no gradient.
                if p.grad is not None or is_distributed(p):
                    iteration = Iteration(tuple(group["ns_coefficients"]), group["ns_steps"], group["eps"])
                    updates.append(Matrix(p, values, self._orthogonalize or iteration))
        made = orthogonalize(updates, self._ranks_of)
        return [(p, like_parameter(p, torch.empty_like(local(p), dtype=p.grad.dtype).copy_(part)))
                for (p, _, _), part in zip(updates, made) if p.grad is not None]

    def _ranks_of(self, p: Tensor) -> Ranks:
        """Returns the ranks whose collectives bring the parts of a parameter together."""
        from .ranks import Ranks

        mesh = p.device_mesh
        if self._exchanges is None:
            self._exchanges = {}
        if mesh not in self._exchanges:
            self._exchanges[mesh] = Ranks([mesh.get_group(d) for d in range(mesh.ndim)], local(p).device)
        return self._exchanges[mesh]

    def _step_along(self, directions: list[tuple[Tensor, Tensor]]) -> None:
        gradients = [p.grad for p, _ in directions]
        try:
            for p, direction in directions:
                p.grad = direction
            own = self._own_mode
            skips = "skip" if self._may_skip and self._has_shards() else None  # ranks with different elements must agree
            self._second()._bound().run(PLAIN._replace(nonfinite=skips, layer_norms=own.layer_norms, check_updates=own.check_updates), {})
        finally:
            for (p, _), gradient in zip(directions, gradients):
                p.grad = gradient

    def layer_stats(self, wait: bool = True) -> dict[str, dict[str, float]] | None:
        """The first half reports norms of gradients, and the second half everything else."""
        gradients = super().layer_stats(wait)
        if gradients is None or self._update is None:
            return None
        updates = (self._update.layer_stats(wait) if self._own_mode.reports_layers else None) or {}
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

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_orthogonalize": self._orthogonalize}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._update = self._exchanges = None
