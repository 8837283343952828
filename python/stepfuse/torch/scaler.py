"""The loss scale that a step adapts by itself; knows the C library's scaler."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _core

DLPACK = {"cpu": 1, "cuda": 2}  # its types of devices


def on_device(native: Any, device: torch.device) -> Tensor:
    """The scale itself, once a step is made with the scaler."""
    return torch.utils.dlpack.from_dlpack(native.tensor(DLPACK[device.type], device.index or 0))


class LossScaler:
    """A dynamic loss scale inside of an optimizer's step: what torch.amp.GradScaler keeps, without its launches.

    Given to one optimizer as `scaler=`. The step unscales the gradients, skips itself where one of them is not
    finite, and grows or backs off the scale, on the device and without waiting for it.
    """

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000) -> None:
        self._native = _core.Scaler(init_scale, growth_factor, backoff_factor, growth_interval)
        self._factors = {"growth_factor": growth_factor, "backoff_factor": backoff_factor,
                         "growth_interval": growth_interval}
        self._tracker = 0  # until a step is made with the scaler
        self._tensor: Tensor | None = None

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the scale; waits for nothing."""
        if self._tensor is None:
            return loss * torch.tensor(self.get_scale(), dtype=torch.float32, device=loss.device)
        return loss * self._tensor.to(loss.device)

    def get_scale(self) -> float:
        """The scale as a number; waits for the device."""
        return self._native.read("scale")

    def __repr__(self) -> str:
        return f"LossScaler(scale={self.get_scale()}, {', '.join(f'{name}={value}' for name, value in self._factors.items())})"

    def state_dict(self) -> dict[str, Any]:
        """In the format of torch.amp.GradScaler."""
        tracker = self._tracker if self._tensor is None else int(self._native.read("growth_tracker"))
        return {"scale": self.get_scale(), **self._factors, "_growth_tracker": tracker}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """From a state_dict() of this class or of torch.amp.GradScaler."""
        self._factors = {name: state[name] for name in self._factors}
        self._native.write("scale", state["scale"])
        self._tracker = int(state["_growth_tracker"])
        if self._tensor is not None:
            self._native.write("growth_tracker", self._tracker)

    def _attach(self, device: torch.device) -> None:
        """Once a step was made with it."""
        if self._tensor is None:
            self._tensor = on_device(self._native, device)
            self._native.write("growth_tracker", self._tracker)

    def __getstate__(self) -> dict[str, Any]:
        return self.state_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        tracker = state["_growth_tracker"]
        self.__init__(state["scale"], state["growth_factor"], state["backoff_factor"], state["growth_interval"])
        self._tracker = tracker
