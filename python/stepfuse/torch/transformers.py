"""Adapts Transformers' Trainer: names for `optim=`, and the scaler and the clipping of its Accelerator.

Importing this module makes `TrainingArguments(optim="stepfuse_adamw")` work, and likewise every optimizer of the package
whose constructor needs only parameters: "stepfuse_" and its recipe's name.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from typing import Any

import transformers
from transformers.training_args import OptimizerNames

from . import accelerate, built_in, optimizers
from .amp import patch_clipping
from .fused import Fused
from .logger import StepLogger

PREFIX = "stepfuse_"


def _classes() -> dict[str, type[Fused]]:
    """Returns the optimizers by their names for `optim=`. Muon is left out: it takes matrices only, and the Trainer gives it all parameters."""
    found = [*vars(optimizers).values(), *(getattr(built_in, name) for name in built_in.__all__)]
    named = {getattr(cls, "formula", "") or getattr(cls, "_recipe", ""): cls for cls in found if isinstance(cls, type) and issubclass(cls, Fused)}
    return {PREFIX + name: cls for name, cls in sorted(named.items()) if name}


NAMES = _classes()


def _arguments(text: str | None) -> dict[str, Any]:
    """Parses the Trainer's `optim_args`, "key=value,key=value": numbers, True, False and None, and otherwise text."""
    given = {}
    for entry in filter(None, (text or "").replace(" ", "").split(",")):
        key, equals, value = entry.partition("=")
        if not equals:
            raise ValueError(f"optim_args: expected key=value, as in moments=dyn8; got {entry!r}")
        try:
            given[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            given[key] = value
    return given


def _keywords(cls: type[Fused], args: transformers.TrainingArguments) -> dict[str, Any]:
    """Returns a class's arguments from the training's: betas, eps and weight decay if it has them, then `optim_args`."""
    takes = inspect.signature(cls).parameters
    settings = {"lr": args.learning_rate, "betas": (args.adam_beta1, args.adam_beta2), "eps": args.adam_epsilon,
                "weight_decay": args.weight_decay}
    usable = {key: value for key, value in settings.items() if key in takes}
    if "betas" in usable and len(takes["betas"].default) != 2:
        del usable["betas"]
    return {**usable, **_arguments(args.optim_args)}


def _add_names() -> None:
    """Adds the names to the enumeration that `optim=` is converted to."""
    for name in NAMES:
        if name not in OptimizerNames._value2member_map_:
            member = str.__new__(OptimizerNames, name)
            member._name_, member._value_ = name.upper(), name
            OptimizerNames._value2member_map_[name] = OptimizerNames._member_map_[name.upper()] = member
            OptimizerNames._member_names_.append(name.upper())  # the parser of command lines lists these


def _add_handler(handler: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    """Extends Trainer.get_optimizer_cls_and_kwargs by our names."""

    @functools.wraps(handler)
    def get_optimizer_cls_and_kwargs(args: transformers.TrainingArguments, *model: Any, **keywords: Any) -> tuple[Any, Any]:
        cls = NAMES.get(str(getattr(args.optim, "value", args.optim)))
        return handler(args, *model, **keywords) if cls is None else (cls, _keywords(cls, args))

    return get_optimizer_cls_and_kwargs


_add_names()
transformers.Trainer.get_optimizer_cls_and_kwargs = staticmethod(_add_handler(transformers.Trainer.get_optimizer_cls_and_kwargs))


def _innermost(optimizer: Any) -> Any:
    """The optimizer that Accelerate's classes wrap."""
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return optimizer


class _Patch(transformers.TrainerCallback):
    """Waits for the Trainer's optimizer, which it makes late."""

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        optimizer = _innermost(optimizer)
        if isinstance(optimizer, Fused):
            patch_clipping(optimizer)


class _Counts(transformers.TrainerCallback):
    """Counts each step, and adds the counts to what the Trainer logs."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.logger: StepLogger | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any) -> None:
        self.logger = StepLogger(_innermost(optimizer), **self.settings)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.logger.collect()


def log(trainer: transformers.Trainer, *, layers: bool | Callable[[str], str] = False, prefix: str = "optimizer/") -> None:
    """Adds what the optimizer's steps report to the Trainer's training logs, wherever it sends them. Call it before trainer.train().

    The arguments are those of StepLogger. Nothing is added to the logs of evaluations.

    Example:
        >>> args = TrainingArguments("out", optim="stepfuse_adamw", optim_args="layer_norms=True", report_to="tensorboard")
        >>> trainer = Trainer(model, args, train_dataset=data)
        >>> stepfuse.torch.transformers.log(trainer, layers=True)
    """
    counts = _Counts(layers=layers, prefix=prefix)
    send = trainer.log

    @functools.wraps(send)
    def log_with_reports(logs: dict[str, float], *rest: Any, **more: Any) -> None:
        mine = counts.logger.take() if counts.logger is not None and "loss" in logs else {}
        send({**logs, **mine}, *rest, **more)

    trainer.log = log_with_reports
    trainer.add_callback(counts)


def defer(trainer: transformers.Trainer) -> None:
    """Leaves unscaling and clipping to the optimizer's step. Call it before trainer.train().

    Example:
        >>> args = TrainingArguments("out", bf16=True, optim="stepfuse_adamw", optim_args="moments=dyn8")
        >>> trainer = Trainer(model, args, train_dataset=data)
        >>> stepfuse.torch.transformers.defer(trainer)
        >>> trainer.train()
    """
    accelerate.defer(trainer.accelerator)
    trainer.add_callback(_Patch())
