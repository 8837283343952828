"""The loss scale that a step adapts itself. Knows the C library's scaler."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _core
from .arguments import check_above_zero, check_choice, check_integer, refuse

DLPACK = {"cpu": 1, "cuda": 2}  # its device types


def on_device(native: Any, device: torch.device) -> Tensor:
    """Returns the scale as a tensor, once a step is made with the scaler."""
    return torch.utils.dlpack.from_dlpack(native.tensor(DLPACK[device.type], device.index or 0))


POLICIES = {"torch": "dynamic", "apex": "apex", "megatron": "megatron"}  # with the recipe's names for them


class LossScaler:
    """A dynamic loss scale inside of an optimizer's step: torch.amp.GradScaler's state without its launches.

    Pass it to one optimizer as `scaler=`. The step unscales the gradients, is skipped if one of them is not
    finite, and increases or backs off the scale, all on the device and without waiting for it.

    Args:
        init_scale, growth_factor, backoff_factor, growth_interval: as torch.amp.GradScaler's.
        policy: "torch" backs off at each overflow. "apex" and "megatron" have hysteresis: they back off at the
            `hysteresis`-th overflow and at each one after it. With "apex" a good step restores the hysteresis, with
            "megatron" a growth of the scale does.
        hysteresis: overflows that it takes to back off, for "apex" and "megatron".
        min_scale: the least scale, for "megatron".
    """

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, *, policy: str = "torch", hysteresis: int = 2, min_scale: float = 1.0) -> None:
        check_choice("policy", policy, POLICIES)
        check_integer("hysteresis", hysteresis, 1, 1 << 31)
        check_above_zero("min_scale", min_scale)
        for name, value in (("init_scale", init_scale), ("growth_factor", growth_factor), ("backoff_factor", backoff_factor),
                            ("growth_interval", growth_interval)):
            if value == 0:  # the library would take its default
                refuse(name, value, "a number > 0")
        self._policy = policy
        self._native = _core.Scaler(init_scale, growth_factor, backoff_factor, growth_interval)
        self._factors = {"growth_factor": growth_factor, "backoff_factor": backoff_factor,
                         "growth_interval": growth_interval}
        if policy != "torch":
            self._factors["hysteresis"] = hysteresis
        if policy == "megatron":
            self._factors["min_scale"] = min_scale
        self._counters = {"growth_tracker": 0, **({"hysteresis_tracker": hysteresis} if policy != "torch" else {})}
        self._tensor: Tensor | None = None  # until a step is made with the scaler, the counters are the attributes above

    @property
    def policy(self) -> str:
        """The value of recipe option loss-scale."""
        return POLICIES[self._policy]

    def scale(self, loss: Tensor) -> Tensor:
        """Returns the loss times the scale; does not wait for the device."""
        if self._tensor is None:
            return loss * torch.tensor(self.get_scale(), dtype=torch.float32, device=loss.device)
        return loss * self._tensor.to(loss.device)

    def get_scale(self) -> float:
        """Returns the scale as a number; waits for the device."""
        return self._native.read("scale")

    def __repr__(self) -> str:
        return f"LossScaler(scale={self.get_scale()}, {', '.join(f'{name}={value}' for name, value in self._factors.items())})"

    def state_dict(self) -> dict[str, Any]:
        """Returns the state in the format of torch.amp.GradScaler; with hysteresis also that and its counter."""
        counters = {name: value if self._tensor is None else int(self._native.read(name)) for name, value in self._counters.items()}
        return {"scale": self.get_scale(), **self._factors, **{f"_{name}": value for name, value in counters.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Loads a state_dict() of this class or of torch.amp.GradScaler. The policy stays. Counters that only the policy has
        restart if the state does not have them."""
        self._factors = {name: state.get(name, value) for name, value in self._factors.items()}
        self._native.write("scale", state["scale"])
        first = {"growth_tracker": 0, "hysteresis_tracker": self._factors.get("hysteresis")}
        self._counters = {name: int(state.get(f"_{name}", first[name])) for name in self._counters}
        if self._tensor is not None:
            self._write_counters()

    def _write_counters(self) -> None:
        for name, value in self._counters.items():
            self._native.write(name, value)

    def _attach(self, device: torch.device) -> None:
        """Called once a step was made with it."""
        if self._tensor is None:
            self._tensor = on_device(self._native, device)
            self._write_counters()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.state_dict(), "policy": self._policy}

    def __setstate__(self, state: dict[str, Any]) -> None:
        more = {name: state[name] for name in ("hysteresis", "min_scale") if name in state}
        self.__init__(state["scale"], state["growth_factor"], state["backoff_factor"], state["growth_interval"], policy=state["policy"], **more)
        self.load_state_dict(state)
