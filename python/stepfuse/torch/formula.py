"""Makes optimizers from formulas: a text of ten lines becomes a torch.optim.Optimizer with everything that the others have.

docs/your_optimizer.md describes the language. built_in.py makes such classes from the built-in formulas.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .. import _core
from . import stored
from .arguments import check_kind
from .binding import PER_STEP, PER_TENSOR, other_states
from .programs import program
from .fused import FLAGS, Fused
from .groups import SCALES
from .options import GROUP_OPTIONS, OPTIONS, expand

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim.optimizer import ParamsT


# Names that this package itself uses: in a parameter's state, in a step, and as keys of groups.
TAKEN_STATES = frozenset((*stored.STATES, *stored.RESTS, stored.KAHAN))
TAKEN_BY_STEPS = frozenset(("updated", "counted", *stored.NAMES))
TAKEN_KEYS = frozenset(("params", "param_names", "maximize", "differentiable", *GROUP_OPTIONS, *SCALES.values()))
TAKEN_MOMENTS = frozenset(("weight_scale", "copy_scale_inv"))


class Declared(NamedTuple):
    """The parameters that a formula declares."""

    hyper: dict[str, float]  # with defaults
    options: tuple[str, ...]
    couples: bool  # all parameters, or those of a group, share some value

    def defaults(self, following: tuple[str, ...]) -> dict[str, Any]:
        """Returns the defaults as groups of torch have them: lr first, beta1 and beta2 as betas. Options that follow from numbers are left out."""
        given: dict[str, Any] = {"lr": self.hyper["lr"]} if "lr" in self.hyper else {}
        betas = self.betas()
        if betas:
            given["betas"] = tuple(self.hyper[beta] for beta in betas)
        given.update((name, value) for name, value in self.hyper.items() if name not in betas)
        given.update((name, False) for name in self.options if name not in given and name not in following)
        return {**given, "maximize": False}

    def betas(self) -> list[str]:
        """Returns beta1, beta2, … if there are at least two."""
        names = [f"beta{i + 1}" for i in range(9)]
        count = next(i for i, name in enumerate(names) if name not in self.hyper)
        return names[:count] if count > 1 else []


def chosen(options: Iterable[str]) -> tuple[str, ...]:
    """Returns a formula's own options in the form that a recipe takes."""
    own = [o for o in options if o not in FLAGS]
    return (*(o for o in options if o in FLAGS), *(["with=" + "|".join(own)] if own else []))


def check_names(made: Any) -> None:
    """Refuses declarations with names that this package itself uses: their values would be lost, or taken for something else."""
    found = [f"moment {name}" for name in made.buffers() if name in TAKEN_MOMENTS]
    for name, (dtype, granularity, *_) in made.states().items():
        is_of_random = (name, dtype, granularity) == ("seed", "i64", PER_STEP)
        if name in TAKEN_BY_STEPS or name in (TAKEN_STATES if granularity >= PER_TENSOR else TAKEN_KEYS) and not is_of_random:
            found.append(f"state {name}")
    if found:
        raise _core.Error(f"formula: '{found[0]}' declares a name that stepfuse.torch itself uses; choose a different name")


@functools.lru_cache(maxsize=256)
def declared(formula: str) -> Declared:
    text = formula if "{" in formula else _core.formula_text(formula)
    options = tuple(_core.formula_options(text).split())
    hyper: dict[str, float] = {}
    couples = False
    for choice in ((), *((o,) for o in options), options):
        try:
            made = program(formula, chosen(choice))
        except _core.Error:
            if not choice:
                raise
            continue  # an option that needs or excludes a different one
        check_names(made)
        hyper = {**made.args(), **hyper}
        wide = re.search(r"= reduce_\w+ %\S+ : [^<\[]", made.text()) is not None
        couples = couples or wide or any(granularity < 2 for _, granularity, _ in other_states(made).values())
    # A momentum that is also an option is on if it is not 0.
    return Declared({n: 0.0 if n in options else v for n, v in hyper.items()}, options, couples)


class Formula(Fused):
    """An optimizer that a formula defines, its step in one kernel.

    Either a class, whose `formula` is the text, or the name of a built-in one:

        class Mine(stepfuse.torch.Formula):
            formula = '''
            optimizer mine "SGD with momentum" {
              hyper lr = 1e-3, momentum = 0.9
              moment buffer
              buffer = momentum * buffer + g
              w = w - lr * buffer
            }
            '''

        optimizer = Mine(model.parameters(), lr=3e-4, max_norm=1.0)

    or an optimizer at once: `Formula(model.parameters(), formula=text, lr=3e-4)`. Hyperparameters are arguments, and
    options of groups, by their names; `beta1, beta2, …` are `betas`, as in torch. A formula's own options are
    arguments that are True or False. Rounding and the treatment of inf and NaN follow torch's foreach
    implementations (`profile`).

    Args:
        lr: the learning rate; None: the formula's default.
        formula: its text, if the class has none.
        maximize: as torch's.
        options: those of OptimizerOptions, and the formula's hyperparameters and options.
    """

    formula = ""
    profile = "torch-foreach"
    _following: tuple[str, ...] = ()  # options that follow from numbers and are not arguments

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "formula" in cls.__dict__ and "__init__" not in cls.__dict__:
            cls.__signature__ = signature(declared(cls.formula), cls._following)

    def __init__(self, params: ParamsT, lr: float | Tensor | None = None, *, formula: str | None = None,
                 maximize: bool = False, **options: Any) -> None:
        hyper = {name: options.pop(name) for name in options.keys() - OPTIONS}
        if formula is not None:
            self.formula = formula
        if not self.formula:
            raise TypeError(f"{type(self).__name__} needs a formula; pass formula=…, or set it in a subclass")
        if lr is not None:
            hyper["lr"] = lr
        defaults = declared(self.formula).defaults(self._following)
        for name, value in hyper.items():
            if name not in defaults:
                near = difflib.get_close_matches(name, (*defaults, *OPTIONS), 1)
                own = f"formula's own arguments are {', '.join(defaults)}"
                raise TypeError(f"{type(self).__name__} has no argument '{name}'; {f'did you mean {near[0]!r}? The' if near else 'the'} {own}")
            if name == "betas":
                check_kind(name, value, defaults[name])
        super().__init__(params, {**defaults, **hyper, "maximize": maximize}, **options)

    @property
    def _recipe(self) -> str:
        return self.formula

    @property
    def _draws(self) -> bool:
        return re.search(r"\brandom\s*\(", self.formula) is not None

    def _options(self, group: dict[str, Any]) -> list[str]:
        options = [f"profile={self.profile}", *chosen([o for o in declared(self.formula).options if group.get(o)])]
        return [*options, "maximize"] if group.get("maximize") else options

    def _switches(self) -> set[str]:
        return {"maximize", *declared(self.formula).options}

    @property
    def _couples(self) -> bool:
        return declared(self.formula).couples

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), **({"formula": self.formula} if "formula" in self.__dict__ else {})}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)


class ScheduleFree(Formula):
    """The Schedule-Free optimizers: the model to evaluate differs from the one that is trained.

    Call eval() before you evaluate or save the model, and train() before you continue training. A state_dict() says
    which of the two the parameters are (`train_mode` of each group), so load the model and the optimizer together.
    """

    _evaluates = False
    _following = ("weighted",)

    def _complete_groups(self) -> None:
        """Adds `train_mode`, which state_dict() has, to groups without it. Older checkpoints do not have it."""
        super()._complete_groups()
        for group in self.param_groups:
            group.setdefault("train_mode", not self._evaluates)
        self._evaluates = not all(group["train_mode"] for group in self.param_groups)

    def _options(self, group: dict[str, Any]) -> list[str]:
        return super()._options({**group, "weighted": group["r"] != 0 or group["weight_lr_power"] != 2})

    def _switches(self) -> set[str]:
        return super()._switches() | {"r", "weight_lr_power"}

    def eval(self) -> None:
        """Sets the parameters to the average, which is the model to use."""
        self._move(True)

    def train(self) -> None:
        """Sets the parameters back to the point at which gradients are taken."""
        self._move(False)

    def step(self, closure: Any = None, **keywords: Any) -> Any:
        if self._evaluates:
            raise RuntimeError(f"{type(self).__name__}: step() was called after eval(); call train() before it")
        return super().step(closure, **keywords)

    @torch.no_grad()
    def _move(self, evaluates: bool) -> None:
        groups = [group for group in self.param_groups if group["train_mode"] == evaluates]
        moved = [(group, p, self.state[p], stored.scale_mode(group, p)) for group in groups for p in group["params"] if self.state.get(p)]
        for _, p, state, way in moved:  # before any parameter moves, because this may raise
            stored.convert_scales(self._live_scales(), state, p, way)
        self._evaluates = evaluates
        for group in groups:
            group["train_mode"] = not evaluates
        for group, p, state, way in moved:
            momentum = group["betas"][0] if "betas" in group else group["momentum"]
            weight = stored.to_f32(state, p)
            weight.lerp_(state["z"].to(p.device), 1 - 1 / momentum if evaluates else 1 - momentum)
            stored.store(state, p, weight, way)


def signature(takes: Declared, following: tuple[str, ...]) -> inspect.Signature:
    """Returns the signature of a class with that formula."""
    general = inspect.signature(Formula.__init__).parameters
    defaults = takes.defaults(following)
    by_name = inspect.Parameter.KEYWORD_ONLY

    def own(name: str, kind: Any) -> inspect.Parameter:
        value = defaults[name]
        of = {bool: "bool", tuple: f"tuple[{', '.join(['float'] * len(value))}]" if name == "betas" else ""}
        annotation = general["lr"].annotation.removesuffix(" | None") if name == "lr" else of.get(type(value), "float")
        return inspect.Parameter(name, kind, default=value, annotation=annotation)

    positional = [general["params"], *(own("lr", inspect.Parameter.POSITIONAL_OR_KEYWORD) for _ in "l" if "lr" in defaults)]
    others = [own(name, by_name) for name in defaults if name not in ("lr", "maximize")]
    options = inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)
    return expand(inspect.Signature([*positional, *others, general["maximize"], options], return_annotation="None"))
