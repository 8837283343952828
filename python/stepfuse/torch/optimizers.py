"""The optimizers that torch also has: torch's own classes with a different step. Everything else is inherited from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .arguments import as_number, refuse
from .fused import Fused
from .versions import base, takes

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT
    from typing_extensions import Unpack

    from .options import OptimizerOptions

EPS = torch.finfo(torch.float32).eps  # the default of torch.optim.Adafactor
ADAM_DECOUPLES = takes(torch.optim.Adam, "decoupled_weight_decay")  # not in torch 2.5; ours does with any torch


class AdamW(Fused, torch.optim.AdamW):
    """torch.optim.AdamW, its step in one kernel.

    Arguments are torch's. `fused=True` takes the rounding order of torch's fused kernel, otherwise that of foreach;
    both are one launch here. Parameters below f32 get f32 moments and an f32 master copy (state `master`).

    The keyword arguments that torch's class does not have are described in `stepfuse.torch.OptimizerOptions`.

    Example:
        >>> optimizer = stepfuse.torch.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
        >>> loss.backward()
        >>> optimizer.step()
    """

    _recipe = "adamw"

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, foreach=foreach,
                         capturable=capturable, differentiable=differentiable, fused=fused, **options)


class Adam(Fused, torch.optim.Adam):
    """torch.optim.Adam, its step in one kernel; options: OptimizerOptions."""

    _recipe = "adam"

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, decoupled_weight_decay: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused,
                         **({"decoupled_weight_decay": decoupled_weight_decay} if ADAM_DECOUPLES else {}), **options)
        if decoupled_weight_decay and not ADAM_DECOUPLES:
            self.defaults["decoupled_weight_decay"] = True
            self._complete_groups()


class SGD(Fused, torch.optim.SGD):
    """torch.optim.SGD, its step in one kernel; options: OptimizerOptions."""

    _recipe = "sgd"
    _counts = False

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: float | Tensor = 0, nesterov: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
                 **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, momentum, dampening, weight_decay, nesterov, maximize=maximize,
                         foreach=foreach, differentiable=differentiable, fused=fused, **options)

    def _check_group(self, group: dict[str, Any]) -> None:
        if group["nesterov"] and not (as_number(group["momentum"]) > 0 and as_number(group["dampening"]) == 0):
            raise ValueError(f"nesterov={group['nesterov']!r} needs momentum > 0 and dampening = 0")
        super()._check_group(group)


class RMSprop(Fused, torch.optim.RMSprop):
    """torch.optim.RMSprop, its step in one kernel; options: OptimizerOptions."""

    _recipe = "rmsprop"

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, alpha, eps, weight_decay, momentum, centered, capturable=capturable, foreach=foreach,
                         maximize=maximize, differentiable=differentiable, **options)


class Adagrad(Fused, torch.optim.Adagrad):
    """torch.optim.Adagrad, its step in one kernel; options: OptimizerOptions."""

    _recipe = "adagrad"

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
                 **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, lr_decay, weight_decay, initial_accumulator_value, eps, foreach,
                         maximize=maximize, differentiable=differentiable, fused=fused, **options)


class NAdam(Fused, torch.optim.NAdam):
    """torch.optim.NAdam, its step in one kernel that rounds as the for-loop; options: OptimizerOptions."""

    _recipe = "nadam"

    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
                 decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, momentum_decay, decoupled_weight_decay, foreach=foreach,
                         maximize=maximize, capturable=capturable, differentiable=differentiable, **options)


class RAdam(Fused, torch.optim.RAdam):
    """torch.optim.RAdam, its step in one kernel that rounds as the for-loop; options: OptimizerOptions."""

    _recipe = "radam"

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False, **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, decoupled_weight_decay, foreach=foreach,
                         maximize=maximize, capturable=capturable, differentiable=differentiable, **options)


class Adamax(Fused, torch.optim.Adamax):
    """torch.optim.Adamax, its step in one kernel that rounds as the for-loop; options: OptimizerOptions."""

    _recipe = "adamax"

    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False, **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, foreach, maximize=maximize,
                         differentiable=differentiable, capturable=capturable, **options)


class Adadelta(Fused, torch.optim.Adadelta):
    """torch.optim.Adadelta, its step in one kernel that rounds as the for-loop; options: OptimizerOptions."""

    _recipe = "adadelta"

    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
                 weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
                 maximize: bool = False, differentiable: bool = False, **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, rho, eps, weight_decay, foreach, capturable=capturable, maximize=maximize,
                         differentiable=differentiable, **options)


class ASGD(Fused, torch.optim.ASGD):
    """torch.optim.ASGD, its step in one kernel that rounds as the for-loop; options: OptimizerOptions."""

    _recipe = "asgd"

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
                 t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False, **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, lambd, alpha, t0, weight_decay, foreach, maximize, differentiable, capturable=capturable,
                         **options)


class Rprop(Fused, torch.optim.Rprop):
    """torch.optim.Rprop, its step in one kernel that rounds as the for-loop; options: OptimizerOptions."""

    _recipe = "rprop"

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
                 **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, etas, step_sizes, capturable=capturable, foreach=foreach, maximize=maximize,
                         differentiable=differentiable, **options)

    def _source(self, name: str) -> tuple[str, int]:
        return {"etaminus": ("etas", 0), "etaplus": ("etas", 1), "step_size_min": ("step_sizes", 0),
                "step_size_max": ("step_sizes", 1)}.get(name, (name, -1))

    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        if not 0 < group["etas"][0] < 1 < group["etas"][1]:
            refuse("etas", group["etas"], "two numbers, the first > 0 and < 1, the second > 1")


class Adafactor(Fused, base("Adafactor", "2.5")):
    """torch.optim.Adafactor, its step in one kernel; options: OptimizerOptions.

    Sums are made in a different order from torch's. With more than two dimensions, rows are slices along the first one,
    while torch factors the last two. The default of `eps[0]` is that of f32, also for narrower parameters.
    """

    _recipe = "adafactor"

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 foreach: bool | None = None, maximize: bool = False, **options: Unpack[OptimizerOptions]) -> None:
        super().__init__(params, lr, beta2_decay, eps, d, weight_decay, foreach=foreach, maximize=maximize, **options)

    def _source(self, name: str) -> tuple[str, int]:
        return {"eps1": ("eps", 0), "eps2": ("eps", 1)}.get(name, (name, -1))

    def _complete_groups(self) -> None:
        for group in self.param_groups:
            if isinstance(group["eps"], (tuple, list)) and group["eps"] and group["eps"][0] is None:
                group["eps"] = (EPS, *group["eps"][1:])
        super()._complete_groups()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state in torch's format: its factors are columns and rows, and a vector has its variance."""
        made = super().state_dict()
        params = [p for g in self.param_groups for p in g["params"]]
        groups = [{**g, "eps": (None if g["eps"][0] == EPS else g["eps"][0], g["eps"][1])} for g in made["param_groups"]]
        return {**made, "param_groups": groups,
                "state": {i: as_torch(kept, params[i]) for i, kept in made["state"].items()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = {i: {"col_var" if n == "variance" else n: v for n, v in kept.items()}
                 for i, kept in state_dict["state"].items()}
        super().load_state_dict({**state_dict, "state": state})


def as_torch(kept: dict[str, Any], p: Tensor) -> dict[str, Any]:
    """Returns the state that torch.optim.Adafactor keeps for a parameter."""
    if "col_var" not in kept:
        return kept
    if p.ndim < 2:
        return {**{n: v for n, v in kept.items() if n not in ("row_var", "col_var")}, "variance": kept["col_var"].view(p.shape)}
    return {**kept, "row_var": kept["row_var"][:, None], "col_var": kept["col_var"][None]}
