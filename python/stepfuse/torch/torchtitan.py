"""Adapts torchtitan: an OptimizersContainer of this package's optimizers, and clipping that is part of their step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import stepfuse.torch
import torch
from torch import Tensor
from torchtitan.components import optimizer as titan
from torchtitan.components.optimizer import ParamGroupConfig
from torchtitan.distributed import utils

from .amp import clip_grad_norm_
from .fused import Fused


class OptimizersContainer(titan.OptimizersContainer):
    """torchtitan's container. `optimizer_name` is a class of stepfuse.torch, or else one that torchtitan knows.

    Example, in a config_registry:
        >>> from stepfuse.torch.torchtitan import default_adamw
        >>> optimizer=default_adamw(lr=3e-4, moments="dyn8", master="remainder", clip_in_step=True)
    """

    @dataclass(kw_only=True, slots=True)
    class Config(titan.OptimizersContainer.Config):
        clip_in_step: bool = False
        """Leave `training.max_norm` to the optimizer's step, which then reads the gradients once more instead of twice.
        It needs one optimizer for all parameters, and neither pipeline nor expert parallelism."""

    def __init__(self, config: Config, *, model_parts: list[torch.nn.Module]) -> None:
        super().__init__(config, model_parts=model_parts)
        if config.clip_in_step:
            if len(self.optimizers) != 1 or not isinstance(self.optimizers[0], Fused):
                names = ", ".join(type(o).__name__ for o in self.optimizers)
                raise ValueError(f"clip_in_step=True: expected one optimizer of stepfuse.torch for all parameters; got {names}")
            clip_in_step(self.optimizers[0])

    @staticmethod
    def _resolve_optimizer_factory(name: str) -> Callable[..., torch.optim.Optimizer]:
        found = getattr(stepfuse.torch, name, None)
        if isinstance(found, type) and issubclass(found, Fused):
            return found
        return titan.OptimizersContainer._resolve_optimizer_factory(name)

    @staticmethod
    def _build_impl_kwargs(config: Config) -> dict[str, Any]:
        """Each class here has one implementation; `fused` and `foreach` only choose its rounding."""
        return titan.OptimizersContainer._build_impl_kwargs(config) if config.implementation in ("fused", "foreach") else {}


def clip_in_step(optimizer: Fused) -> None:
    """From now on, torchtitan's clip_grad_norm_ leaves the clipping of this optimizer's parameters to its step."""
    clip = utils.clip_grad_norm_

    @functools.wraps(clip)
    def clip_or_defer(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                      foreach: bool | None = None, pp_mesh: Any = None, ep_enabled: bool = False) -> Tensor:
        parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if pp_mesh is not None or ep_enabled or own != {id(p) for p in parameters if p.requires_grad}:
            return clip(parameters, max_norm, norm_type, error_if_nonfinite, foreach, pp_mesh, ep_enabled)
        return clip_grad_norm_(optimizer, max_norm, norm_type, error_if_nonfinite, foreach)

    utils.clip_grad_norm_ = clip_or_defer


def default_adamw(lr: float = 8e-4, *, clip_in_step: bool = False, **kwargs: Any) -> OptimizersContainer.Config:
    """torchtitan's default_adamw() with this package's AdamW; further arguments are AdamW's."""
    settings = {"lr": lr, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1, **kwargs}
    return OptimizersContainer.Config(clip_in_step=clip_in_step, param_groups=[
        ParamGroupConfig(pattern=".*", optimizer_name="AdamW", optimizer_kwargs=settings)])


__all__ = ["OptimizersContainer", "clip_in_step", "default_adamw"]
