"""Writes reports of steps to TensorBoard, W&B or a function. It imports neither: it calls what it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import layers as by_layer

if TYPE_CHECKING:
    from .fused import Fused
    from .zero import ZeroRedundancyOptimizer

Metrics = dict[str, float]
Sink = Callable[[Metrics, int], Any]


def sink_of(to: Any) -> Sink | None:
    """Returns a function that writes metrics to a SummaryWriter, a run of W&B, or a function of metrics and step."""
    if to is None or callable(to) and not hasattr(to, "add_scalar"):
        return to
    if hasattr(to, "add_scalar"):
        def write(metrics: Metrics, step: int) -> None:
            for name, value in metrics.items():
                to.add_scalar(name, value, step)

        return write
    if hasattr(to, "log"):
        return lambda metrics, step: to.log(metrics, step=step)
    raise TypeError(f"to={to!r}: expected a SummaryWriter of TensorBoard, a run of wandb.init(), or a function of metrics and step")


class Counter:
    """The reports of one optimizer's steps since the last write."""

    def __init__(self, optimizer: Fused | ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer
        self.inner: Fused = getattr(optimizer, "_inner", optimizer)
        self.seen = (0, 0)
        self.newest: Metrics = {}
        self.steps = self.skipped = self.clipped = 0

    def collect(self) -> None:
        """Reads the reports of finished steps without waiting."""
        engine = self.inner._engine
        self.seen, found = (self.seen, []) if engine is None else engine.history(self.seen)
        for report in found:
            self.steps += 1
            self.skipped += bool(report.get("skipped"))
            self.clipped += not report.get("skipped") and 0 <= report.get("clip_coef", 1.0) < 1
            self.newest = report

    def take(self, layers: Callable[[str], str] | None) -> Metrics:
        """Returns the metrics, and starts counting again."""
        self.collect()
        report, taken = self.newest, self.steps - self.skipped
        metrics = {}
        if "grad_norm" in report:
            metrics["grad_norm"] = report["grad_norm"]
        if "clip_coef" in report and taken:
            metrics["clip_rate"] = self.clipped / taken
        if "skipped" in report:
            metrics["skipped_steps"] = float(self.skipped)
        if "loss_scale" in report:
            metrics["loss_scale"] = report.get("next_loss_scale", report["loss_scale"])
        self.steps = self.skipped = self.clipped = 0
        return {**metrics, **self.of_layers(layers, metrics)}

    def of_layers(self, layers: Callable[[str], str] | None, known: Metrics) -> Metrics:
        if self.inner._engine is None or not self.inner._own_mode.reports_layers:
            return {}
        # Ranks with shards add up their reports, so they must read the same step.
        found = self.optimizer.layer_stats(wait=self.inner._has_shards()) or {}
        metrics = {name: value for name, value in by_layer.join(found.values()).items() if name not in known}
        groups: dict[str, list[dict[str, float]]] = {}
        for name, report in found.items() if layers is not None else ():
            groups.setdefault(layers(name), []).append(report)
        for layer, reports in groups.items():
            metrics.update((f"{name}/{layer}", value) for name, value in by_layer.join(reports).items())
        metrics.pop("updates", None)
        return {name: value for name, value in metrics.items() if not name.startswith("updates/")}


class StepLogger:
    """Writes norms, update-to-weight ratio, clip rate, skipped steps and loss scale, if the step reports them.

    The step computes the numbers in its own pass, and reading them does not wait for the device. layer_norms=True in the
    optimizer's constructor adds `update_norm`, `weight_norm` and `update_ratio`; check_updates=True adds `lost_updates`.

    Args:
        optimizer: one of this package, or several by name.
        to: a SummaryWriter of TensorBoard, a run of W&B, or a function of metrics and step. None: log() only returns them.
        every: steps from one write to the next.
        layers: True also writes a value for each parameter, as `grad_norm/NAME`. A function from a parameter's name to its
            layer's name writes one for each layer.
        prefix: of all names.

    With DTensors and layer_norms= or check_updates=, make and call it on all ranks, with to=None on those that do not write.
    It raises TypeError for an optimizer of a different package, and for a `to` that it cannot write to; without optimizers ValueError.

    Example:
        >>> optimizer = stepfuse.torch.AdamW(model.named_parameters(), max_norm=1.0, layer_norms=True)
        >>> logger = stepfuse.torch.StepLogger(optimizer, SummaryWriter(), every=50, layers=True)
        >>> for batch in data:
        ...     optimizer.zero_grad()
        ...     model(batch).backward()
        ...     optimizer.step()
        ...     logger.log()
    """

    def __init__(self, optimizer: Fused | ZeroRedundancyOptimizer | Mapping[str, Fused], to: Any = None, *, every: int = 10, layers: bool | Callable[[str], str] = False,
                 prefix: str = "optimizer/") -> None:
        named = optimizer if isinstance(optimizer, Mapping) else {"": optimizer}
        if not named:
            raise ValueError("optimizer: expected an optimizer of stepfuse.torch, or several by name; got none")
        for one in named.values():
            if not hasattr(one, "layer_stats"):
                raise TypeError(f"optimizer: expected optimizers of stepfuse.torch; got {type(one).__name__}")
        self._counters = {f"{prefix}{name}/" if name else prefix: Counter(one) for name, one in named.items()}
        self._layers = (lambda name: name) if layers is True else layers or None
        self._sink = sink_of(to)
        self._every = every
        self._step = 0

    def log(self, step: int | None = None) -> Metrics | None:
        """Call it after each step(). Returns what was written; None in the steps between. `step` counts from 1 by itself."""
        self._step = self._step + 1 if step is None else step
        if self._step % self._every:
            self.collect()
            return None
        metrics = self.take()
        if self._sink is not None:
            self._sink(metrics, self._step)
        return metrics

    def collect(self) -> None:
        """Counts the steps that have finished. A step keeps the reports of the newest 64."""
        for counter in self._counters.values():
            counter.collect()

    def take(self) -> Metrics:
        """Returns the metrics since the last call."""
        return {f"{prefix}{name}": value for prefix, counter in self._counters.items() for name, value in counter.take(self._layers).items()}
