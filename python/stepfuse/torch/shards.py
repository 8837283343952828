"""A sharded optimizer's state: gathered in torch's format, or as shards for torch.distributed.checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor

from . import flashoptim, state_dicts, stored, torchao
from .arguments import count_words
from .binding import PER_TENSOR
from .programs import program
from .options import KEPT, drop_rounding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .buckets import Slice


class Piece(Tensor):
    """This rank's part of a one-dimensional array, in the form that torch.distributed.checkpoint needs."""

    @staticmethod
    def __new__(cls, tensor: Tensor, offset: int, length: int) -> Piece:
        piece = Tensor._make_subclass(cls, tensor)
        piece.tensor, piece.offset, piece.length = tensor, offset, length
        return piece

    def size(self) -> torch.Size:  # of the whole array
        return torch.Size([self.length])

    def __create_chunk_list__(self) -> list[Any]:
        from torch.distributed.checkpoint.metadata import ChunkStorageMetadata

        return [ChunkStorageMetadata(offsets=torch.Size([self.offset]), sizes=self.tensor.size())]

    def __create_write_items__(self, fqn: str, _object: Any) -> list[Any]:
        from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
        from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

        data = TensorWriteData(chunk=self.__create_chunk_list__()[0], properties=TensorProperties.create_from_tensor(self.tensor),
                               size=self.size())
        return [WriteItem(index=MetadataIndex(fqn, torch.Size([self.offset])), type=WriteItemType.SHARD, tensor_data=data)]

    def __get_tensor_shard__(self, _index: Any) -> Tensor:
        return self.tensor


class Shards:
    """The part of ZeroRedundancyOptimizer that handles state. Its slices are one-dimensional, in the order of memory."""

    def _arrays(self, names: Iterable[str]) -> dict[str, int]:
        """Returns the names of state that are arrays, with the number of elements that share a value in each."""
        inner = self._inner
        engine = inner._bound()
        moments = {stored.split_name(name)[0] for g in inner.param_groups for p in g["params"]
                   for name in program(inner._recipe, engine.kind(g, p)).buffers()}
        return {name: stored.block_size(name) for name in names if stored.split_name(name)[0] in moments}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gathers all ranks' state on one of them (numbered as in the group), for its state_dict(). Call it on every rank."""
        self._check_whole()
        mine = {i: (s.offset, state_dicts.picklable(self._inner.state[part])) for i, (part, s) in self._own_states()}
        lists = [None] * self._world if self._me == to else None
        what, group = "the gathering of the state", self._comm.groups[0]
        try:
            dist.gather_object(mine, lists, dst=dist.get_process_group_ranks(group)[to], group=group)
        except RuntimeError as error:
            self._comm.fail(what, error)
        self._whole = None if lists is None else self._join(lists)

    def _own_states(self) -> list[tuple[int, tuple[Tensor, Slice]]]:
        self._inner._pull()
        kept = {name for part in self._inner._bound().parts for name, (_, granularity, _) in part.states.items() if granularity != PER_TENSOR}
        for outer, inner in zip(self.param_groups, self._inner.param_groups):
            outer.update((name, inner[name]) for name in kept if name in inner)
        return [(i, own) for i, own in self._shard.items() if self._inner.state.get(own[0])]

    def _join(self, lists: list[dict[int, tuple[int, dict[str, Any]]]]) -> dict[str, Any]:
        state: dict[int, dict[str, Any]] = {}
        for i, p in enumerate(self._all):
            parts = sorted(((offset, state_dicts.unpickled(values)) for found in lists if i in found for offset, values in [found[i]]),
                           key=lambda part: part[0])
            if not parts:
                continue
            state[i] = dict(parts[0][1])
            for name, block in self._arrays(state[i]).items():
                flat = torch.cat([values[name].to(p.device) for _, values in parts])
                state[i][name] = flat.as_strided(p.shape, p.stride()) if block == 1 else flat
        return {"state": state, "param_groups": self._packed_groups()}

    def _packed_groups(self) -> list[dict[str, Any]]:
        groups, at = [], 0
        for g in self.param_groups:
            groups.append({**{k: v for k, v in g.items() if k != "params"}, "params": list(range(at, at + len(g["params"])))})
            at += len(g["params"])
        return groups

    def state_dict(self) -> dict[str, Any]:
        """Returns all ranks' state in torch's format, on the rank on which consolidate_state_dict() has gathered it."""
        if self._world == 1:
            self.consolidate_state_dict()
        whole, self._whole = getattr(self, "_whole", None), None
        if whole is None:
            raise RuntimeError("state_dict() needs the state gathered on this rank; call consolidate_state_dict() on all ranks first, or save "
                               "sharded_state_dict() with torch.distributed.checkpoint")
        return whole

    def plain_state_dict(self) -> dict[str, Any]:
        """Returns state_dict() with all moments in f32, as torch.optim's class of the same name needs them."""
        return state_dicts.plain(self.state_dict(), self._all)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a whole state_dict() of this class, of the optimizer inside, of torch's or of torchao's. Call it on every rank."""
        state_dict = flashoptim.unwrapped(torchao.unwrapped(state_dict))
        packed = [i for g in state_dict["param_groups"] for i in g["params"]]
        if len(packed) != len(self._all):
            raise ValueError(f"the state has {count_words(len(packed), 'parameter')}, but this optimizer has {len(self._all)}")
        state: dict[int, dict[str, Any]] = {}
        for i, (part, s) in self._shard.items():
            p, own = self._all[i], dict(state_dict["state"].get(packed[i], {}))
            for moment, form in {stored.split_name(name) for name in own if "." in name}:  # in the order of the parameter's memory
                own.update(stored.convert(stored.pop_arrays(own, moment), moment, form, p.detach().cpu(), self._names[i], 0.0))
            for name, block in self._arrays(own).items():
                flat = own[name]
                if block == 1:
                    flat = torch.empty_strided(p.shape, p.stride(), dtype=flat.dtype, device=flat.device).copy_(flat).as_strided((p.numel(),), (1,))
                own[name] = flat[s.offset // block:-(-(s.offset + s.size) // block)].clone()
            if own:
                state[id(part)] = own
        self._set_groups(state_dict["param_groups"])
        inner = self._inner.state_dict()
        slices = [p for g in self._inner.param_groups for p in g["params"]]
        self._inner.load_state_dict({"state": {n: state[id(p)] for n, p in enumerate(slices) if id(p) in state},
                                     "param_groups": inner["param_groups"]})
        self._adopt(latest(state_dict["state"].values()))

    def _set_groups(self, groups: list[dict[str, Any]]) -> None:
        for mine, given in zip(self.param_groups, groups):
            mine.update((k, v) for k, v in given.items() if k not in ("params", "param_names", *KEPT))
            drop_rounding(mine)

    def _adopt(self, step: int) -> None:
        """Continues from state with this many steps, which a rank without a share does not see."""
        self.wait()
        self._comm.step = step
        self._broken = None
        self._inner._engine = None
        self._inner._ranks = self._comm if self._world > 1 else None

    def sharded_state_dict(self) -> dict[str, Any]:
        """Returns this rank's share for torch.distributed.checkpoint: to save, or to load into and pass to load_sharded_state_dict().

        Arrays are flat, in the order of memory, so that any number of ranks can load them.
        """
        self._check_whole()
        self._inner._make_state()
        state: dict[str, dict[str, Any]] = {}
        for i, (part, s) in self._own_states():
            mine = self._inner.state[part]
            state[self._names[i]] = {**mine, **{name: Piece(mine[name], s.offset // block, -(-self._all[i].numel() // block))
                                                for name, block in self._arrays(mine).items()}}
        return {"state": state, "param_groups": {str(i): {k: v for k, v in g.items() if k not in ("params", "param_names")}
                                                 for i, g in enumerate(self.param_groups)}}

    def load_sharded_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from what torch.distributed.checkpoint loaded into a sharded_state_dict(). Call it on every rank."""
        for i, (part, _) in self._shard.items():
            for name, value in state_dict["state"].get(self._names[i], {}).items():
                if not isinstance(value, Piece):
                    self._inner.state[part][name] = value
        self._set_groups([state_dict["param_groups"][str(i)] for i in range(len(self.param_groups))])
        step = torch.tensor(latest(self._inner.state[part] for part, _ in self._shard.values()), device=self._comm.device)
        self._comm.all_reduce("the look for the newest state", step, largest=True)
        self._adopt(int(step))


def latest(states: Iterable[dict[str, Any]]) -> int:
    """Returns the largest step count in parameters' states."""
    return max((int(state.get("step", 0)) for state in states), default=0)
