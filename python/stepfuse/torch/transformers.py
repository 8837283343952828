"""For Transformers' Trainer: the scaler and the clipping of its Accelerator."""

from __future__ import annotations

from typing import Any

import transformers

from . import accelerate
from .amp import patch_clipping
from .fused import Fused


class _Patch(transformers.TrainerCallback):
    """The Trainer makes its optimizer late."""

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        while hasattr(optimizer, "optimizer"):
            optimizer = optimizer.optimizer
        if isinstance(optimizer, Fused):
            patch_clipping(optimizer)


def defer(trainer: transformers.Trainer) -> None:
    """Leaves unscaling and clipping to the optimizer's step. Before trainer.train().

    Example:
        >>> trainer = Trainer(model, args, train_dataset=data,
        ...                   optimizer_cls_and_kwargs=(stepfuse.torch.AdamW, {"lr": 3e-4}))
        >>> stepfuse.torch.transformers.defer(trainer)
        >>> trainer.train()
    """
    accelerate.defer(trainer.accelerator)
    trainer.add_callback(_Patch())
