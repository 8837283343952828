"""FusedAdam with the signature, the rounding and the state of TransformerEngine's and Apex' class, its step in one kernel.

State of a parameter is `exp_avg`, `exp_avg_sq` and, with master weights, `master_param`; the step count is the group's.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from . import stored
from .arguments import check_choice, refuse
from .engine import Engine
from .optimizers import AdamW
from .programs import program
from .tensors import on_host

if TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT
    from typing_extensions import Unpack

    from .options import OptimizerOptions
    from .parts import Part

MASTER = "master_param"
FORMS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.uint8: "fp8"}  # of moments, by the dtype that asks for them
GRADIENTS = ("grad", "decoupled_grad", "main_grad")  # attributes of a parameter
OWN = ("moments", "moments_min", "master", "weight_rounding", "copy_scale", "orientation", "scale_layout", "fused", "foreach")  # decided by the signature


@contextlib.contextmanager
def named_as_ours(state: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Gives the `master_param` of a parameter's state the name that the rest of the package knows, for a while."""
    value = state.pop(MASTER, None)
    if value is not None:
        state["remainder" if value.dtype == torch.int16 else "master"] = value
    try:
        yield state
    finally:
        if (name := stored.find_rest(state)) is not None:
            state[MASTER] = state.pop(name)


class FusedAdamEngine(Engine):
    def take_writes(self, p: Tensor) -> None:
        with named_as_ours(self.optimizer.state[p]):
            super().take_writes(p)

    def array(self, p: Tensor, weight: Tensor, label: str, name: str, buffer: stored.Buffer) -> Tensor:
        with named_as_ours(self.optimizer.state[p]):
            return super().array(p, weight, label, name, buffer)

    def forget_masters(self, part: Part, buffers: dict[str, Any]) -> None:
        if not stored.RESTS.keys() & buffers.keys():
            for p in part.params:
                self.optimizer.state[p].pop(MASTER, None)

    def make_step(self, part: Part, *args: Any) -> None:
        super().make_step(part, *args)
        made = self.optimizer._made
        part.step.write_state("step", [int(made.get(p, part.groups[g].get("step", 0))) for p, g in zip(part.params, part.group_of)])

    def pull(self) -> None:
        super().pull()
        for part in self.parts:
            self.optimizer._made.update(zip(part.params, part.step.read_state("step")))
        for group in self.optimizer.param_groups:
            counts = [self.optimizer._made[p] for p in group["params"] if p in self.optimizer._made]
            if counts:
                group["step"] = int(max(counts))


class FusedAdam(AdamW):
    """TransformerEngine's and Apex' FusedAdam, its step in one kernel, on the CPU as well; rounds as Apex does.

    A `state_dict()` has moments in f32, and `master_param` and the groups' `step` as TransformerEngine's has them.

    Args:
        adam_w_mode: decoupled weight decay; False: L2.
        bias_correction: only True.
        master_weights: parameters below f32 have f32 masters, state `master_param`; else their new values are rounded.
        master_weight_dtype: only torch.float32.
        exp_avg_dtype, exp_avg_sq_dtype: torch.float32 or torch.uint8: the format fp8, which has a scale for 256 elements where
            TransformerEngine has one for the tensor; or torch.bfloat16 for both. float16 is refused.
        store_param_remainders: masters of bf16 parameters keep the 16 bits that the parameter lacks, as int16.
        use_decoupled_grad: the gradient is the parameter's `decoupled_grad`, in a dtype of its own.
        gradient: the attribute that the gradient is, "grad", "decoupled_grad" or Megatron's "main_grad"; instead of
            `use_decoupled_grad`.
        capturable, set_grad_none: as AdamW's capturable, and accepted without effect.
        options: OptimizerOptions that the signature does not decide, such as max_norm and scaler.

    Example:
        >>> optimizer = FusedAdam(model.parameters(), lr=3e-4, master_weights=True, store_param_remainders=True)
    """

    _counts = False
    _engine_type = FusedAdamEngine

    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, amsgrad: bool = False, *, bias_correction: bool = True, adam_w_mode: bool = True,
                 capturable: bool = False, master_weights: bool = False, master_weight_dtype: torch.dtype = torch.float32,
                 exp_avg_dtype: torch.dtype = torch.float32, exp_avg_sq_dtype: torch.dtype = torch.float32,
                 use_decoupled_grad: bool = False, store_param_remainders: bool = False, set_grad_none: bool | None = None,
                 gradient: str | None = None, **options: Unpack[OptimizerOptions]) -> None:
        del set_grad_none
        if amsgrad:
            raise ValueError(f"amsgrad={amsgrad!r}: FusedAdam does not support it; use stepfuse.torch.AdamW")
        if master_weights and master_weight_dtype != torch.float32:
            raise ValueError(f"master_weight_dtype: expected torch.float32; got {master_weight_dtype!r}; store_param_remainders=True halves the bytes of "
                             "masters")
        for name, dtype in (("exp_avg_dtype", exp_avg_dtype), ("exp_avg_sq_dtype", exp_avg_sq_dtype)):
            if dtype not in FORMS:
                refuse(name, dtype, f"one of {', '.join(map(str, FORMS))} (which stands for fp8)")
        check_choice("gradient", gradient, GRADIENTS)
        if taken := sorted(set(OWN) & options.keys()):
            raise TypeError(f"FusedAdam has no argument '{taken[0]}'; use master_weights=, store_param_remainders= and exp_avg_dtype=")
        self._recipe = "adamw" if adam_w_mode else "adam"
        self._gradient = gradient or ("decoupled_grad" if use_decoupled_grad else "grad")
        self._made: dict[Tensor, int] = {}  # steps of each parameter; the group's `step` is the largest
        self.master_weights, self.adam_w_mode = master_weights, adam_w_mode
        self.store_param_remainders = store_param_remainders and master_weights
        moments = moments_of(FORMS[exp_avg_dtype], FORMS[exp_avg_sq_dtype])
        super().__init__(params, lr, betas, eps, weight_decay, capturable=capturable, moments=moments, moments_min=0,
                         master=("remainder" if self.store_param_remainders else "f32") if master_weights else None,
                         weight_rounding=None if master_weights else "nearest", **options)
        self.defaults["bias_correction"] = bias_correction
        for group in self.param_groups:
            group.setdefault("bias_correction", bias_correction)
            self._check_group(group)

    def _check_group(self, group: dict[str, Any]) -> None:
        super()._check_group(group)
        if not group.get("bias_correction", True):
            raise ValueError("bias_correction=False: FusedAdam always corrects its moments; use a formula of your own for a step that does not")

    def _options(self, group: dict[str, Any]) -> list[str]:
        return ["profile=apex", *["maximize"] * bool(group.get("maximize"))]

    def _switches(self) -> set[str]:
        return {"maximize"}

    # --- gradients in other attributes

    def step(self, closure: Callable[[], Any] | None = None, *, norm: float | Tensor | None = None) -> Any:
        if self._gradient == "grad":
            return super().step(closure, norm=norm)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with self._shown_gradients():
            super().step(norm=norm)
        return loss

    def prepare_replay(self) -> None:
        with self._shown_gradients() if self._gradient != "grad" else contextlib.nullcontext():
            super().prepare_replay()

    @contextlib.contextmanager
    def _shown_gradients(self) -> Iterator[None]:
        """Shows the gradients as the parameters' `grad`, and restores `grad` afterwards."""
        before: list[tuple[Tensor, Tensor | None, torch.dtype | None]] = []
        try:
            for group in self.param_groups:
                for p in group["params"]:
                    before.append((p, p.grad, getattr(p, "grad_dtype", None)))
                    show_gradient(p, getattr(p, self._gradient, None), self._gradient)
            yield
        finally:
            for p, grad, dtype in before:
                p.grad = None
                if dtype is not None and p.grad_dtype != dtype:
                    p.grad_dtype = dtype
                p.grad = grad

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
        for p in (p for group in self.param_groups for p in group["params"]) if self._gradient != "grad" else ():
            found = getattr(p, self._gradient, None)
            if set_to_none and self._gradient == "decoupled_grad":
                p.decoupled_grad = None
            elif found is not None:  # main_grad is a view of a buffer and must stay one
                found.zero_()

    # --- state, as TransformerEngine's class gives and takes it

    def initialize_state(self, param: Tensor, store_param_remainders: bool | None = None) -> None:
        """The state of a parameter before its first step. Its form is the optimizer's; the next step converts it."""
        del store_param_remainders
        state = self.state[param]
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = torch.zeros_like(param, dtype=torch.float32)
        if self.master_weights and param.dtype != torch.float32:
            state[MASTER] = param.detach().float().clone()

    def get_unscaled_state(self, param: Tensor, state_name: str) -> Tensor:
        """A moment or `master_param` in f32. TransformerEngine gives a remainder as it is; Megatron's files then lose its type."""
        state = self.state[param]
        if state_name == MASTER and MASTER in state:
            with named_as_ours(dict(state)) as copied:  # Megatron iterates over the state at the same time
                return stored.to_f32(copied, param)
        if state_name in state and "." not in state_name:
            return state[state_name].float()
        arrays = {name: state[name] for name in stored.find_arrays(state, state_name)}
        if not arrays:
            raise KeyError(f"the parameter has no state {state_name!r}; it has {', '.join(state)}")
        return stored.decode(arrays, state_name, stored.split_name(next(iter(arrays)))[1], param.detach(), "a parameter")

    def set_scaled_state(self, param: Tensor, state_name: str, unscaled_state: Tensor) -> None:
        """Makes a moment or `master_param` these values; the next step converts them to the optimizer's form."""
        state = self.state[param]
        have = state.get(state_name)
        if have is not None and have.dtype == unscaled_state.dtype and have.shape == unscaled_state.shape:
            have.copy_(unscaled_state)
            return
        stored.pop_arrays(state, state_name)
        state[state_name] = unscaled_state.detach().to(device=param.device, copy=True)

    def set_weight(self, param: Tensor | str, values: Tensor) -> None:
        param = next((p for p in self.state if p is param), param)
        with named_as_ours(self.state[param]):
            super().set_weight(param, values)

    def state_dict(self) -> dict[str, Any]:
        """Moments in f32, `master_param` in f32 or as the remainder in int16, and each group's `step`."""
        whole = super().state_dict()
        params = dict(zip((i for g in whole["param_groups"] for i in g["params"]), (p for g in self.param_groups for p in g["params"])))
        for i, state in whole["state"].items():
            names = dict.fromkeys(stored.split_name(name)[0] for name in state)
            whole["state"][i] = {name: state[name] if name == MASTER else self.get_unscaled_state(params[i], name) for name in names}
        return whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state_dict() of this class, of TransformerEngine's or of Apex'."""
        self._pull()
        super().load_state_dict(state_dict)
        self._made.clear()  # the groups' `step` counts

    def __setstate__(self, state: dict[str, Any]) -> None:
        # torch's AdamW looks for a count in the state of each parameter.
        inside = defaultdict(dict, {p: {**values, "step": on_host(0.0)} if isinstance(values, dict) else values for p, values in state["state"].items()})
        super().__setstate__({**state, "state": inside})
        for values in self.state.values():
            values.pop("step", None)

    def __getstate__(self) -> dict[str, Any]:
        own = ("_recipe", "_gradient", "_made", "master_weights", "adam_w_mode", "store_param_remainders")
        inside = super().__getstate__()
        return {**inside, **{name: self.__dict__[name] for name in own}}


def moments_of(exp_avg: str, exp_avg_sq: str) -> str | None:
    """Returns AdamW's `moments` for these two forms."""
    if exp_avg == exp_avg_sq:
        return None if exp_avg == "f32" else exp_avg
    if "bf16" in (exp_avg, exp_avg_sq):
        raise ValueError(f"exp_avg_dtype and exp_avg_sq_dtype: expected torch.bfloat16 for both or for neither; got {exp_avg} and {exp_avg_sq}")
    return f"exp_avg={exp_avg}|exp_avg_sq={exp_avg_sq}"


def show_gradient(p: Tensor, gradient: Tensor | None, attribute: str) -> None:
    """Makes `gradient` the parameter's `grad`, whatever its dtype is."""
    p.grad = None
    if gradient is not None and gradient.dtype != p.dtype:
        if not hasattr(p, "grad_dtype"):
            raise RuntimeError(f"FusedAdam: {attribute} is {gradient.dtype} and its parameter is {p.dtype}, which needs torch 2.10 or later; this "
                               f"is torch {torch.__version__}; update it, or keep gradients in {p.dtype}")
        p.grad_dtype = gradient.dtype
    p.grad = gradient
