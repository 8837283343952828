"""Between an optimizer's parameters and state and the compiled steps: makes, binds and runs them.

Everything is bound lazily, at the first step and whenever the walk says that something other than gradients changed.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .. import __version__, _core
from . import copies, formats, masters, parts
from .checks import DTYPES, check_copy, check_disjoint, check_moments, check_parameter, check_together, check_whole
from .groups import SCALES, names_of, scaled
from .numbers import NUMBERS, from_bits, to_bits
from .parts import Key, Mode, Part
from .scaler import DLPACK
from .tensors import (
    Place, column_count, columns_of, gradient_dtype, increment_versions, is_dense, is_distributed, is_first_copy, like_parameter, local, part_number, row_count, same_layout, type_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .fused import Fused
    from .ranks import Ranks

PER_STEP, PER_GROUP, PER_TENSOR, PER_ROW, PER_COLUMN = 0, 1, 2, 3, 4
OTHER_CHOICES = ("weight_rounding", "seed", "moments", "moments_min", "master", "copy_scale")  # of a group, that a step depends on
OWN_STATES = ("step", "momentum_begun", "counted", "updated")  # kept otherwise
PLAIN = Mode()
MOST = 1 << 44  # elements that the library knows of
EXCHANGE = getattr(Tensor, "__dlpack_c_exchange_api__", None)  # torch >= 2.10
SAMPLES = {dtype: torch.empty(0, dtype=dtype) for dtype in DTYPES}

_programs: dict[tuple[str, tuple[str, ...]], Any] = {}


def program(recipe: str, options: tuple[str, ...]) -> Any:
    key = (recipe, options)
    if key not in _programs:
        _programs[key] = _core.Program(recipe, options)
    return _programs[key]


@functools.lru_cache(maxsize=256)
def has_rows(recipe: str, options: tuple[str, ...]) -> bool:
    """Whether that step has values of rows, which blocks of a format must not end in."""
    return "/row>" in program(recipe, options).text()


def kept_states(made: Any) -> dict[str, tuple[str, int, int]]:
    """Of what a program keeps beside arrays and step counts: type, domain, and the bits that it begins with."""
    return {name: (dtype, domain, bits) for name, (dtype, domain, other, bits) in made.states().items()
            if not other and name not in OWN_STATES}


class Engine:
    def __init__(self, optimizer: Fused) -> None:
        self.optimizer = optimizer
        self.mode = Mode()
        self.max_norm = 0.0
        self.parts: list[Part] = []
        self.order: list[tuple[Tensor, str, Tensor, torch.dtype]] = []  # parameter, name, what its gradient is laid out as, and its type
        self.walk: Any = None
        self.measured = False
        self.kept: dict[int, Tensor] = {}  # copies of gradients that lie otherwise, while a step may read them
        self.pid = os.getpid()
        self.ranks: Ranks | None = None
        self.to_compare: Ranks | None = None  # ranks that are to be alike, and were not compared so far
        self.compared = False
        self.places: dict[int, tuple[int, int]] = {}  # by the parameter's id: its part and slot
        self.spread: list[tuple[Tensor, int]] = []  # DTensors, and where their part on this rank lies

    # --- a step

    def measure(self, mode: Mode) -> None:
        """The part of a deferred step that only reads gradients."""
        self.scan(mode, {})
        if self.to_compare is not None:
            self.agree()
        self.reduce()

    def run(self, mode: Mode, max_norm: float | None, norm: float | None) -> None:
        # What was measured and not stepped with is of other gradients.
        measured = self.measured and mode == self.mode
        self.scan(mode, self.kept if measured else {}, increment_versions)
        if self.to_compare is not None:
            self.agree()
        if not self.measured and self.mode != PLAIN and (
                self.ranks is not None or len(self.parts) > 1 and self.parts[0].sums):
            self.reduce()
        for index, part in enumerate(self.parts):
            if part.args:
                self.set_args(part, max_norm, norm)
            if part.scales:
                part.set_scales()
            for p, copy in part.copies:
                copy.copy_(p)
            part.step.run(self.walk, index, part.stream())
            copies.publish(part)
            for p, copy in part.copies:
                p.copy_(copy)
            part.early.clear()
        if self.ranks is not None:
            self.ranks.step += 1
        self.measured = False
        self.kept = {}  # only now: the CPU's kernels have read them; a GPU's allocator knows the stream

    def scan(self, mode: Mode, kept: dict[int, Tensor], touch: Callable[[list[Tensor]], None] | None = None) -> None:
        """Finds the gradients, and binds anew where anything else changed; `touch` is called with what will be stepped."""
        if self.pid != os.getpid():
            raise _core.Error("this optimizer has made steps before the process was forked, and its threads stayed "
                              "behind: make a new one in the child, or start the child with 'spawn'")
        groups = self.optimizer.param_groups
        odd = None
        if self.walk is not None and self.mode == mode and not (
                self.spread and any(local(p).data_ptr() != at for p, at in self.spread)):
            odd = self.walk.scan(groups, self.optimizer.state, self.choices, touch)
        if odd is None or any(gradient_dtype(p) != dtype for p, _, _, dtype in map(self.order.__getitem__, odd)):
            self.mode = mode
            self.bind()
            kept = {}
            odd = self.walk.scan(groups, self.optimizer.state, self.choices, touch)
            if odd is None:
                raise _core.Error("the parameters changed while they were bound: another thread steps, too?")
        self.kept = {i: self.dense_gradient(i, kept.get(i)) for i in odd} if odd else {}

    def agree(self) -> None:
        """Once, before the first step: ranks that differ would wait for each other, or their models would go apart."""
        ranks, self.to_compare = self.to_compare, None
        self.compared = True
        optimizer, scaler = self.optimizer, self.mode.scaler
        # What was loaded into a sharded optimizer counts more steps than a rank without a share has.
        ranks.step = max([ranks.step, *(int(part.counts.max()) for part in self.parts if part.counts is not None)])
        facts = {"version": [__version__],
                 "optimizer": [type(optimizer).__name__, f"norm {self.mode.norm}", f"external_norm {self.mode.external_norm}",
                               f"{'no ' if scaler is None else ''}loss scaler", f"deferred {self.mode.deferred}"],
                 "step count": [str(ranks.step)],
                 "loss scale": ["none" if scaler is None else str(scaler.get_scale())]}
        if optimizer._group is None:  # the same parameters
            facts["layout"] = [f"{name} {tuple(p.shape)} {p.dtype} {getattr(p, 'placements', '')}" for p, name, *_ in self.order]
        if optimizer._group is None or optimizer._shards:  # or parts of the same
            facts["program"] = [line for part in self.parts
                                for line in program(optimizer._recipe, part.options).text().splitlines()]
            facts["number"] = self.numbers()
        ranks.agree(facts)

    def numbers(self) -> list[str]:
        """What the groups say that the steps take, but for factors of single parameters, which ranks with parts have of their own."""
        groups, said = self.optimizer.param_groups, []
        for part in self.parts:
            for _, _, where, key, place in part.numbers:
                value = groups[where][key]
                said.append(f"{key} of group {where}{'' if place < 0 else f' at {place}'} = {float(value if place < 0 else value[place])!r}")
            said += [f"seed {part.key.seed}"] if part.key.seed is not None else []
            if not self.optimizer._shards:
                said += [f"{key} of a group = {group[key]}" for _, key in part.scales for group in part.groups]
        return list(dict.fromkeys(said))

    def reduce(self) -> None:
        """The first phase, and what it adds up over all parts and ranks."""
        pieces = self.optimizer._pieces
        if pieces is not None:  # they stand from observe() of all tensors until reduce()
            for index, part in enumerate(self.parts):
                if self.measured or len(part.early) < len(part.params):
                    self.observe(index, 0, len(part.params))
            exchanged = pieces.exchange(self)
        for index, part in enumerate(self.parts):
            part.step.reduce(self.walk, index, part.stream(), self.measured and pieces is None)
            if pieces is not None:
                for name, total in exchanged[index].items():
                    part.sums[name].copy_(total)
        self.measured = True
        if self.ranks is None and len(self.parts) == 1:
            return
        largest = self.mode.norm == "inf"
        totals = {name: torch.stack([part.sums[name] for part in self.parts])
                  for name in (self.parts[0].sums if self.parts else ())}
        totals = {name: t[0] if len(t) == 1 else t.amax() if largest else t.sum() for name, t in totals.items()}
        if self.ranks is not None and pieces is None:
            words = torch.stack([*totals.values(), *(torch.zeros(2 - len(totals), device=self.ranks.device))])
            self.ranks.all_reduce("the all-reduce of the norm", words, largest)
            totals = dict(zip(totals, words))
        for part in self.parts:
            for name, total in totals.items():
                part.sums[name].copy_(total)

    def observe(self, index: int, first: int, count: int) -> None:
        """The first phase of some tensors of a part, whose gradients lie where they did in the last step."""
        part = self.parts[index]
        if part.sums and self.ranks is not None:
            part.step.observe(self.walk, index, first, count, part.stream())
            part.early.update(range(first, first + count))

    def norm(self) -> Tensor:
        """Of the measured gradients, on their device."""
        if not self.parts:
            return torch.tensor(0.0)
        if self.mode.norm == "l2":
            total = self.parts[0].sums["sum"]
            if total.is_cuda:
                return total.sqrt()
            norm = total.clone()
            _core.take_root(norm.data_ptr())  # torch's is an ulp off on the CPU
            return norm
        return self.parts[0].sums["norm"].clamp(min=0.0)

    def found_inf(self) -> Tensor | None:
        """Whether the newest step found inf, as what is not 0; None where it did not look, or there was no gradient."""
        if self.walk is None or not self.walk.any():
            return None
        sums = self.parts[0].sums
        return sums.get("nonfinite_sum", sums.get("found_inf"))

    def set_args(self, part: Part, max_norm: float | None, norm: float | None) -> None:
        for arg, name in part.args:
            if name == "external_norm":
                value = norm
            elif name == "max_norm":
                value = max_norm
            else:
                value = self.mode.scaler._factors[name]
            part.set(arg, float(value))

    def dense_gradient(self, index: int, copy: Tensor | None) -> Tensor:
        """A gradient that lies otherwise than its parameter, as a copy that does not; the rest is refused."""
        p, name, like, _ = self.order[index]
        grad = p.grad
        who = type(self.optimizer).__name__
        if is_distributed(p) and is_distributed(grad):
            if grad.placements != p.placements:
                raise RuntimeError(f"{who}: {name} is placed as {p.placements}, its gradient as {grad.placements}; "
                                   "redistribute() it before the step")
            grad = grad._local_tensor
            if same_layout(grad, like):
                self.walk.set(index, grad.data_ptr())
                return grad
        if type(grad) is not Tensor:
            raise TypeError(f"{who} takes plain tensors; the gradient of {name} is a {type_name(grad)}")
        if grad.layout != torch.strided:
            raise RuntimeError(f"{who} does not support sparse gradients: that of {name} is one; use torch.optim.SparseAdam "
                               "for it, or sparse=False in its embedding")
        if copy is None:
            copy = torch.empty_like(like, dtype=grad.dtype)
        copy.copy_(grad)
        self.walk.set(index, copy.data_ptr())
        return copy

    def stats(self, wait: bool) -> dict[str, float] | None:
        return self.parts[-1].step.stats(wait, self.parts[-1].stream()) if self.parts else None

    # --- binding

    def pull(self) -> None:
        """Makes the optimizer's state true: counts that live on a GPU, buffers that no step has begun."""
        state = self.optimizer.state
        for part in self.parts:
            if part.counts is not None and not part.counts_on_host:
                part.counts.copy_(torch.tensor(part.step.read_state("step"), dtype=torch.float32))
            for name, values in part.kept.items():
                dtype = part.states[name][0]
                values.copy_(torch.tensor([from_bits(b, dtype) for b in part.step.read_state(name)], dtype=values.dtype))
            for name, (dtype, domain, _) in part.states.items():
                if domain < PER_TENSOR:
                    bits = part.step.read_state(name)
                    for g, group in enumerate(part.groups):
                        group[name] = from_bits(bits[g if domain == PER_GROUP else 0], dtype)
            if "momentum_begun" in program(self.optimizer._recipe, part.options).states():
                for p, begun in zip(part.params, part.step.read_state("momentum_begun")):
                    if not begun and p in state:
                        formats.take(state[p], "momentum_buffer")

    def bind(self) -> None:
        self.pull()
        old = {part.key: part for part in self.parts}
        known = {id(p) for part in self.parts for p in part.params}
        self.walk = None
        self.measured = False
        self.parts, places = self.divide(known)
        if self.mode != PLAIN:
            check_together(self.parts, self.mode)
        self.ranks = self.optimizer._find_ranks() if self.mode != PLAIN else None
        if len(self.parts) > 1 and self.optimizer._couples:
            kinds = sorted(f"{' '.join(part.kind)} on {part.device}" for part in self.parts)
            raise _core.Error(f"the formula of {type(self.optimizer).__name__} has one value for several parameters, which "
                              f"must then be of one dtype and kind of group; here are {'; '.join(kinds)}")
        shared = len(self.parts) > 1 or self.ranks is not None
        for part in self.parts:  # the last one adapts the scale, after the others have read it
            part.options = (*part.kind, *self.mode.options(shared, part is self.parts[-1], not all(part.counted)))
        check_disjoint(type(self.optimizer).__name__, self.parts)
        walk = _core.Walk(EXCHANGE, Tensor)
        like = {}
        for index, part in enumerate(self.parts):
            self.make_step(part, old.get(part.key), shared)
            like.update({id(p): weight for p, weight in zip(part.params, self.bind_arrays(part))})
        if self.mode.scaler is not None and self.parts:
            self.mode.scaler._attach(self.parts[0].device)
        self.order = []
        for p, name, part, slot in places:
            weight = like.get(id(p), p)
            self.order.append((p, name, weight, gradient_dtype(p)))
            walk.add(p, part, slot, p.data_ptr(), p.stride(), weight.stride(), local(p), SAMPLES.get(gradient_dtype(p), p))
        for part in self.parts:
            for number in part.numbers:
                walk.number(part.step, *number)
            if part.counts_on_host:
                part.step.show_counts(part.counts, part.counts.data_ptr())
                walk.counts(part.step)
        free = {key for part in self.parts for _, _, _, key, _ in part.numbers} - self.optimizer._switches()
        walk.watch(self.optimizer.state, self.optimizer.param_groups, self.choices(), free)
        self.spread = [(p, local(p).data_ptr()) for p, _, part, _ in places if part >= 0 and is_distributed(p)]
        self.places = {id(p): (part, slot) for p, _, part, slot in places}
        self.walk = walk
        self.to_compare = None if self.compared else self.ranks or self.optimizer._find_alike()

    def divide(self, known: set[int]) -> tuple[list[Part], list[tuple[Tensor, str, int, int]]]:
        """The parameters that had a gradient or have state, in parts; and where each parameter stands."""
        state = self.optimizer.state
        index: dict[Key, int] = {}
        divided: list[Part] = []
        places = []
        who = type(self.optimizer).__name__
        for g, group in enumerate(self.optimizer.param_groups):
            for i, (p, name) in enumerate(zip(group["params"], names_of(group, g))):
                if p.grad is None and not self.optimizer._at_once and id(p) not in known and not state.get(p):
                    places.append((p, name, -1, 0))
                    continue
                check_parameter(who, p, name)
                check_copy(who, p, name, group)
                counted = is_first_copy(p) and (self.optimizer._counted is None or bool(self.optimizer._counted(p)))
                key = self.key(group, p)
                check_moments(who, p, name, key.kind, self.place(p, 0).full_size)
                if key not in index:
                    index[key] = len(divided)
                    divided.append(Part(*key))
                place = copies.placed(self.place(p, len(places)), copies.how(group, p), p, name, functools.partial(has_rows, self.optimizer._recipe, key.kind))
                slot = divided[index[key]].add(p, name, group, counted, place, i)
                places.append((p, name, index[key], slot))
        return divided, places

    def place(self, p: Tensor, number: int) -> Place:
        known = self.optimizer._shards.get(id(p))
        return known or Place(number | part_number(p) << 20, 0, p.numel(), columns_of(p))

    def choices(self) -> list[tuple[Any, ...]]:
        """What of the groups a binding stands on."""
        return [(*self.optimizer._options(g), *self.shared_options(g), *(g.get(n) for n in OTHER_CHOICES))
                for g in self.optimizer.param_groups]

    def shared_options(self, group: dict[str, Any]) -> list[str]:
        """What of a group decides the program with any optimizer."""
        names = scaled(group)
        return [*([f"per-tensor={'|'.join(names)}"] if names else []), *["ema"] * (group.get("ema_decay") is not None),
                *["clip=agc"] * (group.get("clip_factor") is not None)]

    def key(self, group: dict[str, Any], p: Tensor) -> Key:
        draws = group.get("weight_rounding") == "stochastic" and p.dtype != torch.float32
        return Key(self.kind(group, p), p.device, group.get("seed") if draws else None)

    def kind(self, group: dict[str, Any], p: Tensor) -> tuple[str, ...]:
        dtype = DTYPES[p.dtype]
        options = [f"grad={DTYPES[gradient_dtype(p)]}", *self.optimizer._options(group), *self.shared_options(group)]
        if dtype != "f32":
            rounding, master = group.get("weight_rounding"), group.get("master")
            options += [f"model={dtype}", *([f"weight-rounding={rounding}"] if rounding else [])]
            options += [f"master={master or 'f32'}"] if master or not rounding else []
            options += [f"copy-scale={way}" for way in (copies.how(group, p),) if way is not None]
        return (*options, *self.moments(group, p, tuple(options)))

    def moments(self, group: dict[str, Any], p: Tensor, options: tuple[str, ...]) -> list[str]:
        """How its moments are kept: in a format but for small parameters, in one step. Where rows end within blocks in f32."""
        kept = group.get("moments")
        if kept in (None, "f32"):
            return []
        if kept in formats.STORED or self.optimizer._couples:  # one value of what all share
            return [f"moments={kept}"]
        least, place = min(int(group.get("moments_min", 0)), MOST), self.place(p, 0)
        if place.full_size >= least and not formats.fits_rows(kept, place) and has_rows(self.optimizer._recipe, options):
            return []
        return [f"moments={kept}", *([f"moments-below={least}"] if least > 0 else [])]

    def make_step(self, part: Part, old: Part | None, shared: bool) -> None:
        """Compiles, or takes the old step where only addresses are new."""
        made = program(self.optimizer._recipe, part.options)
        check_whole(self.optimizer, part, made.text(), self.mode.sums(), self.ranks is not None)
        scaler = self.mode.scaler
        flags = "tensor-flags" in part.options
        layout = [(name, mine.numel(), g, flags and not counted, *place) for name, mine, g, counted, place in zip(
            part.names, part.locals, part.group_of, part.counted, part.places)]
        begun = {}
        if old is not None and "momentum_begun" in made.states():
            begun = {id(p): b for p, b in zip(old.params, old.step.read_state("momentum_begun"))}
        part.step = _core.Step(made, layout, *parts.place(part.device), None if scaler is None else scaler._native,
                               self.mode.deferred or shared and self.mode != PLAIN, parts.allocator(part.device))
        part.sums = {name: torch.utils.dlpack.from_dlpack(sum) for name, sum in part.step.partials(
            DLPACK[part.device.type], part.device.index or 0, False).items()}
        part.sums = {name: value for name, value in part.sums.items() if name in self.mode.sums()}
        if self.optimizer._pieces is not None:
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
        if "seed" in made.states() or self.optimizer._counts and "step" in made.states():
            part.counts = torch.tensor([float(state[p].get("step", 0.0)) for p in part.params], dtype=torch.float32)
            part.step.write_state("step", [int(c) for c in part.counts.tolist()])
            for i, p in enumerate(part.params):
                state[p]["step"] = part.counts[i]
        if "momentum_begun" in made.states():
            part.step.write_state("momentum_begun", [
                int(bool(formats.find(state[p], "momentum_buffer")) and begun.get(id(p), 1)) for p in part.params])
        part.states = kept_states(made)
        for name, (dtype, domain, initial) in part.states.items():
            if name in copies.NAMES:
                continue
            if domain == PER_TENSOR:
                first = from_bits(initial, dtype)
                values = part.kept[name] = torch.tensor([state[p].get(name, first) for p in part.params], dtype=NUMBERS[dtype])
                for i, p in enumerate(part.params):
                    state[p][name] = values[i]
                numbers = values.tolist()
            elif domain in (PER_ROW, PER_COLUMN):
                count = row_count if domain == PER_ROW else column_count
                values = part.kept[name] = self.of_lines(part, name, dtype, from_bits(initial, dtype), count)
                numbers = values.tolist()
            else:
                groups = part.groups if domain == PER_GROUP else part.groups[:1]
                numbers = [g.get(name, from_bits(initial, dtype)) for g in groups]
            part.step.write_state(name, [to_bits(x, dtype) for x in numbers])

    def of_lines(self, part: Part, name: str, dtype: str, first: float, count: Callable[[Tensor, int], int]) -> Tensor:
        """What a step keeps of the parameters' rows, or columns, one behind the other; each parameter's state is its part of that."""
        state = self.optimizer.state
        counts = [count(p, place.columns) for p, place in zip(part.locals, part.places)]
        kept = [state[p].get(name) for p in part.params]
        kept = [torch.full((n,), first, dtype=NUMBERS[dtype]) if k is None else k.reshape(n).to("cpu", NUMBERS[dtype])
                for k, n in zip(kept, counts)]
        values = torch.cat(kept) if kept else torch.empty(0, dtype=NUMBERS[dtype])
        for p, mine in zip(part.params, values.split(counts)):
            state[p][name] = mine
        return values

    def bind_arrays(self, part: Part) -> list[Tensor]:
        """Binds weights and state; returns what each parameter's gradient has to be laid out as."""
        weights = []
        made = program(self.optimizer._recipe, part.options)
        if "weight" in made.buffers():
            known = self.optimizer._live_scales()
            for p, g in zip(part.params, part.group_of):
                if (way := copies.how(part.groups[g], p)) is not None or p in self.optimizer.state:  # which has else none
                    copies.adopt(known, self.optimizer.state[p], p, way)
            copies.bind(part, self.optimizer.state)
        for p in part.locals:
            weight = p.detach()
            if not is_dense(p):
                weight = p.detach().contiguous()
                part.copies.append((p, weight))
            weights.append(weight)
        for name, declared in made.buffers().items():
            buffer = formats.Buffer(*declared)
            if name == "grad":
                continue
            if name == "weight":
                arrays = weights
            elif name == "weight_scale":
                arrays = [self.optimizer.state[p][name] for p in part.params]
            elif buffer.is_output and name != "master":  # which is there before the first step
                arrays = part.outputs[name] = [torch.empty_like(w, dtype=buffer.torch_dtype()) for w in weights]
            else:
                arrays = [self.array(p, w, label, name, buffer) if buffer.is_of(place) else None
                          for p, w, label, place in zip(part.params, weights, part.names, part.places)]
            part.step.bind(name, [0 if a is None else a.data_ptr() for a in arrays])
        part.step.adopt_state()
        return weights

    def array(self, p: Tensor, weight: Tensor, label: str, name: str, buffer: formats.Buffer) -> Tensor:
        """An array of a parameter's state, laid out as the weight; made, or made so, where it is not."""
        state = self.optimizer.state[p]
        have = None if state.get(name) is None else local(state[name])
        if (type(have) is Tensor and have.dtype == buffer.torch_dtype() and have.device == p.device
                and (same_layout(have, weight) if buffer.block == 1 else have.shape == (buffer.count(weight),) and have.is_contiguous())
                and is_distributed(state[name]) == is_distributed(p)):
            return have
        moment, form = formats.split(name)
        if form or have is None and formats.find(state, moment):
            arrays = formats.bring({key: local(value).to(p.device) for key, value in formats.take(state, moment).items()},
                                   moment, form, weight, label, self.initial(moment))
            state.update((key, like_parameter(p, value)) for key, value in arrays.items())
            return self.array(p, weight, label, name, buffer)
        if have is None and name in masters.FORMS and masters.find(state):
            masters.change(state, name, p)
            return self.array(p, weight, label, name, buffer)
        made = torch.empty_like(weight, dtype=buffer.torch_dtype(), memory_format=torch.preserve_format)
        if have is None and name == "master" and copies.find(state):
            made.copy_(copies.values(state, weight))
        elif have is None:
            made.copy_(weight) if buffer.source >= 0 else made.fill_(self.initial(name))
        elif have.numel() == weight.numel():
            made.copy_(have.reshape(weight.shape))
        else:
            raise ValueError(f"state '{name}' of {label} has shape {tuple(have.shape)}, the parameter {tuple(weight.shape)}")
        state[name] = like_parameter(p, made)
        return made

    def initial(self, name: str) -> float:
        return self.optimizer.defaults.get("initial_accumulator_value", 0.0) if name == "sum" else 0.0
