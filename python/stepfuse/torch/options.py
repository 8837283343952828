"""The keyword arguments that all optimizers of this package have in addition to torch's, declared and checked in one place.

A new option is a line of OptimizerOptions and a row of OPTIONS, a paragraph in docs/pytorch.md, and a test. An option
that only chooses a variant of the program names it in `recipe`; any other acts where its value is read.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from .arguments import (
    COPY_SCALES, MASTERS, NORMS, ORIENTATIONS, ROUNDINGS, SCALE_LAYOUTS, SEEDS, as_number, check_above_zero, check_choice, check_flag, check_integer, check_number, refuse,
)
from .checks import DTYPES
from .parts import Mode
from .scaler import LossScaler

if TYPE_CHECKING:
    from torch import Tensor

MOMENTS_MIN = 4096  # elements; as in torchao and bitsandbytes
CLIP_EPS = 1e-3  # as in timm
CLIPS = ("zclip", "adagc")
UPDATE_CLIPS = ("rms", "l2")
CLIP_NUMBERS = {"clip_z": ("zclip",), "clip_growth": ("adagc",), "clip_decay": CLIPS, "clip_warmup": CLIPS}


class OptimizerOptions(TypedDict, total=False):
    """Keyword arguments of all optimizers of this package, in addition to those of torch's class.

    Options "of a group" may differ between groups: `{"params": ..., "moments": "fp8"}`.

    Args:
        store: of a group: how buffers are stored, by name, in one place instead of moments, moments_min, master, weight_rounding
            and copy_scale: {"weight": "bf16+ecc24", "exp_avg": "fp8", "exp_avg_sq@4096": "dyn8u"}. Key "moments" means all
            moments, and "@4096" only parameters of at least that many elements.
        max_norm: clip the gradients' global norm to this within the step, instead of calling clip_grad_norm_.
        norm_type: 1, 2 or inf.
        external_norm: step(norm=…) is given the norm instead of computing it.
        exact: of DTensors, the norm of one device bit for bit on any mesh. Ranks then exchange partial sums and the elements
            around cuts instead of two numbers, and read the gradients once more. Without it all ranks agree, but the norm's
            last bits depend on their number.
        scaler: a LossScaler. The step unscales, skips overflows and adapts the scale.
        weight_rounding: of a group. Parameters below f32 have no master copy; their new values are rounded "nearest",
            "stochastic" (at random, so that small steps arrive on average) or "kahan" (state `kahan` keeps what
            rounding takes away).
        seed: of a group, for "stochastic" and random() in formulas. The same seed gives the same bits, also after load_state_dict().
        skip_nonfinite: skip steps with an inf or NaN in a gradient. None: where the step reads the gradients ahead anyway,
            for max_norm, skip_norm, monitor or scaler.
        skip_norm: skip steps whose gradients' norm is above this. The property of this name changes it.
        clip: "zclip" clips a norm that is unusual for its moving mean and variance, "adagc" each parameter's norm to
            a multiple of its moving average. max_norm is the limit while the averages warm up.
        clip_z, clip_growth, clip_decay, clip_warmup: numbers of these; None is the paper's.
        monitor: stats() also has first_nonfinite, skipped_steps, skipped_in_a_row, stuck, and grad_norm without max_norm.
        layer_norms: layer_stats() has each parameter's norms, from the same pass: of its gradient before clipping, of the
            weight before the step, and of what the step changed in it.
        check_updates: layer_stats() also has the share of each parameter's updates that rounded to nothing: of the elements
            with a gradient, those whose weight the step left as it was.
        ema_decay: of a group. The step also keeps an exponential moving average of the weights (state `ema`, f32), as
            torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn does after each step. averaged() shows it.
        moments: of a group: how moments are kept. "bf16", or a format of the library ("fp8", "int8", "sqrt8";
            docs/formats.md), also by moment: "exp_avg=int8,exp_avg_sq=sqrt8".
        moments_min: of a group. Parameters with fewer elements keep f32 moments if others have a format.
        master: of a group: what parameters below f32 keep of their f32 values. "f32" (state `master`, the default);
            bf16 parameters also "remainder" (state `remainder`, int16: the same values in half the bytes) or "ecc24"
            (state `correction`, int8).
        clip_factor: of a group. Clip each row of a gradient to this times the norm of its weights (adaptive gradient
            clipping, timm's adaptive_clip_grad), for example 0.01.
        clip_eps: of a group: the least norm of weights that clip_factor counts with.
        capturable: step() may be captured by torch.cuda.graph(), after a first step outside of it. See prepare_replay().
        centralize: of a group. Subtract its mean from each row of a gradient, after clipping: of a linear layer's from the
            gradient of each output, of a convolution's from that of each output channel. Vectors stay as they are.
        caution: of a group. Update only where the update agrees with the gradient, and there by more (cautious optimizers).
        update_clip: of a group. Limit each parameter's update to max_update: "rms" its root mean square, "l2" its norm.
            The learning rate is not part of the update.
        max_update: of a group: that limit, 1 by default.
        copy_scale: of a group. 8-bit parameters are their f32 masters times a scale: "delayed" and "current" have one
            per parameter, from its largest values so far or now; "mx" and "mx-rceil" a power of two per 32 elements,
            rounded down or up; "mxfp8" and "mxfp8-rceil" the same, shared by 32 rows; "block128" a power of two per 128
            rows of 128 columns, "block128-f32" any number for these. With "nvfp4" and "nvfp4-delayed" f32 matrices have
            copies in 4 bits. quantized() returns copies that matrix products take. copy_scale_inv() has the inverse,
            dequantized() applies it, and set_weight() starts from f32 values.
        orientation: of a group. "both" makes the step write the transpose of each matrix' copy (copy_scale=), with its
            scales. Rows and columns are multiples of 16; with "mxfp8" of 32.
        scale_layout: of a group. "swizzled" makes the step also write the scales of "mx", "mxfp8" and "nvfp4" in the
            order that cuBLASLt and torch._scaled_mm take. quantized() returns what these two options ask for.
    """

    store: dict[str, str] | None
    max_norm: float | None
    norm_type: float
    external_norm: bool
    exact: bool
    scaler: LossScaler | None
    skip_nonfinite: bool | None
    skip_norm: float | None
    clip: str | None
    clip_z: float | None
    clip_growth: float | None
    clip_decay: float | None
    clip_warmup: int | None
    monitor: bool
    layer_norms: bool
    check_updates: bool
    weight_rounding: str | None
    seed: int
    ema_decay: float | None
    moments: str | None
    moments_min: int
    master: str | None
    clip_factor: float | None
    clip_eps: float
    capturable: bool
    centralize: bool
    caution: bool
    update_clip: str | None
    max_update: float
    copy_scale: str | None
    orientation: str | None
    scale_layout: str | None


class Option(NamedTuple):
    default: Any
    check: Callable[[str, Any], None]  # raises; not called for a None that is the default
    of_group: bool = False  # a key of param_groups; otherwise one value for all groups
    convert: Callable[[Any], Any] = lambda value: value
    goes_with: str = ""  # the option without which groups do not have this one
    is_live: bool = False  # each step reads the number, so that a change makes no new program
    is_kept: bool = False  # load_state_dict() leaves it as the constructor set it
    recipe: str = ""  # the program's option, if this one is not None or False; {} is its value


def check_norm_type(name: str, value: Any) -> None:
    if as_number(value) not in NORMS:
        refuse(name, value, "1, 2 or inf")


def check_scaler(name: str, value: Any) -> None:
    if not isinstance(value, LossScaler):
        raise ValueError(f"{name}: expected a stepfuse.torch.LossScaler, or None; got {value!r}; use torch's GradScaler without this argument, around "
                         "backward() and step()")


def check_moments(name: str, value: Any) -> None:
    if not isinstance(value, str):
        refuse(name, value, "the name of a storage type or of a format, such as 'bf16' or 'fp8', or None")


def check_store(name: str, value: Any) -> None:
    if not isinstance(value, dict) or not all(isinstance(text, str) for item in value.items() for text in item):
        refuse(name, value, 'a dict from buffers to forms, such as {"weight": "bf16+ecc24", "moments": "fp8"}, or None')


def one_of(choices: tuple[str, ...]) -> Callable[[str, Any], None]:
    return functools.partial(check_choice, choices=choices)


OPTIONS: dict[str, Option] = {
    "store": Option(None, check_store),
    "max_norm": Option(None, check_number),
    "norm_type": Option(2.0, check_norm_type),
    "external_norm": Option(False, functools.partial(check_flag, expected="True if step(norm=…) is given the norm, or False")),
    "exact": Option(False, functools.partial(check_flag, expected="True for the norm of one device on any mesh of DTensors, or False")),
    "scaler": Option(None, check_scaler),
    "skip_nonfinite": Option(None, functools.partial(check_flag, expected="True, False, or None for the default")),
    "skip_norm": Option(None, check_number),
    "clip": Option(None, one_of(CLIPS)),
    **dict.fromkeys(CLIP_NUMBERS, Option(None, check_number)),
    "monitor": Option(False, check_flag),
    "layer_norms": Option(False, check_flag),
    "check_updates": Option(False, check_flag),
    "weight_rounding": Option(None, one_of(ROUNDINGS), of_group=True),
    "seed": Option(0, functools.partial(check_integer, least=-SEEDS, below=SEEDS), of_group=True, convert=int,
                   goes_with="weight_rounding"),
    "ema_decay": Option(None, functools.partial(check_number, most=1.0), of_group=True, convert=float,
                        is_live=True, recipe="ema"),
    "moments": Option(None, check_moments, of_group=True, is_kept=True),
    "moments_min": Option(MOMENTS_MIN, functools.partial(check_integer, least=0, below=SEEDS), of_group=True,
                          convert=int, goes_with="moments", is_kept=True),
    "master": Option(None, one_of(MASTERS), of_group=True, is_kept=True),
    "clip_factor": Option(None, functools.partial(check_above_zero, expected="a number > 0, or None for no clipping by weights"),
                          of_group=True, convert=float, is_live=True, recipe="clip=agc"),
    "clip_eps": Option(CLIP_EPS, check_above_zero, of_group=True, convert=float,
                       goes_with="clip_factor", is_live=True),
    "capturable": Option(False, check_flag, of_group=True),
    "centralize": Option(False, check_flag, of_group=True, recipe="centralize"),
    "caution": Option(False, check_flag, of_group=True, recipe="caution"),
    "update_clip": Option(None, one_of(UPDATE_CLIPS), of_group=True, recipe="update-clip={}"),
    "max_update": Option(1.0, check_above_zero, of_group=True, convert=float,
                         goes_with="update_clip", is_live=True),
    "copy_scale": Option(None, one_of(tuple(COPY_SCALES)), of_group=True, is_kept=True),
    "orientation": Option(None, one_of(ORIENTATIONS), of_group=True, is_kept=True),
    "scale_layout": Option(None, one_of(SCALE_LAYOUTS), of_group=True, is_kept=True),
}
# The options that `store` says.
STORED_BY = frozenset(("moments", "moments_min", "master", "weight_rounding", "copy_scale"))
GROUP_OPTIONS = tuple(name for name, option in OPTIONS.items() if option.of_group)
KEPT = tuple(name for name, option in OPTIONS.items() if option.is_kept)
# The keys of a group whose change makes a new binding or is refused.
BINDING_OPTIONS = (*(name for name in GROUP_OPTIONS if not OPTIONS[name].is_live), "differentiable")


def take_options(keywords: dict[str, Any]) -> dict[str, Any]:
    """Removes the options from a constructor's keywords, and returns all of them, with defaults, checked."""
    given = {name: option.default for name, option in OPTIONS.items()}
    given.update({name: keywords.pop(name) for name in OPTIONS if name in keywords})
    check_options(given, ("store",))
    spread_store(given, {name for name in STORED_BY if given[name] not in (None, OPTIONS[name].default)})
    check_options(given, OPTIONS)
    if given["max_norm"] is None and as_number(given["norm_type"]) != 2.0:
        raise ValueError(f"norm_type={given['norm_type']!r} needs max_norm=; add it")
    if given["external_norm"] and given["max_norm"] is None:
        raise ValueError("external_norm=True needs max_norm=; add it")
    if given["clip_factor"] is not None and given["max_norm"] is not None:
        raise ValueError("clip_factor= clips by the weights, and max_norm= by the gradients' norm; leave out one of them")
    check_mode(given)
    return given


def take_store(group: dict[str, Any]) -> dict[str, str] | None:
    """Replaces a group's own `store` by the options that say the same, and `weight_type`. Returns the store."""
    check_options(group, ("store",))
    spread_store(group, STORED_BY & group.keys())
    return group.pop("store", None)


def spread_store(values: dict[str, Any], given: Iterable[str]) -> None:
    """Replaces `store` by the options that say the same; `given` of these are there already."""
    store = values.get("store")
    if store is None:
        return
    if given:
        others = [f"{name}=" for name in sorted(given)]
        *first, last = ["store=", *others]
        raise ValueError(f"{', '.join(first)} and {last} were {'all' if first[1:] else 'both'} given; leave out {' and '.join(others)}")
    moments = {}
    for key, form in store.items():
        buffer, at, least = key.partition("@")
        if at and not least.isdecimal() or buffer in ("grad", "master") or buffer == "weight" and at:
            raise ValueError(f"store: expected keys that are 'weight', 'moments' or a moment's name, as in 'exp_avg' or 'exp_avg@4096'; got {key!r}")
        if buffer == "weight":
            spread_weight(values, store, form)
        else:
            moments[key] = form
    if [key.partition("@")[0] for key in moments] == ["moments"]:
        (key, values["moments"]), = moments.items()
        values["moments_min"] = int(key.partition("@")[2] or 0)
    elif moments:
        values["moments"] = "|".join(f"{key.removeprefix('moments')}={form}".removeprefix("=") for key, form in moments.items())
        values["moments_min"] = 0


def spread_weight(values: dict[str, Any], store: dict[str, str], form: str) -> None:
    """Sets the options that `store` gives for the weight: "bf16", "bf16:stochastic", "bf16+ecc24", "f8e4m3:mx" or "mxfp8"."""
    if form in COPY_SCALES:  # the parameters decide the type
        values["copy_scale"] = form
        return
    stored, _, rule = form.partition(":")
    values["weight_type"], _, rest = stored.partition("+")
    if values["weight_type"] not in (*DTYPES.values(),) or rest not in ("", *MASTERS) or rule not in ("", *ROUNDINGS, *COPY_SCALES):
        raise ValueError(f"store: expected for 'weight' a type ({', '.join(DTYPES.values())}), with + and one of {', '.join(MASTERS)}, or with : "
                         f"and one of {', '.join((*ROUNDINGS, *COPY_SCALES))}; got {form!r}")
    if values["weight_type"] == "f32":
        return
    if rule in COPY_SCALES:
        values["copy_scale"] = rule
    elif rule or not rest:
        values["weight_rounding"] = rule or "nearest"
    if rest:
        values["master"] = rest


def check_weight_types(groups: list[dict[str, Any]], shared: str | None = None) -> None:
    """Checks parameters against the type that `store` names: the group's own, which is taken out of it, or else the shared one."""
    own = [(group["params"], group.pop("weight_type", None)) for group in groups]
    rest = [p for params, wanted in own if wanted is None for p in params]
    for params, wanted in [*own, (rest, shared)]:
        if wanted is not None and params:
            check_weight_type(params, wanted)


def check_weight_type(params: Sequence[Tensor], wanted: str) -> None:
    for p in params:
        if p.dtype.itemsize < 4 and DTYPES.get(p.dtype) != wanted:
            raise ValueError(f"store: the entry 'weight' says {wanted}, but a parameter of shape {tuple(p.shape)} is {p.dtype}; convert it, or "
                             "give it a group with its own store")
    if not any(DTYPES.get(p.dtype) == wanted for p in params):  # f32 parameters next to some of that type are fine
        dtype = next(dtype for dtype, name in DTYPES.items() if name == wanted)
        convert = {"bf16": "bfloat16()", "f16": "half()"}.get(wanted, f"to({dtype})")
        raise ValueError(f"store: the entry 'weight' does not change a parameter's dtype, and no parameter is {wanted}; convert the model first "
                         f"(model.{convert})")


def check_mode(given: dict[str, Any]) -> None:
    """Checks options about bad steps against each other."""
    if given["clip"] is not None:
        if given["max_norm"] is None:
            raise ValueError(f"clip={given['clip']!r} needs max_norm=, the limit until there are averages; add it")
        if as_number(given["norm_type"]) != 2.0:
            raise ValueError(f"norm_type={given['norm_type']!r}: clip={given['clip']!r} needs the norm of type 2; leave out norm_type=")
    for name in CLIP_NUMBERS:
        if given[name] is not None and given["clip"] not in CLIP_NUMBERS[name]:
            raise ValueError(f"{name}= needs clip={' or '.join(map(repr, CLIP_NUMBERS[name]))}; add it")
    for name in ("scaler", "skip_norm"):
        if given["skip_nonfinite"] is False and given[name] is not None:
            raise ValueError(f"skip_nonfinite=False contradicts {name}=, which skips steps with inf and NaN; leave out one of them")


def mode_of(given: dict[str, Any]) -> Mode:
    """Returns the step's work in addition to the update. By default skip_nonfinite is True if gradients are read ahead anyway."""
    norm = None if given["max_norm"] is None else NORMS[float(given["norm_type"])]
    skips = given["skip_nonfinite"]
    if skips is None:
        skips = given["monitor"] or given["skip_norm"] is not None or norm is not None and not given["external_norm"]
    nonfinite = None
    if given["scaler"] is None and skips:
        nonfinite = "skip"
    elif given["scaler"] is None and given["monitor"]:
        nonfinite = "report"
    measures = given["monitor"] and norm is None and nonfinite != "report"  # so that the reports have grad_norm
    return Mode(norm, given["external_norm"], given["scaler"], nonfinite=nonfinite, skips_norm=given["skip_norm"] is not None or measures,
                clip=given["clip"], monitor=given["monitor"], layer_norms=given["layer_norms"], check_updates=given["check_updates"])


def step_args(given: dict[str, Any], mode: Mode) -> dict[str, float]:
    """Returns the values of the mode's arguments that the user has chosen."""
    made = {name: float(given[name]) for name in ("max_norm", "skip_norm", *CLIP_NUMBERS) if given[name] is not None}
    return {"skip_norm": math.inf, **made} if mode.skips_norm else made


def group_defaults(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the given options as defaults of groups, which only have what the user has chosen."""
    return {name: OPTIONS[name].convert(given[name]) for name in GROUP_OPTIONS
            if given[OPTIONS[name].goes_with or name] not in (None, False)}


def check_options(values: dict[str, Any], names: Any) -> None:
    for name in names:
        option = OPTIONS[name]
        if name in values and (values[name] is not None or option.default is not None):
            option.check(name, values[name])


def check_group(group: dict[str, Any]) -> None:
    """Checks the options of a group, whether they are its own or the constructor's."""
    if "lr" in group:
        check_number("lr", group["lr"])
    check_options(group, GROUP_OPTIONS)


def drop_rounding(group: dict[str, Any]) -> None:
    """Drops a checkpoint's weight_rounding from a group whose own master= or copy_scale= replaces it."""
    if group.get("master") is not None or group.get("copy_scale") is not None:
        group.pop("weight_rounding", None)


def recipe_options(group: dict[str, Any]) -> list[str]:
    """Returns the options of a group that choose a variant of any optimizer's program."""
    return [option.recipe.format(group[name]) for name, option in OPTIONS.items() if option.recipe and group.get(name) not in (None, False)]


def expand(signature: inspect.Signature) -> inspect.Signature:
    """Returns a signature with each option by its name instead of `**options`."""
    last = next(reversed(signature.parameters.values()), None)
    if last is None or last.name != "options" or last.kind is not last.VAR_KEYWORD:
        return signature
    types = {name: getattr(kind, "__forward_arg__", kind) for name, kind in OptimizerOptions.__annotations__.items()}
    return signature.replace(parameters=[*list(signature.parameters.values())[:-1], *(
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=types[name])
        for name, option in OPTIONS.items() if name not in signature.parameters)])
