"""Accepts torch's calls in torch's order, GradScaler and clip_grad_norm_, and may leave their work to the step."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from .. import _core
from .arguments import NORMS
from .fused import Deferred, Fused
from .private import OptState, can_defer_unscale
from .scaler import on_device
from .tensors import local, type_name

_torch_clip = torch.nn.utils.clip_grad_norm_
_torch_clip_value = torch.nn.utils.clip_grad_value_
_deferring: weakref.WeakSet[Fused] = weakref.WeakSet()  # unscaled or clipped later, and perhaps stepped since
_newest: Callable[[], Fused | None] = lambda: None  # the newest that was unscaled later
_clipped_later: weakref.WeakSet[Fused] = weakref.WeakSet()  # their clipping is deferred even without a scaler


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler; with `defer_unscale=True` the unscaling becomes part of the step.

    Then `unscale_` leaves the gradients unchanged, and `clip_grad_norm_` of this package reads them once. The optimizer's step
    unscales, clips and updates in one pass, or changes nothing if a gradient was inf or NaN. This applies to the optimizers of
    this package without `max_norm=` and `scaler=`; other optimizers are unscaled as usual.

    Args:
        device, init_scale, growth_factor, backoff_factor, growth_interval, enabled: as torch's.
        defer_unscale: the program does not read `.grad` between `unscale_` and `step`.
        exact_skips: wait for the device before `optimizer.step()`, and do not call it if the step is skipped, as torch
            does. Otherwise the device decides, and the optimizer's hooks always run.

    Example:
        >>> scaler = stepfuse.torch.GradScaler(defer_unscale=True)
        >>> scaler.scale(loss).backward()
        >>> scaler.unscale_(optimizer)
        >>> stepfuse.torch.clip_grad_norm_(model.parameters(), 1.0)
        >>> scaler.step(optimizer)
        >>> scaler.update()
    """

    _native: Any = None
    _factors: Mapping[str, float] = MappingProxyType({})  # the steps do not adapt the scale, because update() does

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True, *,
                 defer_unscale: bool = False, exact_skips: bool = False) -> None:
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._defer_unscale = defer_unscale
        self._exact_skips = exact_skips
        self._shared: Tensor | None = None  # _scale, once the steps read it
        self._owed: list[Fused] = []  # unscaled, and perhaps not stepped yet

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._defers(optimizer):
            return super().unscale_(optimizer)
        self._check_scale_growth_tracker("unscale_")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        if _is_clipped(optimizer):
            _work_off(optimizer)
        state["stage"] = OptState.UNSCALED
        optimizer._deferred = Deferred(self)
        self._owed.append(optimizer)
        self._share()
        global _newest
        _newest = weakref.ref(optimizer)
        _deferring.add(optimizer)
        return None

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        if not self._enabled or not can_defer_unscale():
            return super().step(optimizer, *args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_scale_growth_tracker("step")
        state = self._per_optimizer_states[id(optimizer)]
        if self._defers(optimizer) and state["stage"] is OptState.READY:
            self.unscale_(optimizer)
        deferred = getattr(optimizer, "_deferred", None)
        if deferred is None or deferred.scaler is not self:
            result = super().step(optimizer, *args, **kwargs)
            if isinstance(optimizer, Fused) and optimizer._scaler is None:
                optimizer._found = list(state["found_inf_per_device"].values())
            return result
        optimizer._found = None
        if self._exact_skips:
            optimizer._measure()
            self._note(optimizer)
            self._check_noted(optimizer)
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
            optimizer._deferred = None
        else:
            result = optimizer.step(*args, **kwargs)
            self._check_noted(optimizer)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        owed, self._owed = self._owed, []
        for optimizer in owed:
            if optimizer._deferred is not None and optimizer._deferred.scaler is self:  # the optimizer was not stepped
                optimizer._drop_deferred()
        if self._enabled and can_defer_unscale() and len(self._per_optimizer_states) > 1:
            for state in self._per_optimizer_states.values():  # torch adds them up in place
                found = state["found_inf_per_device"]
                state["found_inf_per_device"] = {device: t.clone() for device, t in found.items()}
        super().update(new_scale)

    def _defers(self, optimizer: torch.optim.Optimizer) -> bool:
        return (self._enabled and self._defer_unscale and can_defer_unscale() and isinstance(optimizer, Fused) and optimizer._norm is None
                and optimizer._scaler is None)

    def _note(self, optimizer: Fused) -> None:
        """Notes for update() whether the newest step or measurement found inf or NaN."""
        found = optimizer._engine.found_inf()
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = {} if found is None else {found.device: found}

    def _check_noted(self, optimizer: Fused) -> None:
        """Refuses a step without gradients as torch does, which takes it with fused=True."""
        if not self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] and not optimizer.defaults.get("fused"):
            raise AssertionError("No inf checks were recorded for this optimizer.")

    def _unscale_now(self, optimizer: Fused) -> None:
        """Unscales now, because the gradients are about to be read."""
        self._per_optimizer_states[id(optimizer)]["stage"] = OptState.READY
        super().unscale_(optimizer)

    def _share(self) -> None:
        """Shares torch's scale with the steps, also if it has been replaced."""
        if self._native is None:
            self._native = _core.Scaler(1.0, 2.0, 0.5, 1)  # only its scale is used
        elif self._shared is not None and self._scale is not self._shared:
            self._scale = self._shared.copy_(self._scale)

    def _attach(self, device: torch.device) -> None:
        """Called once a step was made with it."""
        if self._shared is None:
            self._shared = on_device(self._native, device)
            self._share()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_native": None, "_shared": None, "_owed": []}


def clip_grad_norm_(parameters: Fused | Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """torch.nn.utils.clip_grad_norm_, which leaves the clipping to the step if possible.

    That is possible for all parameters of an optimizer whose unscaling a GradScaler deferred, or that was given to
    patch_clipping(). The optimizer itself may also be given instead of its parameters. Returns the norm before clipping, on the device.
    """
    if isinstance(parameters, Fused):
        optimizer: Fused | None = parameters
        parameters = (p for group in optimizer.param_groups for p in group["params"])
    else:
        parameters = _to_list(parameters)
        optimizer = _owner(parameters)
    norm = NORMS.get(float(norm_type))
    can_defer = optimizer is not None and norm is not None and optimizer._norm is None and optimizer._scaler is None
    if not can_defer:
        if optimizer is not None:
            _work_off(optimizer)
        return _torch_clip(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
    if optimizer._deferred is None:
        optimizer._deferred = Deferred()
        _deferring.add(optimizer)
    deferred = optimizer._deferred
    if _is_clipped(optimizer):
        _clip(optimizer, deferred.max_norm, optimizer._measured().norm())
    deferred.norm, deferred.max_norm = norm, float(max_norm)
    total = optimizer._measure().norm()
    deferred.gradient = _first_gradient(optimizer)
    if error_if_nonfinite and not total.isfinite():
        optimizer._deferred = None if deferred.scaler is None else Deferred(deferred.scaler)
        raise RuntimeError(f"The total norm of order {float(norm_type)} for gradients from `parameters` is non-finite, so "
                           "it cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
                           "anyway, set `error_if_nonfinite=False`")
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """torch.nn.utils.clip_grad_value_ on unscaled gradients, even if their unscaling was deferred."""
    parameters = _to_list(parameters)
    optimizer = _owner(parameters)
    if optimizer is not None:
        _work_off(optimizer)
    _torch_clip_value(parameters, clip_value, foreach)


def patch_clipping(*optimizers: Fused) -> None:
    """Installs this package's clip functions in torch.nn.utils, where trainers look for them.

    Clipping all parameters of one of these optimizers is left to its step, even without a scaler.
    """
    torch.nn.utils.clip_grad_norm_ = clip_grad_norm_
    torch.nn.utils.clip_grad_value_ = clip_grad_value_
    _clipped_later.update(optimizers)


def _to_list(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, (list, Tensor)):
        return parameters if isinstance(parameters, list) else [parameters]
    if not isinstance(parameters, Iterable):
        raise TypeError(f"parameters: expected a tensor, several tensors such as model.parameters(), or for clip_grad_norm_ an optimizer of stepfuse.torch; "
                        f"got {type_name(parameters)}")
    return list(parameters)


def _has(optimizer: Fused, parameters: list[Tensor]) -> bool:
    """Returns whether the optimizer's parameters are exactly these, in order."""
    return _core.same_items([group["params"] for group in optimizer.param_groups], parameters)


def _is_scaled(optimizer: Fused) -> bool:
    return optimizer._deferred is not None and optimizer._deferred.scaler is not None


def _first_gradient(optimizer: Fused) -> tuple[Tensor, int] | None:
    """Returns the first gradient and its version, by which gradients of the next backward() are told from those of the last."""
    grad = next((p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None), None)
    return None if grad is None or grad.is_inference() else (grad, grad._version)


def _is_clipped(optimizer: Fused) -> bool:
    """Returns whether a clip of the current gradients was left to the step. One of earlier gradients counts no more."""
    then = None if optimizer._deferred is None else optimizer._deferred.gradient
    now = None if then is None else _first_gradient(optimizer)
    return now is not None and now[0] is then[0] and now[1] == then[1]


def _work_off(optimizer: Fused) -> None:
    """Does now what was left to the step, because the gradients are about to be read or clipped again."""
    norm = optimizer._measured().norm() if _is_clipped(optimizer) else None  # over all ranks that share it
    deferred, optimizer._deferred = optimizer._deferred, None
    if deferred is not None and deferred.scaler is not None:
        deferred.scaler._unscale_now(optimizer)
    if norm is not None:
        _clip(optimizer, deferred.max_norm, norm)


@torch.no_grad()
def _clip(optimizer: Fused, max_norm: float, norm: Tensor) -> None:
    """Clips the gradients in place by torch's rule."""
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for p in (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None):
        local(p.grad).mul_(factor.to(p.grad.device))


def _owner(parameters: list[Tensor]) -> Fused | None:
    """Returns the optimizer that defers and whose parameters with a gradient are exactly these.

    If these are only some of an optimizer's parameters, what was left to its step is done now.
    """
    newest = _newest()
    if newest is not None and _is_scaled(newest) and _has(newest, parameters):
        return newest
    ids = None
    for optimizer in {*_deferring, *_clipped_later}:
        if optimizer._deferred is None:
            _deferring.discard(optimizer)
            if optimizer not in _clipped_later:
                continue
        if _has(optimizer, parameters):
            return optimizer
        if ids is None:
            ids = {id(p) for p in parameters if p.grad is not None}
        own = {id(p) for group in optimizer.param_groups for p in group["params"] if p.grad is not None}
        if own == ids:
            return optimizer
        if optimizer._deferred is not None and not own.isdisjoint(ids):
            _work_off(optimizer)
    return None
