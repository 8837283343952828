"""An optimizer as a description, and its two functions: the initial state, and one step; knows jax."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import jax

from .. import _core
from .call import init, state_specs, step
from .state import State

if TYPE_CHECKING:
    from typing import TypedDict

    from typing_extensions import Unpack

    class Options(TypedDict, total=False):
        max_norm: Hyper
        clip: str
        moments: str
        moments_min: int
        master: bool | str
        store: Mapping[str, str]
        weight_rounding: str
        loss_scale: LossScale | str
        skip_nonfinite: bool
        groups: Mapping[str, Mapping[str, Hyper]]
        group_of: Callable[[str, Any], str | None]
        profile: str
        options: Sequence[str]
        seed: int
        specs: Any
        device: str
        threads: int
        beta1: Hyper
        beta2: Hyper
        eps: Hyper
        weight_decay: Hyper
        momentum: Hyper
        amsgrad: bool
        nesterov: bool
        maximize: bool

Hyper = Union[float, "jax.Array", Callable[["jax.Array"], Any]]
FLAGS = ("maximize", "amsgrad", "nesterov", "centered", "momentum")  # options of recipes
DEVICES = {"cpu": 0, "interpreter": 1}
MOMENTS_MIN = 4096  # elements, as in the package for PyTorch


def name_of(formula: str) -> str:
    """Returns an optimizer's name, given that or the formula's text."""
    return formula.split()[1] if "{" in formula else formula


class LossScale(NamedTuple):
    """A dynamic loss scale: the loss is multiplied by `state.values["scale"]`, and the step divides the gradients by it."""

    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000


class Optimizer(NamedTuple):
    """A description without state; `optimizer` and the functions named after optimizers make it."""

    formula: str
    options: tuple[str, ...]
    hyper: dict[str, Hyper]
    groups: dict[str, dict[str, Hyper]]
    group_of: Callable[[str, Any], str | None] | None
    init_scale: float
    seed: int
    device: int
    threads: int
    specs: Any = None

    @property
    def name(self) -> str:
        return name_of(self.formula)

    def init(self, params: Any) -> State:
        """The state before the first step."""
        return init(self, params)

    def step(self, params: Any, state: State, grads: Any, **hyper: Hyper) -> tuple[Any, State]:
        """New parameters and state. Call it inside of jax.jit, and donate both: then the step works in their memory.

        `hyper` replaces hyperparameters for this call, with numbers or traced values, as in `lr=lr * 0.1`.
        """
        return step(self, params, state, grads, hyper)

    def state_specs(self, params: Any) -> State:
        """The PartitionSpecs of the state for shard_map, from whole parameters or their shapes and dtypes."""
        return state_specs(self, params)

    def as_optax(self) -> Any:
        """An optax.GradientTransformation. It returns differences, so it costs a copy of the parameters and an addition."""
        import optax

        def update(grads: Any, state: State, params: Any = None) -> tuple[Any, State]:
            if params is None:
                raise ValueError("params: an optimizer of stepfuse needs the parameters; call update(grads, state, params)")
            new, state = self.step(params, state, grads)
            return jax.tree.map(lambda a, b: a - b, new, params), state

        return optax.GradientTransformation(self.init, update)


@functools.lru_cache(maxsize=256)
def declared_options(formula: str) -> tuple[str, ...]:
    text = formula if "{" in formula else _core.formula_text(formula)
    return tuple(_core.formula_options(text).split())


def optimizer(formula: str, *, lr: Hyper | None = None, max_norm: Hyper | None = None, clip: str | None = None, moments: str | None = None,
              moments_min: int = MOMENTS_MIN, master: bool | str = False, weight_rounding: str | None = None,
              store: Mapping[str, str] | None = None, loss_scale: LossScale | str | None = None, skip_nonfinite: bool = False,
              groups: Mapping[str, Mapping[str, Hyper]] | None = None, group_of: Callable[[str, Any], str | None] | None = None,
              profile: str = "standard", options: Sequence[str] = (), seed: int = 0, specs: Any = None, device: str = "cpu", threads: int = 0,
              **hyper: Any) -> Optimizer:
    """An optimizer by the name of a built-in one, or from the text of a formula.

    Args:
        formula: a name, as in "adamw", or a text, as in docs/your_optimizer.md.
        lr: a number, or a function of the count of calls, as optax's schedules are; None: the formula's default.
        max_norm: clips by the norm of all gradients.
        clip: how gradients are clipped, if not by the l2 norm: "l1", "inf", "value", "zclip", "adagc", "agc".
        moments: how moments are stored: "bf16", "fp8", "int8", …, or one form per moment: "exp_avg=int8,exp_avg_sq=sqrt8".
        moments_min: tensors with fewer elements keep f32 moments, if the moments have a format.
        master: keep an f32 master copy of low-precision parameters, or a smaller form of it: "remainder", "ecc24".
        weight_rounding: without a master: "nearest", "stochastic" or "kahan".
        store: how buffers are stored, by name, in one place instead of the four before: {"weight": "bf16+ecc24", "exp_avg@4096": "fp8"}.
        loss_scale: a LossScale, "dynamic" for one with defaults, or "fixed".
        skip_nonfinite: leave everything as it is if a gradient is inf or NaN, also without clip and loss scale.
        groups: hyperparameters by the name of a group, for the parameters for which `group_of(path, parameter)` returns it.
        profile: the library whose order of rounding is followed: "standard", "torch-foreach", "torch-fused", "apex".
        options: more options, as `stepfuse list` shows them: "ema", "clip-per-group".
        seed: of stochastic rounding.
        specs: a PartitionSpec for each parameter, for a step inside of shard_map on shards along the first dimension.
        device: "cpu", or "interpreter", which defines the bits and is slow.
        threads: of the step; 0: all that the process may use.
        hyper: the formula's hyperparameters and options by their names; a hyperparameter may be a schedule.
    """
    if device not in DEVICES:
        raise ValueError(f"device: expected one of {', '.join(DEVICES)}; got {device!r}")
    if hyper.get("formula"):
        raise TypeError("formula: pass it as the first argument")
    own = declared_options(formula)
    chosen = [f"profile={profile}", *options]
    with_options: list[str] = []
    for name in [n for n in hyper if isinstance(hyper[n], bool)]:
        if name not in FLAGS and name not in own:
            raise TypeError(f"{name_of(formula)} has no option '{name}'; it has {', '.join((*own, 'maximize'))}")
        if hyper.pop(name):
            (chosen if name in FLAGS else with_options).append(name)
    if hyper.get("momentum") and "momentum" in own:  # a number that is an option, too
        chosen.append("momentum")
    if with_options:
        chosen.append("with=" + "|".join(with_options))
    if clip is not None or max_norm is not None:
        chosen.append(f"clip={clip or 'l2'}")
    if moments is not None:
        chosen.append(f"moments={moments}")
        if any(form.rpartition("=")[2] not in ("f32", "bf16") for form in moments.replace("|", ",").split(",")):
            chosen.append(f"moments-below={moments_min}")
    if master:
        chosen.append("master" if master is True else f"master={master}")
    if weight_rounding is not None:
        chosen.append(f"weight-rounding={weight_rounding}")
    if store is not None:
        given_too = [name for name, value in (("moments", moments), ("master", master), ("weight_rounding", weight_rounding)) if value not in (None, False)]
        if given_too:
            raise TypeError(f"store and {given_too[0]} were both given; leave out {given_too[0]}")
        chosen += [f"store={buffer}={form}" for buffer, form in store.items()]
    if skip_nonfinite:
        chosen.append("check")
    scaling = LossScale() if loss_scale in ("dynamic", "fixed") else loss_scale
    if scaling is not None:
        if not isinstance(scaling, LossScale):
            raise TypeError(f"loss_scale: expected a LossScale, 'dynamic' or 'fixed'; got {loss_scale!r}")
        chosen.append("loss-scale=fixed" if loss_scale == "fixed" else "loss-scale=dynamic")
        if loss_scale != "fixed":
            hyper.update(scaling._asdict())
            del hyper["init_scale"]
    given = {"lr": lr, "max_norm": max_norm}
    hyper.update({name: value for name, value in given.items() if value is not None})
    if (groups is None) != (group_of is None):
        raise TypeError("groups and group_of: pass both or neither; group_of(path, parameter) returns a group's name or None")
    return Optimizer(formula, tuple(chosen), hyper, {name: dict(values) for name, values in (groups or {}).items()}, group_of,
                     scaling.init_scale if scaling else 0.0, seed, DEVICES[device], threads, specs)


def adamw(lr: Hyper = 1e-3, **options: Unpack[Options]) -> Optimizer:
    """Adam with decoupled weight decay. The arguments are those of `optimizer`."""
    return optimizer("adamw", lr=lr, **options)


def adam(lr: Hyper = 1e-3, **options: Unpack[Options]) -> Optimizer:
    """Adam; its weight decay is added to the gradient. The arguments are those of `optimizer`."""
    return optimizer("adam", lr=lr, **options)


def lion(lr: Hyper = 1e-4, **options: Unpack[Options]) -> Optimizer:
    """Lion: the sign of the interpolated momentum. The arguments are those of `optimizer`."""
    return optimizer("lion", lr=lr, **options)


def sgd(lr: Hyper = 1e-3, **options: Unpack[Options]) -> Optimizer:
    """Stochastic gradient descent, with momentum if it is given. The arguments are those of `optimizer`."""
    return optimizer("sgd", lr=lr, **options)
