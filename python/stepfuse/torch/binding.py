"""Divides an optimizer's parameters and state into parts, checks them, compiles a step per part, and binds it.

Binding is a transaction: if it fails, parts and state stay as they were, and the next step tries again.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import _core
from . import orders, packed, packed_shards, parts, private, stored
from .arguments import COPY_BLOCK, COPY_SCALES, ROW_BLOCKS
from .checks import DTYPES, check_copy, check_disjoint, check_memory, check_moments, check_parameter, check_together, check_whole, needs_whole
from .gathered import Gathered, can_gather
from .groups import SCALES, names_of, scaled
from .numbers import NUMBERS, from_bits, to_bits
from .options import BINDING_OPTIONS, recipe_options
from .parts import Key, Mode, Part
from .programs import has_rows, program
from .scaler import DLPACK
from .tensors import (
    DRAWN_TOGETHER, Position, column_count, columns_of, cuts_between_squares, draws_by_element, first_element, gradient_dtype, is_dense, is_distributed, is_first_copy,
    like_parameter, local, on_host, part_number, random_id, row_count, rows_are_blocks, same_layout,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .gathered import Whole
    from .owner import Owner
    from .ranks import Ranks

PER_STEP, PER_GROUP, PER_TENSOR, PER_ROW, PER_COLUMN = 0, 1, 2, 3, 4
COPIES_IN_SQUARES = {f"copy-scale={way}" for way, side in ROW_BLOCKS.items() if side == COPY_BLOCK}
COPIES_IN_BLOCKS = {f"copy-scale={way}" for way, scales in COPY_SCALES.items() if scales == "blocks"}
OWN_STATES = ("step", "momentum_begun", "counted", "updated")  # kept otherwise
PLAIN = Mode()
MAX_ELEMENTS = 1 << 44  # the library's limit
NUMBERS_OF_BINDINGS = itertools.count(1)
SAMPLES = {dtype: on_host([], dtype) for dtype in DTYPES}
INSIDE = [] if private.IS_PLAIN else list(SAMPLES.values())  # by which the walk finds where Python's tensors have torch's


def new_walk() -> Any:
    return _core.Walk(private.EXCHANGE, Tensor, INSIDE)


def other_states(made: Any) -> dict[str, tuple[str, int, int]]:
    """Returns states of a program other than arrays and step counts: name to type, granularity and initial bits."""
    return {name: (dtype, granularity, bits) for name, (dtype, granularity, other, bits) in made.states().items()
            if not other and name not in OWN_STATES}


def is_shared(name: str, granularity: int) -> bool:
    """Returns whether all groups have one value of a state. A seed belongs to the groups that chose it."""
    return granularity == PER_STEP and name != "seed"


class Binding:
    writes_weights = True

    def __init__(self, optimizer: Owner) -> None:
        self.optimizer = optimizer
        self.mode = Mode()
        self.parts: list[Part] = []
        self.order: list[tuple[Tensor, str, Tensor, torch.dtype]] = []  # parameter, name, what its gradient is laid out as, and its type
        self.walk: Any = None
        self.gathered = Gathered()
        self.packed_shards: list[packed_shards.PackedShards] = []  # copies in 4 bits of DTensors that ranks have in parts
        self.bound = False  # the walk is over what parts are bound to
        self.number = 0  # of the binding, among those of all optimizers; a new binding counts its steps from 0
        self.measured = False
        self.ranks: Ranks | None = None
        self.meshes: dict[Any, Ranks] = {}  # of the parameters, where these have several
        self.to_compare: Ranks | None = None  # ranks that are to be alike, and were not compared so far
        self.compared = False
        self.places: dict[int, tuple[int, int]] = {}  # by the parameter's id: its part and slot

    def pull(self) -> None:
        """Makes the optimizer's state true: counts that live on a GPU, buffers that no step has begun."""
        state = self.optimizer.state
        self.follow_groups()
        for part in self.parts:
            if part.counts is not None and not part.counts_on_host:
                part.set_values("step", part.counts, part.step.read_state("step"))
            for name, values in part.kept.items():
                dtype = part.states[name][0]
                part.set_values(name, values, [from_bits(b, dtype) for b in part.step.read_state(name)])
            for name, (dtype, granularity, _) in part.states.items():
                if granularity < PER_TENSOR:
                    bits = part.step.read_state(name)
                    # Groups whose first gradient is still to come get it, too.
                    for g, group in enumerate(self.optimizer.param_groups if is_shared(name, granularity) else part.groups):
                        group[name] = from_bits(bits[g if granularity == PER_GROUP else 0], dtype)
            if "momentum_begun" in program(self.optimizer._recipe, part.options).states():
                for p, begun in zip(part.params, part.step.read_state("momentum_begun")):
                    if not begun and p in state:
                        stored.pop_arrays(state[p], "momentum_buffer")

    def follow_groups(self) -> None:
        """Takes dicts that have replaced groups of the parts. A replacement has parameters of the group that is gone."""
        now = {id(group) for group in self.optimizer.param_groups}
        known = {id(group) for part in self.parts for group in part.groups}
        if known <= now:
            return
        new = {id(p): group for group in self.optimizer.param_groups if id(group) not in known for p in group["params"]}
        for part in self.parts:
            part.groups = [group if id(group) in now else next((new[id(p)] for p in group["params"] if id(p) in new), group)
                           for group in part.groups]

    def bind(self) -> None:
        self.pull()
        self.bound = self.measured = False
        state = self.optimizer.state
        before = {key: (values, dict(values)) for key, values in state.items() if isinstance(values, dict)}
        try:
            self.bind_parts()
        except BaseException:
            for key in [key for key in state if isinstance(state[key], dict) and key not in before]:
                del state[key]
            for key, (values, items) in before.items():
                values.clear()
                values.update(items)
                state[key] = values
            raise
        self.number = next(NUMBERS_OF_BINDINGS)
        self.bound = True

    def bind_parts(self) -> None:
        old = {part.key: part for part in self.parts}
        known = {id(p) for part in self.parts for p in part.params}
        written = self.find_written()
        counts = {id(p): c for part in self.parts if part.counts is not None for p, c in zip(part.params, part.step.read_state("step"))}
        self.meshes = self.optimizer._find_meshes() if self.mode.reads_ahead or self.mode.reports_layers else {}
        gathered = Gathered()
        made, places = self.divide(known, gathered)
        if self.mode.reads_ahead:
            check_together(made, self.mode)
        self.ranks = self.optimizer._find_ranks() if self.mode.reads_ahead else None
        if len(made) > 1 and self.optimizer._couples:
            kinds = sorted(f"{' '.join(part.kind)} on {part.device}" for part in made)
            raise _core.Error(f"the formula of {type(self.optimizer).__name__} has one value for several parameters, which then need the same dtype, "
                              f"device and options; here they have: {'; '.join(kinds)}. Make an optimizer for each")
        shared = len(made) > 1 or self.ranks is not None
        for part in made:  # the last part adapts the scale, after the others have read it
            part.options = (*part.kind, *self.mode.options(shared, part is made[-1], not all(part.counted)))
        check_disjoint(type(self.optimizer).__name__, made)
        walk = new_walk()
        like = {}
        for part in made:
            part.is_capturable = parts.on_cuda(part.device) and any(group.get("capturable") for group in self.optimizer.param_groups)
            self.make_step(part, old.get(part.key), shared, counts)
            like.update({id(p): weight for p, weight in zip(part.params, self.bind_arrays(part, written, gathered))})
        if self.mode.scaler is not None and made:
            self.mode.scaler._attach(made[0].device)
        followed = {id(p) for part in made if "master" in program(self.optimizer._recipe, part.options).buffers() for p in part.params}
        order = []
        for p, name, part, slot in places:
            weight = like.get(id(p), p)
            if id(p) in gathered.by_id:
                gathered.by_id[id(p)].index = len(order)
            order.append((p, name, weight, gradient_dtype(p)))
            walk.add(p, part, slot, weight, SAMPLES.get(gradient_dtype(p), p), id(p) in followed)
        for part in made:
            for number in part.numbers:
                walk.number(part.step, *number)
            if part.counts_on_host:
                part.step.show_counts(part.counts, part.counts.data_ptr())
                walk.counts(part.step)
        free = {key for part in made for _, _, _, key, _ in part.numbers} - self.optimizer._switches()
        walk.watch(self.optimizer.state, self.optimizer.param_groups, self.choices(), free)
        self.packed_shards = packed_shards.collect(self.optimizer, places) if self.writes_weights else []
        self.parts, self.order, self.walk, self.gathered = made, order, walk, gathered
        self.to_compare = None if self.compared else self.ranks or self.optimizer._find_alike()
        self.places = {id(p): (part, slot) for p, _, part, slot in places}

    def find_written(self) -> set[int]:
        """Returns the ids of parameters that the program may have written to since the last step, or since their state was loaded or copied.
        A parameter that comes back with its state is among them."""
        params = [p for group in self.optimizer.param_groups for p in group["params"]]
        if self.walk is None:
            loaded = self.optimizer._loaded_weights
            return {id(p) for p in params if id(p) in loaded and loaded[id(p)] != packed.version_of(p)}
        known = {id(p) for p, *_ in self.order}
        back = {id(p) for p in params if id(p) not in known and self.optimizer.state.get(p)}
        return {id(self.order[i][0]) for i in self.walk.written()} | back

    def gathers(self, kind: tuple[str, ...], p: Tensor) -> bool:
        """Whether a step of that kind needs more of a DTensor than a rank has, and one rank can have it."""
        if not can_gather(p):
            return False
        if not COPIES_IN_BLOCKS.isdisjoint(kind) and not rows_are_blocks(p, COPY_BLOCK):
            return True
        if not COPIES_IN_SQUARES.isdisjoint(kind) and not cuts_between_squares(p, COPY_BLOCK):
            return True
        options = (*kind, *self.mode.options(False, True, False))
        return needs_whole(self.optimizer._recipe, options, (*self.mode.sums(), "first_bad"), p.ndim > 1)

    def divide(self, known: set[int], gathered: Gathered) -> tuple[list[Part], list[tuple[Tensor, str, int, int]]]:
        """The parameters that had a gradient or have state, in parts; and where each parameter stands."""
        state = self.optimizer.state
        index: dict[Key, int] = {}
        divided: list[Part] = []
        places = []
        who = type(self.optimizer).__name__
        for g, group in enumerate(self.optimizer.param_groups):
            try:
                self.optimizer._check_group(group)
            except ValueError as error:
                raise ValueError(f"param_groups[{g}]: {error}") from None
            for i, (p, name) in enumerate(zip(group["params"], names_of(group, g))):
                is_unused = id(p) not in known and not state.get(p)
                if p.grad is None and not self.optimizer._at_once and is_unused:
                    places.append((p, name, -1, 0))
                    continue
                check_parameter(who, p, name)
                if self.optimizer._pieces is not None:
                    self.optimizer._pieces.check(who, p, name)
                check_copy(who, p, name, group)
                counted = is_first_copy(p) and (self.optimizer._counted is None or bool(self.optimizer._counted(p)))
                key = self.key(group, p)
                check_moments(who, p, name, key.kind, self.position(p, 0).full_size, stored.largest_block(group.get("moments")))
                if key not in index:
                    index[key] = len(divided)
                    divided.append(Part(*key))
                needs_rows = functools.partial(has_rows, self.optimizer._recipe, key.kind)
                scaling = stored.scale_mode(group, p) or packed.scale_mode(group, p)
                position = stored.with_matrix_columns(self.position(p, len(places), key.seed is not None), scaling, p, name, needs_rows)
                whole = gathered.add(p, name).weight if self.gathers(key.kind, p) else None
                if whole is not None:
                    orders.check_gathered(who, name, group, p, scaling)
                slot = divided[index[key]].add(p, name, group, counted, position if whole is None else position._replace(offset=0), i, whole)
                places.append((p, name, index[key], slot))
        return divided, places

    def position(self, p: Tensor, number: int, draws: bool = False) -> Position:
        """Returns the position of this rank's part in the whole parameter. For DTensors its beginning only decides random bits."""
        if known := self.optimizer._shards.get(id(p)):
            return known
        begin = first_element(p) if draws else None
        if begin is None or begin % DRAWN_TOGETHER:
            return Position(random_id(number, part_number(p)), 0, p.numel(), columns_of(p))
        return Position(random_id(number, 0), begin, p.numel(), columns_of(p))

    def rounding(self, group: dict[str, Any], p: Tensor) -> str | None:
        """Returns how a weight without a master is rounded: with random bits only if these are the same on any mesh."""
        rounding = group.get("weight_rounding")
        return "kahan" if rounding == "stochastic" and not draws_by_element(p) else rounding

    def choices(self) -> list[tuple[Any, ...]]:
        """Returns what a binding depends on in the groups. The walk asks if an item is a different object."""
        self.follow_groups()
        return [(*self.optimizer._options(g), *self.shared_options(g), *(g.get(n) for n in BINDING_OPTIONS))
                for g in self.optimizer.param_groups]

    def shared_options(self, group: dict[str, Any]) -> list[str]:
        """Returns a group's options that decide the program of any optimizer."""
        names = scaled(group)
        return [*([f"per-tensor={'|'.join(names)}"] if names else []), *recipe_options(group)]

    def key(self, group: dict[str, Any], p: Tensor) -> Key:
        draws = self.optimizer._draws or self.rounding(group, p) == "stochastic" and p.dtype != torch.float32
        mesh = p.device_mesh if self.meshes and is_distributed(p) else None
        copies = packed.scale_mode(group, p) if self.writes_weights and packed.is_in_parts(p) else None
        return Key(self.kind(group, p), p.device, group.get("seed") if draws else None, mesh, copies)

    def kind(self, group: dict[str, Any], p: Tensor) -> tuple[str, ...]:
        dtype = DTYPES[p.dtype]
        options = [f"grad={DTYPES[gradient_dtype(p)]}", *self.optimizer._options(group), *self.shared_options(group)]
        if dtype != "f32":
            rounding, master = self.rounding(group, p), group.get("master")
            options += [f"model={dtype}", *([f"weight-rounding={rounding}"] if rounding else [])]
            options += [f"master={master or 'f32'}"] if master or not rounding else []
            options += [f"copy-scale={way}" for way in (stored.scale_mode(group, p),) if way is not None]
        elif (way := packed.step_mode(group, p)) is not None:
            options += ["master=f32", f"copy-scale={way}"]
        options += orders.options_of(group, p, stored.scale_mode(group, p) or packed.step_mode(group, p))
        return (*options, *self.moments(group, p, tuple(options)))

    def moments(self, group: dict[str, Any], p: Tensor, options: tuple[str, ...]) -> list[str]:
        """Returns the form of a parameter's moments: in a format, or in f32 for small parameters and rows that end within blocks."""
        chosen = group.get("moments")
        if chosen in (None, "f32"):
            return []
        if chosen in stored.STORED or self.optimizer._couples:  # all parameters share values
            return [f"moments={chosen}"]
        least, position = min(int(group.get("moments_min", 0)), MAX_ELEMENTS), self.position(p, 0)
        if position.full_size >= least and not self.fits_blocks(chosen, p, position, options):
            return []
        return [f"moments={chosen}", *([f"moments-below={least}"] if least > 0 else [])]

    def fits_blocks(self, moments: str, p: Tensor, position: Position, options: tuple[str, ...]) -> bool:
        """Returns whether a parameter's moments may be in blocks, given what else divides it: shards, or per-row values."""
        if is_distributed(p):
            return stored.fits_shards(moments, p)
        return stored.fits_rows(moments, position) or not has_rows(self.optimizer._recipe, options)

    def make_step(self, part: Part, old: Part | None, shared: bool, counts: dict[int, int]) -> None:
        """Compiles a part's step with the numbers that it continues from. `counts` are steps made so far, by the parameter's id."""
        made = program(self.optimizer._recipe, part.options)
        check_whole(self.optimizer, part, made.text(), (*self.mode.sums(), "first_bad"), self.ranks is not None)
        scaler = self.mode.scaler
        flags = "tensor-flags" in part.options
        layout = [(name, mine.numel(), g, flags and not counted, *position) for name, mine, g, counted, position in zip(
            part.names, part.locals, part.group_of, part.counted, part.positions)]
        begun = {}
        if old is not None and "momentum_begun" in made.states():
            begun = {id(p): b for p, b in zip(old.params, old.step.read_state("momentum_begun"))}
        part.step = _core.Step(made, layout, *parts.core_device(part.device), None if scaler is None else scaler._native,
                               self.mode.deferred or shared and self.mode.reads_ahead, parts.allocator(part.device))
        part.sums = {name: torch.utils.dlpack.from_dlpack(sum) for name, sum in part.step.partials(
            DLPACK[part.device.type], part.device.index or 0, False).items()}
        part.sums = {name: value for name, value in part.sums.items() if name in self.mode.sums()}
        if self.optimizer._pieces is not None and self.optimizer._pieces.observes:
            part.pieces = {name: torch.utils.dlpack.from_dlpack(values) for name, values in part.step.partials(
                DLPACK[part.device.type], part.device.index or 0, True).items() if name in part.sums}
        where = {id(group): index for index, group in enumerate(self.optimizer.param_groups)}
        for index, name in enumerate(made.args()):
            key, place = self.optimizer._source(name)
            if name + "s" in (SCALES[scale] for scale in scaled(part.groups[0])):
                part.scales.append((index, name + "s"))
            elif key in part.groups[0]:
                part.numbers += [(index, g, where[id(group)], key, place) for g, group in enumerate(part.groups)]
            else:
                part.args.append((index, name))
        state = self.optimizer.state
        if "seed" in made.states() or "step" in made.states() and (self.optimizer._counts or "clip_average" in made.states()):
            part.counts = on_host([float(state[p].get("step", 0.0)) for p in part.params])
            shown = part.counts.tolist()
            exact = on_host([float(counts.get(id(p), -1)) for p in part.params]).tolist()
            part.step.write_state("step", [counts[id(p)] if e == c else int(c) for p, c, e in zip(part.params, shown, exact)])
            part.publish(state, "step", part.counts.unbind())
        if "momentum_begun" in made.states():
            part.step.write_state("momentum_begun", [
                int(bool(stored.find_arrays(state[p], "momentum_buffer")) and begun.get(id(p), 1)) for p in part.params])
        part.states = other_states(made)
        for name, (dtype, granularity, initial) in part.states.items():
            if name in stored.NAMES:
                continue
            if granularity == PER_TENSOR:
                first = from_bits(initial, dtype)
                values = part.kept[name] = on_host([state[p].get(name, first) for p in part.params], NUMBERS[dtype])
                part.publish(state, name, values.unbind())
                numbers = values.tolist()
            elif granularity in (PER_ROW, PER_COLUMN):
                count = row_count if granularity == PER_ROW else column_count
                values = part.kept[name] = self.line_state(part, name, dtype, from_bits(initial, dtype), count)
                numbers = values.tolist()
            else:
                groups = part.groups if granularity == PER_GROUP else part.groups[:1]
                if is_shared(name, granularity):  # a group that is new to the part may lack it
                    groups = [next((g for g in (*part.groups, *self.optimizer.param_groups) if name in g), {})]
                numbers = [g.get(name, from_bits(initial, dtype)) for g in groups]
            part.step.write_state(name, [to_bits(x, dtype) for x in numbers])

    def line_state(self, part: Part, name: str, dtype: str, first: float, count: Callable[[Tensor, int], int]) -> Tensor:
        """Returns per-row or per-column values that a step keeps, one parameter after the other. Each parameter's state is its part of them."""
        state = self.optimizer.state
        counts = [count(p, position.columns) for p, position in zip(part.locals, part.positions)]
        for p, is_gathered, mine, position in zip(part.params, part.gathered, part.locals, part.positions):
            if is_gathered and mine.numel() == 0 and name not in state[p]:  # what the owner has will be copied to
                state[p][name] = torch.full((count(p, position.columns),), first, dtype=NUMBERS[dtype], device="cpu")
        kept = [state[p].get(name) if n else None for p, n in zip(part.params, counts)]
        for k, n, label in zip(kept, counts, part.names):
            if k is not None and k.numel() != n:
                raise ValueError(f"{type(self.optimizer).__name__}: state '{name}' of {label} has shape {tuple(k.shape)}, and this step has {n} "
                                 "values there: delete the parameter's state, or load a checkpoint of this class. torch.optim.Adafactor "
                                 "factors more than two dimensions in a different way")
        kept = [torch.full((n,), first, dtype=NUMBERS[dtype], device="cpu") if k is None else k.reshape(n).to("cpu", NUMBERS[dtype])
                for k, n in zip(kept, counts)]
        values = torch.cat(kept) if kept else on_host([], NUMBERS[dtype])
        part.publish(state, name, values.split(counts), per_line=True)
        return values

    def bind_arrays(self, part: Part, written: set[int], gathered: Gathered) -> list[Tensor]:
        """Binds weights and state; returns what each parameter's gradient has to be laid out as. Masters take what was `written`
        to parameters."""
        weights = []
        made = program(self.optimizer._recipe, part.options)
        copies = [packed.find(self.optimizer._live_packed(), p) for p, g in zip(part.params, part.group_of)
                  if packed.step_mode(part.groups[g], p) and "weight" in made.buffers()]
        if "weight" in made.buffers():
            known = self.optimizer._live_scales()
            for p, g in zip(part.params, part.group_of):
                if (way := stored.scale_mode(part.groups[g], p)) is not None or p in self.optimizer.state:  # which has else none
                    stored.convert_scales(known, self.optimizer.state[p], p, way)
            # The conversion has read them. With copies in 4 bits "master" is the parameter itself.
            self.forget_masters(part, {name: buffer for name, buffer in made.buffers().items() if not (copies and name == "master")})
        if copies:  # of parameters that are their own masters
            packed.bind(part, copies)
        elif "weight" in made.buffers():
            stored.bind_scales(part, self.optimizer.state)
            for p, made_number, kept in stored.shared_numbers(part):
                gathered.by_id[id(p)].shared.append((made_number, kept))
        for p in part.locals:
            weight = p.detach()
            if not is_dense(p):
                weight = p.detach().contiguous()
                part.copies.append((p, weight))
            weights.append(weight)
        part.ordered = [self.optimizer._find_ordered(p, part.groups[g]) for p, g in zip(part.params, part.group_of)
                        if orders.BUFFERS.intersection(made.buffers())]
        for name, declared in made.buffers().items():
            buffer = stored.Buffer(*declared)
            if name == "grad":
                continue
            if name in orders.BUFFERS:
                arrays = [ordered.arrays[name] for ordered, _, _ in part.ordered]
            elif name == ("master" if copies else "weight"):
                arrays = weights
            elif copies and name in ("weight", "weight_scale"):
                arrays = [copy.words if name == "weight" else copy.scales for copy in copies]
            elif name == "weight_scale":
                arrays = [self.scales(p, gathered.by_id[id(p)] if whole else None) for p, whole in zip(part.params, part.gathered)]
            elif buffer.is_output and name != "master":  # the master exists before the first step
                arrays = part.outputs[name] = [torch.empty_like(w, dtype=buffer.torch_dtype()) for w in weights]
            else:
                arrays = [self.array(p, local(p).detach() if whole else w, label, name, buffer) if buffer.exists_for(position) else None
                          for p, w, label, position, whole in zip(part.params, weights, part.names, part.positions, part.gathered)]
                arrays = [gathered.by_id[id(p)].bind(a, buffer.block) if whole else a for p, a, whole in zip(part.params, arrays, part.gathered)]
            if name == "master" and not copies:  # which follow their parameters already
                for p in part.params:
                    if id(p) in written:
                        self.take_writes(p)
            part.step.bind(name, [0 if a is None else a.data_ptr() for a in arrays])
        part.step.adopt_state()
        return weights

    def scales(self, p: Tensor, whole: Whole | None) -> Tensor | None:
        """Returns the array of a parameter's scales that this rank's step writes."""
        kept = self.optimizer.state[p]["weight_scale"]
        if whole is None:
            return local(kept)
        return whole.bind(local(kept), COPY_BLOCK) if is_distributed(kept) else whole.bind_shared(kept)

    def take_all_writes(self, params: list[Tensor]) -> None:
        """Takes what the program wrote to parameters into their masters, or into the copies of those that are their own masters."""
        own = {id(p) for p in params if p.dtype == torch.float32}
        for p in params:
            if id(p) not in own:
                self.take_writes(p)
        for part in self.parts if own else ():
            packed.take_writes(part, own)

    def take_writes(self, p: Tensor) -> None:
        """Takes what the program wrote to the parameter into its master."""
        stored.take_writes(self.optimizer.state[p], p)

    def forget_masters(self, part: Part, buffers: dict[str, Any]) -> None:
        """Drops masters and rounding errors of parameters that are stepped without, because they would be outdated if used again."""
        outdated = [*(() if stored.RESTS.keys() & buffers.keys() else stored.RESTS), *({stored.KAHAN} - buffers.keys())]
        for p in part.params:
            for name in outdated if p in self.optimizer.state else ():
                self.optimizer.state[p].pop(name, None)

    def array(self, p: Tensor, weight: Tensor, label: str, name: str, buffer: stored.Buffer) -> Tensor:
        """Returns an array of a parameter's state with the weight's layout. It is made or converted if necessary."""
        state = self.optimizer.state[p]
        have = None if state.get(name) is None else local(state[name])
        if have is not None:
            check_memory(type(self.optimizer).__name__, have, f"state '{name}' of {label}")
        if (type(have) is Tensor and have.dtype == buffer.torch_dtype() and have.device == p.device
                and (same_layout(have, weight) if buffer.block == 1 else have.numel() == buffer.count(weight) and have.is_contiguous())
                and is_distributed(state[name]) == is_distributed(p) and (have.dim() == 1 or buffer.block == 1 or is_distributed(p))):
            return have
        moment, form = stored.split_name(name)
        if form or have is None and stored.find_arrays(state, moment):
            arrays = stored.convert({key: local(value).to(p.device) for key, value in stored.pop_arrays(state, moment).items()},
                                   moment, form, weight, label, self.initial(moment))
            state.update((key, like_parameter(p, value, stored.block_size(key))) for key, value in arrays.items())
            return self.array(p, weight, label, name, buffer)
        if have is None and name in stored.RESTS and stored.find_rest(state):
            stored.convert_rest(state, name, p)
            return self.array(p, weight, label, name, buffer)
        made = torch.empty_like(weight, dtype=buffer.torch_dtype(), memory_format=torch.preserve_format)
        if have is None and name == "master" and stored.find_scales(state):
            made.copy_(local(stored.dequantize(state, p)).reshape(made.shape))
        elif have is None:
            made.copy_(weight) if buffer.source >= 0 else made.fill_(self.initial(name))
        elif have.numel() == weight.numel():
            made.copy_(have.reshape(weight.shape))
        else:
            raise ValueError(f"state '{name}' of {label} has shape {tuple(have.shape)}, but the parameter has {tuple(weight.shape)}")
        state[name] = like_parameter(p, made)
        return made

    def initial(self, name: str) -> float:
        return self.optimizer.defaults.get("initial_accumulator_value", 0.0) if name == "sum" else 0.0
