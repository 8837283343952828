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

from . import built_in
from .amp import GradScaler, clip_grad_norm_, clip_grad_value_, patch_clipping
from .built_in import *
from .muon import Muon
from .formula import Formula
from .fused_adam import FusedAdam
from .logger import StepLogger
from .options import OptimizerOptions
from .optimizers import ASGD, SGD, Adadelta, Adafactor, Adagrad, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop, Rprop
from .ranks import RankError
from .scaler import LossScaler
from .zero import ZeroRedundancyOptimizer

__all__ = [
    *built_in.__all__, "ASGD", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Formula", "FusedAdam", "GradScaler",
    "LossScaler", "Muon", "NAdam", "OptimizerOptions", "RAdam", "RMSprop", "RankError", "Rprop", "StepLogger", "ZeroRedundancyOptimizer",
    "clip_grad_norm_", "clip_grad_value_", "patch_clipping"]


def __dir__() -> list[str]:
    """Lists the names for users. Modules for trainers (accelerate, torchao, transformers) are imported by their names."""
    return sorted([*__all__, *(name for name in globals() if name.startswith("__"))])
