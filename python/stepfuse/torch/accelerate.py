"""Adapts Accelerate's Accelerator: its scaler, and the clipping that it calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .amp import GradScaler, patch_clipping
from .fused import Fused

if TYPE_CHECKING:
    from accelerate import Accelerator


def defer(accelerator: Accelerator, *optimizers: Fused) -> None:
    """Leaves unscaling and clipping to the optimizers' steps. Call it before accelerator.prepare().

    `optimizer_step_was_skipped` and the schedules stay exact. If there is a scaler (fp16), the host waits once per step
    for that.

    Example:
        >>> accelerator = Accelerator(mixed_precision="fp16")
        >>> optimizer = stepfuse.torch.AdamW(model.parameters(), lr=3e-4)
        >>> stepfuse.torch.accelerate.defer(accelerator, optimizer)
        >>> model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    """
    if accelerator.scaler is not None:
        handler = accelerator.scaler_handler
        accelerator.scaler = GradScaler(accelerator.device.type, **(handler.to_kwargs() if handler is not None else {}),
                                        defer_unscale=True, exact_skips=True)
    patch_clipping(*optimizers)
