"""The base class of all optimizers: torch.optim.Optimizer with a step that is one kernel."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import _core
from . import flashoptim, layers, packed, private, state_dicts, stored, torchao
from .arguments import NORMS, check_args, check_factors, check_kind
from .binding import PLAIN
from .checks import PLAIN as PLAIN_TENSORS, check_copies
from .eager import Optimizer
from .engine import Engine
from .exact import ExactNorm
from .groups import SCALES, move, set_scales
from .options import (
    GROUP_OPTIONS, KEPT, OPTIONS, check_group, check_weight_types, drop_rounding, expand, group_defaults, mode_of, recipe_options, step_args, take_options,
    take_store,
)
from .programs import program
from .scaler import LossScaler
from .tensors import cuts_of, is_distributed, local, on_host
from .weights import Weights

if TYPE_CHECKING:
    from .owner import Exchange
    from .parts import Mode
    from .ranks import Ranks
    from .tensors import Position

# Options of formulas with the name of a recipe's option, and how to set them.
FLAGS = ("maximize", "amsgrad", "nesterov", "centered", "momentum")


class Deferred:
    """Work that torch's calls have left to the next step: unscaling by a GradScaler's scale, and clipping."""

    def __init__(self, scaler: Any = None) -> None:
        self.scaler = scaler
        self.norm: str | None = None
        self.max_norm = 0.0
        self.measured: bool | None = None  # the engine has measured these gradients for it; False: it has failed; None: it has not tried
        self.gradient: tuple[Tensor, int] | None = None  # one of those that it clips, and its version

    def mode(self, own: Mode) -> Mode:
        """`own` is the optimizer's own mode, which neither clips nor scales."""
        return own._replace(norm=self.norm, scaler=self.scaler, deferred=True)


class Fused(Weights, Optimizer):
    """The base class of all optimizers: a step that is one kernel, with clipping and loss scale inside if wanted."""

    _recipe = ""
    _couples = False  # a formula has a value that several parameters share
    _counts = True  # torch's state of a parameter has a `step`
    _own_mode = PLAIN  # the step's work in addition to the update, unless torch's calls left work to the step
    _step_args: Mapping[str, float] = MappingProxyType({})  # arguments of the mode, such as max_norm
    _is_set_up = False
    _group: Any = None  # ranks that share norm and verdict, if their gradients differ
    _counted: Callable[[Tensor], bool] | None = None
    _ranks: Ranks | None = None
    _shards: Mapping[int, Position] = MappingProxyType({})  # by the parameter's id, if parameters are parts of longer ones
    _at_once = False  # all parameters have state from the first step on, with or without a gradient
    _draws = False  # it draws random numbers for more than rounding weights
    _pieces: Exchange | None = None  # ranks exchange pieces instead of sums
    _engine: Engine | None = None
    _engine_type = Engine
    _loading: dict[str, Any] | None = None
    _deferred: Deferred | None = None
    _found: list[Tensor] | None = None  # result of a GradScaler that unscales; otherwise the engine knows
    _loaded_weights: Mapping[int, tuple[int, int, int]] = MappingProxyType({})  # version and address when masters were loaded, by the parameter's id

    def _options(self, group: dict[str, Any]) -> list[str]:
        """Returns a group's options that decide the program. Everything else is data."""
        options = ["profile=torch-fused" if group.get("fused") else "profile=torch-foreach"]
        options += [flag for flag in FLAGS if group.get(flag)]
        if self._recipe != "adamw" and group.get("decoupled_weight_decay"):
            options.append("weight-decay=decoupled")
        return options

    def _switches(self) -> set[str]:
        """Returns the keys of a group that _options() reads."""
        return {"fused", "decoupled_weight_decay", *FLAGS}

    def _source(self, name: str) -> tuple[str, int]:
        """Returns a group's key for the argument of that name, and its index if the key has several values."""
        beta = re.fullmatch("beta([1-9])", name)
        return ("betas", int(beta[1]) - 1) if beta and "betas" in self.defaults else (name, -1)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in cls.__dict__:
            whole = inspect.signature(cls.__init__)
            cls.__signature__ = expand(whole.replace(parameters=list(whole.parameters.values())[1:]))

    def __init__(self, *args: Any, **keywords: Any) -> None:
        """Takes the options out of the keywords; the other arguments are torch's."""
        options = take_options(keywords)
        weight_type = options.pop("weight_type", None)
        if "capturable" in inspect.signature(super().__init__).parameters:  # torch's class has it, too
            keywords["capturable"] = options["capturable"]
        super().__init__(*args, **keywords)
        self.defaults.update(group_defaults(options))
        if self._draws:
            self.defaults.update(seed=int(options["seed"]))
        check_weight_types(self.param_groups, weight_type)
        self._complete_groups()
        check_copies(type(self).__name__, self.param_groups)
        for group in self.param_groups:
            if options["store"] and group.get("moments") == options["moments"]:
                self._check_moments(group, options["store"])
            self._check_group(group)
        self._own_mode = mode_of(options)
        self._step_args = step_args(options, self._own_mode)
        check_args(program(self._recipe, (*self._options(self.param_groups[0]), *self._own_mode.options(False, True, False))), self._step_args,
                   lambda name: (name, -1))
        self._pieces = ExactNorm() if options["exact"] else None
        self._finish_setup()

    def _finish_setup(self) -> None:
        """Sets what copies do not take along: constructor and copies have groups and mode by now."""
        self._is_set_up = True
        # torch's GradScaler unscales for us as for any optimizer. This attribute tells trainers about an optimizer that
        # unscales itself.
        self._step_supports_amp_scaling = self._scaler is not None

    def _check_group(self, group: dict[str, Any]) -> None:
        """Refuses a group that no step can take. The walk checks numbers again whenever they change."""
        check_group(group)
        if group.get("differentiable"):
            raise ValueError(f"differentiable={group['differentiable']!r}: {type(self).__name__} does not support it; leave it out")
        for name, value in group.items() if group.get("capturable") else ():
            if isinstance(value, Tensor) and value.is_cuda:
                raise ValueError(f"{name}: expected a number or a CPU tensor with capturable=True; got {value!r}, which a capture cannot read; "
                                 "prepare_replay() copies the number to the device")
        for key, default in self.defaults.items():
            if key in group and key not in OPTIONS:  # the others are checked above
                check_kind(key, group[key], default)
        for key in SCALES.values():
            if key in group:
                check_factors(key, group[key], len(group["params"]))
        weights = self._with_weights()
        for half in dict.fromkeys((self, weights)):
            check_args(program(half._recipe, tuple(half._options(group))), group, half._source)
        try:
            program(weights._recipe, (*weights._options(group), *recipe_options(group)))
        except _core.Error as error:  # a formula that does not say what its update is
            raise ValueError(str(error).removeprefix(".")) from None
        if group.get("moments") is not None:
            self._check_moments(group)
        if group.get("master") is not None:
            program(weights._recipe, (*weights._options(group), "model=bf16", f"master={group['master']}"))

    def _check_moments(self, group: dict[str, Any], store: dict[str, str] | None = None) -> None:
        """Refuses moments that the optimizer does not have, and unknown formats, in the words of `store` if that said them."""
        entries = [f"store={key}={form}" for key, form in (store or {}).items() if key != "weight"]
        try:  # the library knows the names
            program(self._recipe, (*self._options(group), *(entries if store else [f"moments={group['moments']}"])))
        except _core.Error as error:
            rule = str(error).removeprefix(".")
            named = rule.startswith(("moments: ", "store: "))
            raise ValueError(rule if named else f"store={store!r}: {rule}" if store else f"moments={group['moments']!r}: {rule}") from None

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        store = take_store(param_group)
        check_group(param_group)
        super().add_param_group(param_group)
        try:
            if store:
                self._check_moments(param_group, store)
            if not self._is_set_up:  # torch's constructor adds groups before their defaults are complete
                return
            check_weight_types(self.param_groups[-1:])
            self._complete_groups()
            check_copies(type(self).__name__, self.param_groups)
            self._check_group(self.param_groups[-1])
        except BaseException:
            self.param_groups.pop()
            raise

    def __repr__(self) -> str:
        """Returns torch's text, with the options of the whole step."""
        mode = self._own_mode
        own = {"norm_type": next((n for n, name in NORMS.items() if name == mode.norm), None), "clip": mode.clip, **self._step_args,
               "external_norm": mode.external_norm or None, "scaler": mode.scaler, "skip_nonfinite": mode.nonfinite and mode.nonfinite == "skip",
               "monitor": mode.monitor or None}
        lines = "".join(f"    {name}: {value}\n" for name, value in own.items() if value is not None)
        return super().__repr__().removesuffix(")") + (f"Step\n{lines})" if lines else ")")

    def _with_weights(self) -> Fused:
        """Returns the optimizer that updates the weights: itself, or its second half."""
        return self

    def _complete_groups(self) -> None:
        """Adds keys that torch's own state_dicts do not have."""
        for group in self.param_groups:
            for name in ("decoupled_weight_decay", *GROUP_OPTIONS):
                if name in self.defaults:
                    group.setdefault(name, self.defaults[name])

    def share_norm(self, process_group: Any, counted: Callable[[Tensor], bool] | None = None) -> None:
        """Shares norm and verdict with all ranks of a group, if each rank has parameters of its own.

        This is not needed if gradients are equal (DDP), or for DTensors of one mesh.

        Args:
            process_group: torch.distributed's.
            counted: whether this rank counts a parameter. Duplicates on other ranks must not be counted again.
        """
        self._group, self._counted = process_group, counted
        self._engine = self._ranks = None

    def _is_shard(self, p: Tensor) -> bool:
        """Whether a parameter is a part of a longer one."""
        return self._group is not None and bool(self._shards) or is_distributed(p) and bool(cuts_of(p))

    def _find_ranks(self) -> Ranks | None:
        """Returns the ranks that share norm and verdict with this one."""
        params = [p for g in self.param_groups for p in g["params"]]
        spread = [p for p in params if is_distributed(p)]
        if self._group is None and not spread:
            return None
        if self._ranks is None:
            from .ranks import Ranks

            if self._group is not None:
                groups = [self._group]
            else:
                meshes = list(dict.fromkeys(p.device_mesh for p in spread))
                if len(spread) < len(params) or len({tuple(sorted(mesh.mesh.flatten().tolist())) for mesh in meshes}) > 1:
                    raise ValueError(f"{type(self).__name__}: the parameters are not all DTensors of meshes with the same ranks; call share_norm() with "
                                     "the group of all ranks that share norm and verdict, and say which parameters this rank counts")
                groups = [meshes[0].get_group(d) for d in range(meshes[0].ndim)]
            if all(group.size() == 1 for group in groups):  # a step with one launch, as without a mesh
                return None
            self._ranks = Ranks(groups, local(params[0]).device)
        return self._ranks

    def _find_meshes(self) -> dict[Any, Ranks]:
        """Returns the meshes of DTensors if there are several. The norm is that of the meshes' norms."""
        params = [p for g in self.param_groups for p in g["params"]]
        meshes = dict.fromkeys(p.device_mesh for p in params if is_distributed(p)) if self._group is None else {}
        if len(meshes) < 2:
            return {}
        from .ranks import Ranks

        return {mesh: Ranks([mesh.get_group(d) for d in range(mesh.ndim)], local(params[0]).device) for mesh in meshes}

    def _find_alike(self) -> Ranks | None:
        """Returns ranks that step the same parameters (DDP, FSDP2). They only have to check that they agree."""
        params = [p for g in self.param_groups for p in g["params"]]
        if self._group is not None or not params or not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return None
        if any(map(is_distributed, params)):
            ranks = {tuple(sorted(p.device_mesh.mesh.flatten().tolist())) if is_distributed(p) else None for p in params}
            return self._find_ranks() if len(ranks) == 1 else None
        from .ranks import Ranks, replicas_of

        group = replicas_of(params)
        return None if group is None else Ranks([group], params[0].device)

    @property
    def max_norm(self) -> float | None:
        """The limit to which the step clips the gradients' global norm. It may change at any time, but not from or to None."""
        return self._step_args.get("max_norm")

    @max_norm.setter
    def max_norm(self, value: float) -> None:
        self._set_step_arg("max_norm", value)

    @property
    def skip_norm(self) -> float | None:
        """The norm above which steps are skipped. It may change at any time, but not from or to None."""
        return self._step_args.get("skip_norm")

    @skip_norm.setter
    def skip_norm(self, value: float) -> None:
        self._set_step_arg("skip_norm", value)

    def _set_step_arg(self, name: str, value: float) -> None:
        if name not in self._step_args:
            raise ValueError(f"{name}: this optimizer was made without it; pass {name}= to the constructor")
        OPTIONS[name].check(name, value)
        self._step_args = {**self._step_args, name: float(value)}

    @property
    def _norm(self) -> str | None:
        return self._own_mode.norm

    @property
    def _scaler(self) -> LossScaler | None:
        return self._own_mode.scaler

    @property
    def scaler(self) -> LossScaler | None:
        """The loss scaler given to the constructor."""
        return self._scaler

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the scaler's scale, to call backward() on."""
        if self._scaler is None:
            raise RuntimeError(f"{type(self).__name__} was made without a loss scaler; pass scaler=LossScaler() to the constructor")
        return self._scaler.scale(loss)

    @staticmethod
    def profile_hook_step(step: Any) -> Any:
        """torch's wrapper of each class's step. It runs no Python code of its own if no profiler listens."""
        listened = torch.optim.Optimizer.profile_hook_step(step)

        @functools.wraps(step)
        def wrapper(self: Fused, *args: Any, **kwargs: Any) -> Any:
            if private.is_step_watched(self):
                return listened(self, *args, **kwargs)
            with private.record(f"Optimizer.step#{type(self).__name__}.step"):  # for observers other than profilers
                return step(self, *args, **kwargs)

        return wrapper

    def step(self, closure: Callable[[], Any] | None = None, *, norm: float | Tensor | None = None) -> Any:
        """Makes one step in one launch per device and kind of group, and returns the closure's result.

        `norm` is the gradients' norm before clipping (of unscaled gradients), for external_norm=True.
        """
        if self._shows_averages:
            raise RuntimeError("step() was called inside averaged(); leave the `with` block first")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if (norm is not None) != self._own_mode.external_norm:
            raise ValueError("step(norm=…) needs external_norm=True; pass it to the constructor" if norm is not None else
                             "external_norm=True needs the norm; call step(norm=…)")
        if self._scaler is not None and hasattr(self, "grad_scale"):
            raise RuntimeError(f"{type(self).__name__} was given a LossScaler and is stepped by a GradScaler; leave out "
                               "one of them (scaler=…, or scaler.step)")
        deferred = self._deferred
        self._found = None
        engine = self._engine or self._bound()
        had_grad = torch.is_grad_enabled()
        private.set_grad_enabled(False)  # no_grad(), which is four calls of Python
        try:
            if deferred is None:
                mode, values = self._own_mode, self._step_args
                if mode.keeps_state and self._only_makes_state():
                    mode = mode._replace(scaler=None, clip=None, monitor=False)
                engine.run(mode, values if norm is None else {**values, "external_norm": float(norm)})
            else:
                measured, deferred.measured = bool(deferred.measured), False  # if this step fails, the next try measures again
                engine.run(deferred.mode(self._own_mode), {**self._step_args, "max_norm": deferred.max_norm}, measured)
                self._deferred = None
                if deferred.scaler is not None:
                    deferred.scaler._note(self)
        finally:
            private.set_grad_enabled(had_grad)
        return loss

    def _only_makes_state(self) -> bool:
        """Returns whether this is torch.distributed.checkpoint's step with zero gradients, which must not affect loss scale or averages."""
        if self.state or any(float(g["lr"]) != 0 for g in self.param_groups):
            return False
        some = any(p.grad is not None and local(p.grad).any() for g in self.param_groups for p in g["params"])
        ranks = self._find_ranks()
        if ranks is not None:  # a rank alone cannot tell
            word = torch.tensor(float(some), dtype=torch.float32, device=ranks.device)
            ranks.all_reduce("the look for gradients in a step with lr = 0", word, largest=True)
            some = bool(word)
        return not some

    def prepare_replay(self) -> None:
        """Call it before each replay of a graph that captured step(). Copies learning rates and other numbers to where the graph reads them.

        Also checks that each gradient is where the graph reads it, and names the first one that is not. Does not wait for the device.

        Example:
            >>> optimizer = stepfuse.torch.AdamW(model.parameters(), lr=3e-4, capturable=True)
            >>> optimizer.step()                      # outside of the capture, with gradients
            >>> with torch.cuda.graph(graph):
            ...     optimizer.step()
            >>> schedule.step()
            >>> optimizer.prepare_replay()
            >>> graph.replay()
        """
        self._bound().prepare_replay(self._step_args if self._engine.mode.deferred is False else self._engine.values)

    def set_scale(self, params: Tensor | str | Iterable[Tensor | str], **factors: float) -> None:
        """Multiplies hyperparameters (`lr=`, `weight_decay=`) of these parameters, in addition to their groups' schedules.

        For layer-wise decay, muP and the like. Parameters may be given by name if the optimizer knows names. Factors may
        change at any time; only the first factor in a group makes a new step. Groups store them as `lr_scales` and
        `weight_decay_scales`, one number per parameter, and state_dict() contains them.

        Example:
            >>> for depth, layer in enumerate(model.layers):
            ...     optimizer.set_scale(layer.parameters(), lr=0.8 ** (len(model.layers) - depth))
        """
        set_scales(self.param_groups, params, factors)

    def move(self, param: Tensor | str, group: int) -> None:
        """Moves a parameter, with its state and scales, to a different group."""
        move(self.param_groups, param, group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        if self._deferred is not None:
            self._drop_deferred()
        super().zero_grad(set_to_none)

    def _make_state(self) -> None:
        """Makes all missing state with the values before the first step."""
        self._bound().scan(self._own_mode, {})

    def _bound(self) -> Engine:
        if self._engine is None:
            self._engine = self._engine_type(self)
        return self._engine

    def _measure(self) -> Engine:
        """Runs the deferred step's first launch, which reads the gradients."""
        self._deferred.measured = False
        with torch.no_grad():
            self._bound().measure(self._deferred.mode(self._own_mode))
        self._deferred.measured = True
        return self._engine

    def _measured(self) -> Engine:
        """Returns the engine with the deferred step's measurement, which is made if it is missing."""
        return self._engine if self._deferred.measured and self._engine.measured else self._measure()

    def _drop_deferred(self) -> None:
        """Drops the work of a step that is not made. A GradScaler still gets its verdict, unless the gradients have caused an error."""
        scaler = self._deferred.scaler
        try:
            if scaler is not None and self._deferred.measured is not False:
                self._measured()
                scaler._note(self)
        finally:
            self._deferred = None

    @property
    def last_step_skipped(self) -> Tensor | None:
        """Whether the newest step was skipped, because of inf, NaN or a norm above skip_norm: a bool on the device.

        Reading it with item() waits. It is None if no step can be skipped.
        """
        found = self._found
        if found is None and self._engine is not None:
            found = self._engine.skip_reasons(self._step_args.get("skip_norm", math.inf))
        return torch.stack([t.to(found[0].device) for t in found]).ne(0).any() if found else None

    def stats(self, wait: bool = True) -> dict[str, Any] | None:
        """Returns reports of the newest finished step, such as grad_norm, skipped and loss_scale; None before the first.

        With wait=False it does not wait for the device. A step that neither clips nor checks nor scales reports nothing.
        `monitor=True` adds `first_nonfinite`, a parameter's name, and counts of skipped steps.
        """
        return None if self._engine is None else self._engine.stats(wait)

    def layer_stats(self, wait: bool = True) -> dict[str, dict[str, float]] | None:
        """Returns the reports that layer_norms= and check_updates= add, of the newest finished step, by the parameter's name.

        They are `grad_norm`, `weight_norm`, `update_norm` and `update_ratio`, which is the update's norm divided by the
        weight's; and `lost_updates`, the share of `updates` that rounded to nothing. For DTensors they cover the whole
        parameter: call this on all ranks, and with `wait`, so that all ranks read the same step. None before the first step.
        What the formula itself reports per parameter, such as LAMB's trust_ratio, needs no option, and is there for whole
        parameters only. If the steps report nothing per parameter, this raises ValueError.
        """
        return None if self._engine is None else layers.read(self._engine, wait)

    def _has_shards(self) -> bool:
        """Whether other ranks have parts of the parameters."""
        return any(self._is_shard(p) for group in self.param_groups for p in group["params"])

    # --- state

    def state_dict(self) -> dict[str, Any]:
        """In torch's own format: torch.optim's class of the same name loads it.

        Of DTensors whose step needs whole parameters (Adafactor, LAMB) call it on all ranks.
        """
        self._pull()
        self._share_kept()
        return super().state_dict()

    def plain_state_dict(self) -> dict[str, Any]:
        """state_dict() with all moments and masters in f32, as torch.optim's class of the same name needs them."""
        return state_dicts.plain(self.state_dict(), [p for g in self.param_groups for p in g["params"]])

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From a state_dict() of this class, of torch.optim's or torchao's AdamWFp8; masters and counts keep their f32.

        Moments keep their bits if this optimizer keeps them in the same form, and are rounded at the next step if it does
        not: `moments` is the optimizer's, not the checkpoint's.
        """

        def keep(_optimizer: Any, final: dict[str, Any]) -> None:
            self._loading = final

        own = [{key: g[key] for key in KEPT if key in g} for g in self.param_groups]
        hook = self.register_load_state_dict_pre_hook(keep)
        try:
            super().load_state_dict(flashoptim.unwrapped(torchao.unwrapped(state_dict)))
        finally:
            hook.remove()
            self._loading = None
        for group, kept in zip(self.param_groups, own):
            for key in KEPT:
                group.pop(key, None)
            group.update(kept)
            drop_rounding(group)
        with torch.no_grad():
            for p in self._scales or ():
                stored.load_scales(self._scales, self.state.get(p, {}), p)
        for mine in (self._packed or {}).values():
            mine.forget()  # torch.distributed.checkpoint writes to parameters in ways that is_written() does not see

    def __getstate__(self) -> dict[str, Any]:
        self._pull()
        self._share_kept()
        inside = super().__getstate__()
        inside["state"] = self._each_state(state_dicts.picklable)
        exact = ExactNorm() if isinstance(self._pieces, ExactNorm) else None
        return {**inside, "_pieces": exact, "_own_mode": self._own_mode, "_step_args": dict(self._step_args), "_counted": self._counted}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.state = self._each_state(state_dicts.unpickled)
        self._complete_groups()
        self._engine = self._deferred = self._found = self._ranks = None
        self._finish_setup()
        self._loaded_weights = {id(p): packed.version_of(p) for g in self.param_groups for p in g["params"]
                                if type(local(p)) in PLAIN_TENSORS and p.layout == torch.strided and not p.is_inference()}
        if self._loading is not None:
            self._keep_precision(self._loading)

    def _each_state(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[Any, Any]:
        params = {p for g in self.param_groups for p in g["params"]}
        return type(self.state)(self.state.default_factory, {
            p: change(values) if p in params else values for p, values in self.state.items()})

    def _keep_precision(self, loaded: dict[str, Any]) -> None:
        """Copies loaded state that torch has cast to the parameters' dtype, or taken without a copy."""
        ids = [i for g in loaded["param_groups"] for i in g["params"]]
        params = [p for g in self.param_groups for p in g["params"]]
        for i, p in zip(ids, params):
            for name, value in loaded["state"].get(i, {}).items():
                if name == "step":
                    self.state[p][name] = on_host(float(value))
                elif isinstance(value, Tensor):
                    self.state[p][name] = value.detach().to(device=p.device, copy=True)

    def _share_kept(self) -> None:
        if self._engine is not None and self._engine.gathered.wholes:
            self._engine.gathered.share_kept(self._engine.parts, self.state)

    def _pull(self) -> None:
        if self._engine is not None:
            self._engine.pull()
