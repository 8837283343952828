"""A callback for Lightning's Trainer that logs the reports of the optimizers' steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lightning.pytorch

from .fused import Fused
from .logger import StepLogger
from .zero import ZeroRedundancyOptimizer


class LogCallback(lightning.pytorch.Callback):
    """Sends the reports of this package's optimizers to all loggers of the Trainer, every `log_every_n_steps` steps.

    Several optimizers are numbered in the names, as in `optimizer/1/grad_norm`. The arguments are those of StepLogger.

    Example:
        >>> trainer = lightning.pytorch.Trainer(logger=TensorBoardLogger("runs"), callbacks=[LogCallback(layers=True)])
    """

    def __init__(self, *, layers: bool | Callable[[str], str] = False, prefix: str = "optimizer/") -> None:
        self._settings = {"layers": layers, "prefix": prefix}
        self._counts: StepLogger | None = None
        self._logged = 0

    def on_train_start(self, trainer: lightning.pytorch.Trainer, pl_module: Any) -> None:
        ours = [o for o in trainer.optimizers if isinstance(o, (Fused, ZeroRedundancyOptimizer))]
        named = ours[0] if len(ours) == 1 else {str(i): o for i, o in enumerate(ours)}
        self._counts = StepLogger(named, **self._settings)
        self._logged = trainer.global_step

    def on_train_batch_end(self, trainer: lightning.pytorch.Trainer, *_: Any) -> None:
        self._counts.collect()
        step = trainer.global_step
        if step == self._logged or step % trainer.log_every_n_steps:
            return
        self._logged = step
        metrics = self._counts.take()
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=step)


__all__ = ["LogCallback"]
