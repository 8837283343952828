"""Scaled 8-bit copies of DTensors (copy_scale=): one process's bits on every mesh, through checkpoints, and in FSDP2's forward pass."""

import tempfile

import pytest
import torch
import torch.distributed.checkpoint as dcp
from copied import HOWS, MX, WIDE
from processes import good, run, run_each
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from stepfuse.torch import AdamW, ScheduleFreeAdamW
from stepfuse.torch.orders import swizzled

pytestmark = pytest.mark.skipif(not WIDE, reason="8-bit parameters have gradients in f32 from torch 2.10 on")

EIGHT = torch.float8_e4m3fn
# Cuts between blocks of 32, within them, within squares of 128 rows, a vector, three dimensions, fewer rows than ranks.
ROWS = ("mxfp8", "mxfp8-rceil")
SHAPES = [(70, 96), (5, 40), (33,), (260, 130), (3, 50, 64), (2, 32)]
SQUARES = [(384, 96), (6, 64, 32), (70, 96), (96,)]  # cut between squares of 32 rows, and within them
MESHES = {"two": ((2,), [Shard(0)]), "three": ((3,), [Shard(0)]), "hybrid": ((2, 2), [Replicate(), Shard(0)])}
BAD = 2  # the step whose gradients are not finite
STEPS = 5


ALIGNED = SQUARES[:2]


def values(seed, way=""):
    draw = torch.Generator().manual_seed(seed)
    shapes = SQUARES if way.startswith("mxfp8") else SHAPES
    return [torch.randn(shape, generator=draw) * 4.0 ** (seed % 3) for shape in shapes]


def made(way, mesh=None, placements=(), **kw):
    params = [nn.Parameter((w if mesh is None else distribute_tensor(w, mesh, placements)).to(EIGHT)) for w in values(0, way)]
    for p in params:
        p.grad_dtype = torch.float32
    return params, AdamW(params, **{"lr": 0.05, "copy_scale": way, "max_norm": 3.0, "exact": mesh is not None, **kw})


def train(params, optimizer, steps, mesh=None, placements=()):
    for step in steps:
        way = optimizer.param_groups[0]["copy_scale"]
        for p, g in zip(params, values(step + 1, way), strict=True):
            if step == BAD:
                g[-1] = torch.inf
            p.grad = g if mesh is None else distribute_tensor(g, mesh, placements)
        optimizer.step()


def whole(value):
    """All of a tensor, in the order of its elements; of float8, which neither gloo nor pickle takes, as bytes."""
    if value.dtype.itemsize == 1 and value.dtype != torch.uint8:
        value = (DTensor.from_local(value.to_local().view(torch.uint8), value.device_mesh, value.placements, run_check=False, shape=value.shape,
                                    stride=value.stride()) if isinstance(value, DTensor) else value.view(torch.uint8))
    return (value.full_tensor() if isinstance(value, DTensor) else value).detach().flatten().clone()


def everything(params, optimizer):
    state = optimizer.state_dict()["state"]
    return [{"weight": whole(p.detach()), **{name: whole(value) for name, value in state[i].items()}} for i, p in enumerate(params)]


def check(found, expected, *what):
    for mine, alone in zip(found, expected, strict=True):
        assert mine.keys() == alone.keys()
        for name, value in alone.items():
            assert torch.equal(mine[name], value), (name, *what)


def on_mesh(rank, world, way, kind):
    shape, placements = MESHES[kind]
    mesh = init_device_mesh("cpu", shape)
    params, optimizer = made(way, mesh, placements)
    train(params, optimizer, range(STEPS), mesh, placements)
    scales = [isinstance(optimizer.copy_scale_inv(p), DTensor) for p in params]
    assert scales == [way in (*MX, *ROWS) and p.ndim > 1 and p.shape[1:].numel() % 32 == 0 for p in params]
    return everything(params, optimizer)


def alone(way):
    params, optimizer = made(way)
    train(params, optimizer, range(STEPS))
    return everything(params, optimizer)


@pytest.mark.parametrize("kind", MESHES)
def test_every_mesh_has_one_processs_bits(kind):
    world = torch.Size(MESHES[kind][0]).numel()
    ways = (*HOWS, *ROWS)
    for way, results in zip(ways, run_each(world, on_mesh, [(way, kind) for way in ways]), strict=True):
        expected = alone(way)
        for found in results:
            check(found, expected, way)


def stopped(rank, world, way, folder, save):
    mesh = init_device_mesh("cpu", (world,))
    params, optimizer = made(way, mesh, [Shard(0)])
    train(params, optimizer, range(3) if save else range(1), mesh, [Shard(0)])
    state = optimizer.state_dict()
    # Codes as bytes, which files keep; the names are the checkpoint's.
    files = {f"codes.{i}": DTensor.from_local(p.detach().to_local().view(torch.uint8), mesh, [Shard(0)], run_check=False, shape=p.shape,
                                              stride=p.stride()) for i, p in enumerate(params)}
    files |= {f"{i}.{name}": value for i, s in state["state"].items() for name, value in s.items()}
    if save:
        dcp.save(files, checkpoint_id=folder)
        return None
    dcp.load(files, checkpoint_id=folder)
    for i, s in state["state"].items():
        s.update((name, files[f"{i}.{name}"]) for name in s)
    optimizer.load_state_dict(state)
    with torch.no_grad():
        for i, p in enumerate(params):
            p.copy_(DTensor.from_local(files[f"codes.{i}"].to_local().view(EIGHT), mesh, [Shard(0)], run_check=False, shape=p.shape,
                                       stride=p.stride()))
    train(params, optimizer, range(3, STEPS), mesh, [Shard(0)])
    return everything(params, optimizer)


@pytest.mark.parametrize("way", ["delayed", "mx", "mxfp8", "block128"])
def test_a_checkpoint_goes_on_with_a_different_number_of_ranks(way):
    expected = alone(way)
    with tempfile.TemporaryDirectory() as folder:
        good(run(3, stopped, way, folder, True))
        for world in (2, 4):
            for found in good(run(world, stopped, way, folder, False)):
                check(found, expected, way, world)


def set_and_shown(rank, world, way):
    mesh = init_device_mesh("cpu", (world,))
    params, optimizer = made(way, mesh, [Shard(0)], ema_decay=0.5)
    plain, one = made(way, ema_decay=0.5)
    for i, (p, q, w) in enumerate(zip(params, plain, values(9, way))):
        optimizer.set_weight(p, w if i % 2 else distribute_tensor(w, mesh, [Shard(0)]))
        one.set_weight(q, w)
        assert torch.equal(whole(optimizer.dequantized(p)), whole(one.dequantized(q))), i
        assert torch.equal(whole(optimizer.dequantized(p, codes=q)), whole(one.dequantized(q))), i
    train(params, optimizer, range(2), mesh, [Shard(0)])
    train(plain, one, range(2))
    with optimizer.averaged(), one.averaged():
        check(everything(params, optimizer), everything(plain, one), way, "averaged")
    check(everything(params, optimizer), everything(plain, one), way)
    return True


@pytest.mark.parametrize("way", (*HOWS, *ROWS))
def test_weights_that_are_set_or_averaged(way):
    assert all(good(run(2, set_and_shown, way)))


def moved(rank, world, way):
    """What ScheduleFree's eval() and train() leave, and the steps after them."""
    mesh = init_device_mesh("cpu", (world,)) if world > 1 else None
    placements = [Shard(0)] if world > 1 else []
    params, _ = made(way, mesh, placements)
    optimizer = ScheduleFreeAdamW(params, lr=0.05, copy_scale=way)
    found = []
    for steps in ((0, 1), (3,)):  # the average of one step is that step
        train(params, optimizer, steps, mesh, placements)
        for move in (optimizer.eval, optimizer.train):
            move()
            found.append(everything(params, optimizer))
    return found


@pytest.mark.parametrize("way", (*HOWS, "mxfp8"))
def test_schedule_free_moves_as_in_one_process(way):
    expected = good(run(1, moved, way))[0]
    for i, alone in enumerate(expected):
        assert i == 0 or not all(torch.equal(mine["weight"], before["weight"]) for mine, before in zip(alone, expected[i - 1])), "nothing moved"
    for found in good(run(3, moved, way)):
        for i, (mine, alone) in enumerate(zip(found, expected, strict=True)):
            check(mine, alone, way, i)


def ordered(rank, world):
    """Each rank has the transpose of its own rows, and its scales in tiles."""
    mesh = init_device_mesh("cpu", (world,))
    options = {"exact": False, "max_norm": None, "orientation": "both", "scale_layout": "swizzled"}
    params, optimizer = made("mxfp8", mesh, [Shard(0)], **options)
    with pytest.raises(ValueError, match="one of shape .70, 96. is cut over 2 ranks; give it 128 rows, or any multiple of 64"):
        train(params, optimizer, range(1), mesh, [Shard(0)])
    params = params[:len(ALIGNED)]
    optimizer = AdamW(params, lr=0.05, copy_scale="mxfp8", **options)
    plain, one = made("mxfp8", max_norm=None)
    for i, g in enumerate(values(1, "mxfp8")):
        plain[i].grad = g
        if i < len(params):
            params[i].grad = distribute_tensor(g, mesh, [Shard(0)])
    optimizer.step()
    one.step()
    for p, q in zip(params, plain):
        codes, scales, _ = one.quantized(q, plain=True)
        mine = p.to_local()
        begin = rank * -(-p.shape[0] // world)
        codes, scales = (t.view(torch.uint8)[begin:begin + mine.shape[0]] for t in (codes, scales))
        found = optimizer.quantized(p, plain=True)
        assert torch.equal(found.codes.view(torch.uint8), codes)
        if p.ndim != 2:
            assert torch.equal(found.scales.view(torch.uint8), scales)
            continue
        assert torch.equal(found.scales.view(torch.uint8), swizzled(scales))
        turned = optimizer.quantized(p, plain=True, transposed=True)
        assert torch.equal(turned.codes.view(torch.uint8), codes.t())
        assert torch.equal(turned.scales.view(torch.uint8), swizzled(scales[::32].t().repeat_interleave(32, 0)))
        with pytest.raises(ValueError, match="no DTensor"):
            optimizer.quantized(p)
    p = nn.Parameter(distribute_tensor(torch.ones(4, 128), mesh, [Shard(0)]).to(EIGHT))
    p.grad_dtype = torch.float32
    p.grad = distribute_tensor(torch.ones(4, 128), mesh, [Shard(0)])
    with pytest.raises(TypeError, match="is for copies whose shards have scales of their own"):
        AdamW([p], copy_scale="current", orientation="both").step()
    return True


def test_shards_have_transposes_of_their_own():
    assert all(good(run(2, ordered)))


class Scaled(nn.Module):
    """A product with an 8-bit weight."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size, size, dtype=EIGHT))
        self.optimizer = self.name = None

    def forward(self, x):
        return (x @ self.optimizer.dequantized(self.name, codes=self.weight).t()).tanh()


def fsdp(rank, world, way):
    model = nn.Sequential(Scaled(64), Scaled(64))
    if world > 1:
        for layer in model:  # gloo gathers no float8: codes in f32 are the same numbers
            fully_shard(layer, mp_policy=MixedPrecisionPolicy(param_dtype=torch.float32, reduce_dtype=torch.float32))
            layer.set_force_sum_reduction_for_comms(True)
            layer.set_gradient_divide_factor(1.0)
    optimizer = AdamW(model.named_parameters(), lr=0.01, copy_scale=way, max_norm=1.0, **({"exact": True} if world > 1 else {}))
    for (name, p), layer in zip(model.named_parameters(), model):
        layer.optimizer, layer.name = optimizer, name
        optimizer.set_weight(name, torch.randn(64, 64, generator=torch.Generator().manual_seed(1)) * 0.2)
    for step in range(3):
        x = torch.randn(4, 64, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (model(x).square().sum() * float(rank == 0)).backward()  # so that the sum of gradients is one process's
        optimizer.step()
    return everything(list(model.parameters()), optimizer)


@pytest.mark.parametrize("way", ["current", "mx", "block128"])
def test_fsdp2_trains_with_8_bit_weights(way):
    expected = good(run(1, fsdp, way))[0]
    for found in good(run(3, fsdp, way)):
        check(found, expected, way)


def refused(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    for way, shape in (("current", (4, 64)), ("mx", (4, 96)), ("mxfp8", (64, 96)), ("block128", (128, 256))):
        p = nn.Parameter(distribute_tensor(torch.ones(shape), mesh, [Shard(1)]).to(EIGHT))
        with pytest.raises(TypeError, match=f"copy_scale='{way}' takes DTensors that one mesh dimension cuts between rows"):
            AdamW([p], copy_scale=way)
    p = nn.Parameter(distribute_tensor(torch.ones(4, 128), mesh, [Shard(1)]).to(EIGHT))
    AdamW([p], copy_scale="mx")  # blocks of 32 are whole
    return True


def test_cuts_within_rows_are_refused():
    assert all(good(run(2, refused)))
