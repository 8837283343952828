"""Optimizers for PyTorch that take a step in one fused kernel; drop-in for those of torch.optim.

    import stepfuse.torch
    optimizer = stepfuse.torch.AdamW(model.parameters(), lr=3e-4)

With `max_norm=` the step clips by the global norm, and with `scaler=` it unscales, skips steps that overflowed and
adapts the loss scale, all in the same launch:

    scaler = stepfuse.torch.LossScaler()
    optimizer = stepfuse.torch.AdamW(model.parameters(), lr=3e-4, max_norm=1.0, scaler=scaler)
    optimizer.scale(loss).backward()
    optimizer.step()
"""

from .amp import GradScaler, clip_grad_norm_, clip_grad_value_, patch_clipping
from .optimizers import SGD, Adagrad, Adam, AdamW, Lion, RMSprop
from .scaler import LossScaler

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "GradScaler", "Lion", "LossScaler", "RMSprop", "clip_grad_norm_",
           "clip_grad_value_", "patch_clipping"]
