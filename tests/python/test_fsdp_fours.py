"""4-bit copies of DTensors (copy_scale="nvfp4"): one process's codes and scales, whatever happens to a parameter."""

import tempfile

import pytest
import torch
import torch.distributed.checkpoint as dcp
from copied import bits
from processes import good, run
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from stepfuse.torch import LAMB, SGD, AdamW, Muon, RankError
from stepfuse.torch.orders import swizzled, transposed_codes
from stepfuse.torch.tensors import local

FOURS = ("nvfp4", "nvfp4-delayed")
# Two and three ranks cut these between squares. A last part may be shorter or empty; there are batches, and a vector.
SHAPES = ((96, 48), (95, 32), (1, 40, 16), (6, 16, 32), (20,))
BAD = 2  # the step whose gradients are not finite


def values(seed, shapes=SHAPES):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw) * 4.0 ** (seed % 3) for shape in shapes]


def look(optimizer, params):
    """What this rank has of each matrix and its copy, and last the scale of the tensor."""
    return [(bits(local(p)), *map(bits, optimizer.quantized(p, plain=True))) for p in params if p.ndim > 1]


class Case:
    """An optimizer over whole parameters, or over this rank's rows of them."""

    def __init__(self, way, mesh=None, make=AdamW, shapes=SHAPES, **kw):
        placements = [] if mesh is None else [Replicate()] * (mesh.ndim - 1) + [Shard(0)]
        self.place = lambda t: t if mesh is None else distribute_tensor(t, mesh, placements)
        self.shapes = shapes
        self.params = [nn.Parameter(self.place(w)) for w in values(0, shapes)]
        self.optimizer = make(self.params, **{"lr": 0.05, "copy_scale": way, **kw})
        self.seen = []

    def step(self, seed, without=None, looks=True):
        for i, (p, g) in enumerate(zip(self.params, values(seed + 1, self.shapes), strict=True)):
            g[-1] = torch.inf if seed == BAD else g[-1]
            p.grad = None if i == without else self.place(g)
        self.optimizer.step()
        if looks:
            self.look()

    def write(self, index, new):
        self.optimizer.set_weight(self.params[index], self.place(new))

    def copies(self):
        return [self.optimizer.quantized(p, plain=True) for p in self.params if p.ndim > 1]

    def look(self):
        self.seen.append(look(self.optimizer, self.params))


def live(case):
    """Steps with everything in between that concerns the copies."""
    case.look()
    held = case.copies()
    case.step(0)
    case.step(1)
    case.step(BAD)
    case.step(3, without=0)
    with torch.no_grad():
        case.params[0].mul_(8)
    case.look()
    case.write(1, values(7)[1] * 0.1)
    case.step(BAD)  # which is skipped: the copy is that of what was written
    case.step(4)
    odd = values(8)
    odd[0][50, 3] = torch.inf
    odd[1][2, 5] = odd[3][5, 0, 1] = torch.nan  # on the first rank, and on the last
    for i, w in enumerate(odd):
        case.write(i, w)
    case.step(5, without=3)
    case.step(6, without=3)
    for i, w in enumerate(values(9)):
        case.write(i, w)
    case.step(7)
    assert all(a.data_ptr() == b.data_ptr() for before, now in zip(held, case.copies()) for a, b in zip(before, now))


def go_on(case, folder, alone=None):
    """The run that continues from a checkpoint of live(), of any number of ranks; or from the state of the run `alone`."""
    case.step(9)  # makes the state that is then loaded
    state = case.optimizer.state_dict() if alone is None else alone.optimizer.state_dict()
    weights = {f"weight.{i}": p.detach() for i, p in enumerate(case.params if alone is None else alone.params)}
    files = {**weights, **{f"{i}.{name}": value for i, s in state["state"].items() for name, value in s.items()}}
    if alone is None:
        dcp.load(files, checkpoint_id=folder)
        for i, s in state["state"].items():
            s.update((name, files[f"{i}.{name}"]) for name in s)
    else:
        with torch.no_grad():
            for p, w in zip(case.params, weights.values()):
                p.copy_(w)
    case.optimizer.load_state_dict(state)
    case.look()
    case.step(10)


def save(case, folder):
    state = case.optimizer.state_dict()["state"]
    assert {name for s in state.values() for name in s} == {"step", "exp_avg", "exp_avg_sq"}
    dcp.save({**{f"weight.{i}": p.detach() for i, p in enumerate(case.params)},
              **{f"{i}.{name}": value for i, s in state.items() for name, value in s.items()}}, checkpoint_id=folder)


def orders(rank, mesh):
    """Each rank has the transpose of its own rows, from the step on."""
    kw = {"make": SGD, "shapes": SHAPES[:1], "orientation": "both", "scale_layout": "swizzled"}
    for way in FOURS:
        case, plain = Case(way, mesh, **kw), Case(way, make=SGD, shapes=SHAPES[:1])
        held = case.optimizer.quantized(case.params[0], plain=True, transposed=True)
        for seed in range(2):
            case.step(seed, looks=False)
            plain.step(seed)
        codes, scales, of_tensor = (t if t.ndim == 0 else t.chunk(mesh.size())[rank] for t in plain.copies()[0])
        scales = scales.view(torch.uint8)
        assert torch.equal(held.codes, transposed_codes(codes))
        assert torch.equal(held.scales.view(torch.uint8), swizzled(scales[::16].t().repeat_interleave(16, 0)))
        assert torch.equal(held.tensor_scale, of_tensor)
        found = case.optimizer.quantized(case.params[0], plain=True)
        assert torch.equal(found.codes, codes)
        assert torch.equal(found.scales.view(torch.uint8), swizzled(scales))
        with pytest.raises(ValueError, match="no DTensor"):
            case.optimizer.quantized(case.params[0])


def others(way, mesh=None):
    """Optimizers that have parameters whole, or make two steps; and parameters of a mesh of two dimensions."""
    found = []
    wide = mesh and init_device_mesh("cpu", (1, mesh.size()))
    for make, shapes, on, kw in ((Muon, SHAPES[:4], mesh, {"skip_nonfinite": True}), (AdamW, SHAPES, wide, {})):
        case = Case(way, on, make, shapes, **kw)
        for seed in (0, 1, BAD, 3) if kw else (0, 1):
            case.step(seed)
        found += case.seen
    # A delayed scale does not remember weights that are all zeros, or that have become infinite.
    for lr in (1.0, 3e38):
        case = Case(way, mesh, SGD, SHAPES[:1])
        case.step(0)
        case.optimizer.param_groups[0]["lr"] = lr
        for factor in (1.0, 0.0):
            case.params[0].grad = case.params[0].detach() * factor
            case.optimizer.step()
            case.look()
        found += case.seen
    # In one process the sums of LAMB have other last bits with copies than without.
    case = Case(way if mesh else None, mesh, LAMB)
    case.step(0, looks=False)
    if mesh is None:
        case.optimizer = SGD(case.params, copy_scale=way)
    return [*found, *([look(case.optimizer, case.params)] if way == "nvfp4" else [])]


def refused(rank, mesh):
    def message(shape, **kw):
        with pytest.raises((TypeError, ValueError, RankError)) as caught:
            Case(FOURS[0], mesh, shapes=[shape], **kw).step(0)
        return str(caught.value)

    assert "copy_scale='nvfp4' needs a multiple of 16 rows on each rank" in message((40, 32))
    assert "is cut over 2 ranks; give it 64 rows, or any multiple of 32" in message((40, 32))
    assert "is cut over 2 ranks; give it 4 rows, or any multiple of 4" in message((2, 8, 32))
    assert "is cut over 2 ranks; give it 96 rows, or any multiple of 32" in message((95, 32), orientation="both")
    assert "has rows of 24" in message((96, 24))
    with pytest.raises(RankError, match="copy of .*: nvfp4"):
        Case(FOURS[rank], mesh, shapes=SHAPES[:1]).step(0)


def fsdp(way, world):
    """FSDP2's own parameters and gradients."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(80, 128), nn.Tanh(), nn.Linear(128, 32))
    if world > 1:
        for layer in (model[0], model[2]):
            fully_shard(layer)
            layer.set_force_sum_reduction_for_comms(True)
            layer.set_gradient_divide_factor(1.0)
    optimizer = AdamW(model.parameters(), lr=0.01, copy_scale=way, max_norm=0.01, exact=world > 1)
    for step in range(3):
        x = torch.randn(4, 80, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (model(x).square().sum() * float(world == 1 or torch.distributed.get_rank() == 0)).backward()  # the sum is one process's
        optimizer.step()
    return look(optimizer, model.parameters())


def on_ranks(rank, world, folder):
    mesh = init_device_mesh("cpu", (world,))
    found = []
    for way in FOURS:
        case, resumed = (Case(way, mesh, skip_nonfinite=True) for _ in range(2))
        live(case)
        if world == 2:
            save(case, f"{folder}/{way}")
        go_on(resumed, f"{folder}/{way}")
        found += [*case.seen, *resumed.seen, *([fsdp(way, world), *others(way, mesh)] if world == 2 else [])]
    if world == 2:
        orders(rank, mesh)
        refused(rank, mesh)
    return found


def on_one(world):
    found = []
    for way in FOURS:
        case, resumed = (Case(way, skip_nonfinite=True) for _ in range(2))
        live(case)
        go_on(resumed, None, case)
        found += [*case.seen, *resumed.seen, *([fsdp(way, 1), *others(way)] if world == 2 else [])]
    return found


def test_ranks_have_one_processs_copies():
    with tempfile.TemporaryDirectory() as folder:
        for world in (2, 3):
            ranks = good(run(world, on_ranks, folder))
            for at, (alone, *parts) in enumerate(zip(on_one(world), *ranks, strict=True)):
                for index, (whole, *each) in enumerate(zip(alone, *parts, strict=True)):
                    for name, expected, *mine in zip(("weights", "codes", "scales"), whole, *each):
                        assert torch.equal(torch.cat(mine), expected), (world, at, index, name)
                    assert all(torch.equal(arrays[-1], whole[-1]) for arrays in each), (world, at, index)
