"""The custom calls of an optimizer: parameters and state as operands, everything else as attributes; knows jax's FFI."""

from __future__ import annotations

import hashlib
import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import library
from .state import NAMES, DTYPES, PIECE, Program, State, Tensor, make_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .optimizer import Hyper, Optimizer

FLOATS = ("f32", "bf16", "f16")
# Before jax 0.8 it is in jax.experimental.
enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental").enable_x64


class Axis(NamedTuple):
    """The axis of a mesh along which the first dimension of parameters is sharded."""

    name: Any
    devices: int


class Plan(NamedTuple):
    """An optimizer for a pytree of parameters."""

    program: Program
    tensors: tuple[Tensor, ...]
    tree: Any
    groups: tuple[str, ...]  # the first one is the default
    axis: Axis | None  # over which parameters are sharded

    @property
    def exchanged(self) -> tuple[str, ...]:
        """Reductions over all elements, whose pieces the devices of the axis exchange."""
        return self.program.reductions()[0] if self.axis else ()

    def array_types(self) -> list[jax.ShapeDtypeStruct]:
        return [jax.ShapeDtypeStruct(b.shape(t), DTYPES[b.dtype]) for b in self.program.buffers for t in self.tensors if b.exists_for(t)]

    def types(self) -> list[jax.ShapeDtypeStruct]:
        """The types of the state: values, then arrays."""
        values = [jax.ShapeDtypeStruct(v.shape(self.tensors, len(self.groups)), v.jax_dtype()) for v in self.program.values]
        return values + self.array_types()

    def results(self) -> list[jax.ShapeDtypeStruct]:
        """The same as a custom call returns them."""
        values = [jax.ShapeDtypeStruct(v.operand_shape(self.tensors, len(self.groups)), v.jax_dtype()) for v in self.program.values]
        return values + self.array_types()

    def state(self, count: jax.Array, results: Sequence[jax.Array]) -> State:
        """A state from a custom call's results."""
        left = iter(results)
        return self.make_state(count, [*(v.from_operand(next(left)) for v in self.program.values), *left])

    def make_state(self, count: jax.Array, arrays: Sequence[jax.Array]) -> State:
        """A state from arrays in the order of types()."""
        left = iter(arrays)
        values = {v.name: next(left) for v in self.program.values}
        trees = {b.name: self.tree.unflatten([next(left) if b.exists_for(t) else None for t in self.tensors]) for b in self.program.buffers}
        return State(count, trees, values)

    def operands(self, state: State) -> list[jax.Array]:
        """A state's arrays as operands of a custom call, after checks."""
        check_names("values", {v.name for v in self.program.values}, state.values)
        check_names("arrays", {b.name for b in self.program.buffers}, state.arrays)
        found = [(f"values[{v.name!r}]", state.values[v.name]) for v in self.program.values]
        for b in self.program.buffers:
            leaves = self.tree.flatten_up_to(state.arrays[b.name])
            for t, leaf in zip(self.tensors, leaves):
                if b.exists_for(t):
                    found.append((f"arrays[{b.name!r}]{t.name}", leaf))
        for (name, array), wanted in zip(found, self.types()):
            if getattr(array, "shape", None) != wanted.shape or array.dtype != wanted.dtype:
                raise ValueError(f"state.{name} is {describe(array)}; this optimizer needs {describe(wanted)}. Was the state made by an "
                                 "optimizer with different options or for different parameters?")
        arrays = (array for _, array in found)
        return [*(v.to_operand(next(arrays)) for v in self.program.values), *arrays]


def describe(array: Any) -> str:
    if not hasattr(array, "dtype"):
        return f"a {type(array).__name__}"
    return f"{jnp.dtype(array.dtype).name}[{','.join(map(str, array.shape))}]"


def check_names(what: str, wanted: set[str], found: Mapping[str, Any]) -> None:
    if wanted != set(found):
        differing = sorted(wanted ^ set(found))[0]
        raise ValueError(f"state.{what} {'lacks' if differing in wanted else 'has'} '{differing}', so an optimizer with different options made it; "
                         "call init() of this one")


def make_plan(tx: Optimizer, params: Any, grads: Any = None) -> tuple[Plan, list[Any], list[Any]]:
    """The plan, the parameters' leaves, and the gradients'."""
    paths, tree = jax.tree_util.tree_flatten_with_path(params)
    leaves = [leaf for _, leaf in paths]
    names = [jax.tree_util.keystr(path) or "params" for path, _ in paths]
    if not leaves:
        raise ValueError("params has no leaves; pass the parameters as a pytree of arrays")
    gradients = leaves if grads is None else flatten_gradients(tree, params, grads)
    groups = ("", *tx.groups)
    tensors: list[Tensor] = []
    specs = flatten_specs(tx, tree)
    axis = find_axis(names, specs)
    for name, leaf, gradient, spec in zip(names, leaves, gradients, specs):
        dtype = check_array("parameter", name, leaf)
        if dtype != tensors[0].dtype if tensors else False:
            raise TypeError(f"parameter {name} is {dtype}, but parameter {tensors[0].name} is {tensors[0].dtype}; one optimizer takes "
                            "parameters of one dtype, so make an optimizer for each")
        of = check_array("the gradient of", name, gradient)
        if gradient.shape != leaf.shape:
            raise ValueError(f"the gradient of {name} is {describe(gradient)}, but the parameter is {describe(leaf)}; they must have the same shape")
        tensors.append(Tensor(name, tuple(leaf.shape), dtype, of, group_index(tx, groups, name, leaf), axis.devices if axis and spec else 1))
    program = find_program(tx, tensors)
    if axis:
        check_shards(tx, program, tensors)
    return Plan(program, tuple(tensors), tree, groups, axis), leaves, gradients


def flatten_specs(tx: Optimizer, tree: Any) -> list[Any]:
    """For each parameter the axis along which its first dimension is sharded, or None."""
    if tx.specs is None:
        return [None] * tree.num_leaves
    try:
        specs = tree.flatten_up_to(tx.specs)
    except ValueError as error:
        raise ValueError("specs is not a pytree like params; pass a PartitionSpec for each parameter") from error
    for spec in specs:
        if any(axis is not None for axis in spec[1:]):
            raise ValueError(f"specs: expected parameters sharded along their first dimension, as in PartitionSpec('data'); got {spec}")
    return [spec[0] if len(spec) else None for spec in specs]


def find_axis(names: Sequence[str], specs: Sequence[Any]) -> Axis | None:
    found = {spec: name for name, spec in zip(names, specs) if spec is not None}
    if not found:
        return None
    if len(found) > 1:
        (one, first), (two, second), *_ = found.items()
        raise ValueError(f"specs: {first} is sharded along {one!r}, but {second} along {two!r}; one optimizer takes one axis")
    axis = next(iter(found))
    try:
        return Axis(axis, jax.lax.psum(1, axis))
    except NameError as error:
        raise ValueError(f"specs: there is no axis {axis!r} here; call init() and step() inside jax.shard_map") from error


def check_shards(tx: Optimizer, program: Program, tensors: Sequence[Tensor]) -> None:
    if program.reductions()[1]:
        raise ValueError(f"specs: {tx.name} reduces over the elements, rows or columns of each parameter, so its parameters must be whole; "
                         "give each the spec PartitionSpec()")
    for t in tensors:
        if t.shards > 1 and t.elements % PIECE:
            raise ValueError(f"specs: a shard of {t.name} has {t.elements} elements; it must be a multiple of {PIECE}; or else keep the "
                             "parameter whole, with the spec PartitionSpec()")


def flatten_gradients(tree: Any, params: Any, grads: Any) -> list[Any]:
    try:
        return tree.flatten_up_to(grads)
    except ValueError as error:
        here = {jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]}
        there = {jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(grads)[0]}
        differing = [*sorted(here - there), *sorted(there - here)]
        what = f": {differing[0]} is only in {'params' if differing[0] in here else 'grads'}" if differing else ""
        raise ValueError(f"grads is not a pytree like params{what}") from error


def check_array(what: str, name: str, array: Any) -> str:
    dtype = NAMES.get(jnp.dtype(array.dtype)) if hasattr(array, "dtype") and hasattr(array, "shape") else None
    if dtype not in FLOATS:
        raise TypeError(f"{what} {name} is {describe(array)}; stepfuse takes arrays in float32, bfloat16 and float16; leave other arrays "
                        "out of the pytree")
    return dtype


def group_index(tx: Optimizer, groups: tuple[str, ...], name: str, leaf: Any) -> int:
    group = tx.group_of(name, leaf) if tx.group_of is not None else None
    if group is None:
        return 0
    if group not in groups[1:]:
        raise ValueError(f"group_of({name!r}, …) returned {group!r}; groups has {', '.join(groups[1:]) or 'none'}")
    return groups.index(group)


def find_program(tx: Optimizer, tensors: Sequence[Tensor]) -> Program:
    options = list(tx.options)
    model = tensors[0].dtype
    grads = sorted({t.gradient for t in tensors})
    keeps = any(o == "master" or o.startswith(("master=", "weight-rounding=", "store=weight=")) for o in options)
    if model != "f32" and not keeps:
        raise TypeError(f"parameter {tensors[0].name} is {model}; pass master=True, which keeps f32 copies, or weight_rounding='stochastic'")
    if keeps and model == "f32":
        raise TypeError(f"parameter {tensors[0].name} is f32; leave out master, weight_rounding and the entry 'weight' of store, which do not change a "
                        "parameter's dtype, or convert the parameters first")
    if model != "f32":
        options.append(f"model={model}")
    if grads != ["f32"]:
        options.append("grad=" + "|".join(grads))
    program = make_program(tx.formula, tuple(options))
    for what, made_for, found in (("parameters", program.weight.dtype, [model]), ("gradients", program.gradient.dtype, grads)):
        if made_for and found != [made_for]:
            raise TypeError(f"options: the step is made for {what} in {made_for}, but they are {' and '.join(found)}; leave out the option, because "
                            "dtypes follow from the arrays")
    return program


class Settings(NamedTuple):
    """Hyperparameters by (argument, group or -1): numbers that are attributes, and values that are an operand."""

    set_args: list[tuple[int, int]]
    set_values: list[float]
    dynamic: list[tuple[int, int]]
    traced: list[jax.Array]  # two words for each of them


def make_settings(tx: Optimizer, plan: Plan, count: jax.Array | None, hyper: Mapping[str, Hyper]) -> Settings:
    settings = Settings([], [], [], [])
    args = list(plan.program.args)
    given = [(name, -1, value) for name, value in {**tx.hyper, **hyper}.items()]
    for index, group_name in enumerate(plan.groups):
        given += [(name, index, value) for name, value in tx.groups.get(group_name, {}).items() if index and name not in hyper]
    for name, group, value in given:
        if name not in args:
            raise TypeError(f"{tx.name} has no hyperparameter '{name}'; it has {', '.join(args)}")
        if callable(value):
            value = value(count) if count is not None else 0.0
        target = (args.index(name), group)
        if isinstance(value, (int, float, np.number)):
            settings.set_args.append(target)
            settings.set_values.append(float(value))
        elif getattr(value, "shape", None) == ():
            settings.dynamic.append(target)
            settings.traced.append(to_words(plan.program.arg_types[name], value))
        else:
            raise TypeError(f"{name}: expected a number, an array of shape () or a schedule; got {describe(value)}")
    return settings


def attributes(tx: Optimizer, plan: Plan, settings: Settings) -> dict[str, Any]:
    """Everything that is fixed when the call is compiled; `key` is a digest of that."""
    made = {
        "text": plan.program.text,
        "names": "\n".join(t.name.replace("\n", " ") for t in plan.tensors),
        "groups": np.array([t.group for t in plan.tensors], np.int32),
        "set_args": np.array(settings.set_args, np.int32).reshape(-1),
        "set_values": np.array(settings.set_values, np.float64),
        "dynamic": np.array(settings.dynamic, np.int32).reshape(-1),
        "devices": np.int32(plan.axis.devices if plan.axis else 0),
        "sharded": np.array([t.shards > 1 for t in plan.tensors], np.int32),
        "exchanged": "\n".join(plan.exchanged),
        "init_scale": np.float64(tx.init_scale),
        "device": np.int32(tx.device),
        "threads": np.int32(tx.threads),
    }
    digest = hashlib.blake2b(digest_size=16)
    for name, value in made.items():
        digest.update(f"{name}={value.tobytes() if hasattr(value, 'tobytes') else value}\n".encode())
    digest.update(repr(plan.tensors).encode())
    return {**made, "key": digest.hexdigest()}


def init(tx: Optimizer, params: Any) -> State:
    library.load()
    plan, leaves, _ = make_plan(tx, params)
    made = attributes(tx, plan, make_settings(tx, plan, None, {}))
    results = jax.ffi.ffi_call(library.INIT, plan.results())(*leaves, **made)
    state = plan.state(jnp.zeros((), jnp.int32), results)
    if tx.seed and "seed" in state.values:
        state.values["seed"] = jnp.array(tx.seed, jnp.int32)
    return state


def step(tx: Optimizer, params: Any, state: State, grads: Any, hyper: Mapping[str, Hyper]) -> tuple[Any, State]:
    library.load()
    plan, leaves, gradients = make_plan(tx, params, grads)
    settings = make_settings(tx, plan, state.count, hyper)
    kept = plan.operands(state)
    numbers = jnp.stack(settings.traced) if settings.traced else jnp.zeros((0, 2), jnp.uint32)
    made = attributes(tx, plan, settings)
    arrays = [*leaves, *gradients, *kept]
    first = [numbers, *([jax.lax.axis_index(plan.axis.name)] if plan.axis else [])]
    if plan.axis and plan.exchanged:
        pieces = jax.ShapeDtypeStruct((len(plan.exchanged), sum(t.pieces for t in plan.tensors)), jnp.int32)
        own = jax.ffi.ffi_call(library.REDUCE, pieces)(*first, *arrays, **made)
        # Each piece is one device's and 0 on the others. As integers they are added without rounding.
        first.append(jax.lax.psum(own, plan.axis.name))
    operands = [*first, *arrays]
    results = [*(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves), *plan.results()]
    aliases = {len(first) + i: i for i in range(len(leaves))}
    # A count is converted to words before the call, and back after it.
    in_place = [v.dtype != "i64" for v in plan.program.values] + [True] * (len(kept) - len(plan.program.values))
    aliases.update({len(first) + 2 * len(leaves) + i: len(leaves) + i for i, alias in enumerate(in_place) if alias})
    new = jax.ffi.ffi_call(library.STEP, results, input_output_aliases=aliases)(*operands, **made)
    return plan.tree.unflatten(new[:len(leaves)]), plan.state(state.count + 1, new[len(leaves):])


def state_specs(tx: Optimizer, params: Any) -> State:
    """The PartitionSpecs of a state for whole parameters, like what init() returns."""
    if tx.specs is None:
        raise ValueError("specs: the optimizer was made without them; pass specs=, a PartitionSpec for each parameter")
    plan, _, _ = make_plan(tx._replace(specs=None), params)
    whole: Any = jax.sharding.PartitionSpec()
    specs = [jax.sharding.PartitionSpec(axis) if axis else whole for axis in flatten_specs(tx, plan.tree)]
    arrays = {b.name: plan.tree.unflatten([spec if b.exists_for(t) else None for t, spec in zip(plan.tensors, specs)])
              for b in plan.program.buffers}
    return State(whole, arrays, {v.name: whole for v in plan.program.values})


def to_words(dtype: str, value: Any) -> jax.Array:
    """A traced number as a step has it in memory, in two words: the second one is 0 if the type has four bytes or fewer."""
    if dtype == "f64":
        with enable_x64(True):  # for this conversion; the words have 32 bits
            return jax.lax.bitcast_convert_type(jnp.asarray(value).astype(jnp.float64), jnp.uint32)
    word = jnp.asarray(value).astype(bool if dtype == "bool" else DTYPES[dtype])
    word = word.astype(jnp.uint32) if dtype == "bool" else jax.lax.bitcast_convert_type(word, jnp.uint32)
    return jnp.stack([word, jnp.zeros_like(word)])
