"""exact=True: the norm, and so the weights, of one device with plain tensors, on any mesh; and one norm of several meshes."""

import copy
import math
import pickle

import pytest
import torch
from processes import good, run
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from stepfuse.torch import AdamW, Formula, GradScaler, LossScaler, clip_grad_norm_

# Cuts within pieces of 16,384 elements and between them, tensors within one piece, vectors, more ranks than rows.
SHAPES = [(300, 129), (64, 512), (40001,), (7, 5), (3, 20000), (1, 40000), (128, 256), (2, 2, 3)]
STEPS, BAD = 5, 2
CENTRED = """optimizer centred "" { hyper lr = 1e-3
let mean = mean(g, row)
w = w - lr * (g - mean) }"""


def values(seed):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw) * 3 for shape in SHAPES]


def made(cls, params, kw, scaled):
    scaler = {"scaler": LossScaler(init_scale=1024.0, growth_interval=2)} if scaled else {}
    return cls(params, lr=0.01, **kw, **scaler)


def gradients(step, scaled):
    found = values(step + 1)
    if scaled and step == BAD:
        found[2][40000] = math.inf
    return found


def one_device(cls, kw, dtype, scaled):
    params = [nn.Parameter(w.to(dtype)) for w in values(0)]
    optimizer = made(cls, params, kw, scaled)
    norms = []
    for step in range(STEPS):
        for p, g in zip(params, gradients(step, scaled)):
            p.grad = g.to(dtype)
        optimizer.step()
        norms.append(optimizer.stats()["grad_norm"])
    return [p.detach() for p in params], norms


def on_a_mesh(rank, world, cls, kw, dtype, scaled, shape, placements):
    mesh = init_device_mesh("cpu", shape)
    params = [nn.Parameter(distribute_tensor(w.to(dtype), mesh, placements)) for w in values(0)]
    optimizer = made(cls, params, {**kw, "exact": True}, scaled)
    norms = []
    for step in range(STEPS):
        for p, g in zip(params, gradients(step, scaled)):
            p.grad = distribute_tensor(g.to(dtype), mesh, placements)
        optimizer.step()
        norms.append(optimizer.stats()["grad_norm"])
    return [p.full_tensor().detach() for p in params], norms


def equal(a, b):
    return all(torch.equal(p, q) for p, q in zip(a[0], b[0], strict=True)) and [repr(n) for n in a[1]] == [repr(n) for n in b[1]]


@pytest.mark.parametrize(("kw", "dtype", "scaled"), [
    ({"max_norm": 0.5}, torch.float32, False), ({"max_norm": 0.5}, torch.bfloat16, True), ({"max_norm": 40.0, "fused": True}, torch.float32, True),
    ({"max_norm": 0.5, "norm_type": 1.0}, torch.float32, False), ({"max_norm": 0.5, "norm_type": math.inf}, torch.float32, True),
    ({"max_norm": 0.5, "moments": "dyn8"}, torch.float32, True)], ids=str)
def test_is_one_devices_norm(kw, dtype, scaled):
    expected = one_device(AdamW, kw, dtype, scaled) if "moments" not in kw else None
    for world in (1, 2, 3, 4) if "moments" in kw or scaled and dtype == torch.bfloat16 else (3,):
        for result in good(run(world, on_a_mesh, AdamW, kw, dtype, scaled, (world,), [Shard(0)])):
            expected = expected or result  # vectors and odd rows are exempt from blocks on a mesh
            assert equal(result, expected), world


def test_without_it_last_bits_depend_on_the_mesh():
    """Or the tests above could not fail."""
    expected = one_device(AdamW, {"max_norm": 0.5}, torch.float32, False)
    plain = [good(run(world, on_a_mesh, Inexact, {"max_norm": 0.5}, torch.float32, False, (world,), [Shard(0)]))[0] for world in (2, 3)]
    assert not all(equal(result, expected) for result in plain)


class Inexact(AdamW):
    def __init__(self, params, *, exact, **kw):
        super().__init__(params, **kw)


@pytest.mark.parametrize("placements", [[Shard(0), Shard(0)], [Replicate(), Shard(0)], [Shard(0), Replicate()]], ids=str)
def test_meshes_of_two_dimensions(placements):
    expected = one_device(AdamW, {"max_norm": 0.5}, torch.float32, True)
    for result in good(run(4, on_a_mesh, AdamW, {"max_norm": 0.5}, torch.float32, True, (2, 2), placements)):
        assert equal(result, expected)


class Centred(Formula):
    formula = CENTRED


def test_pieces_of_rows():
    """With values of rows no piece has elements of two rows."""
    expected = one_device_of_matrices()
    for world in (2, 3):
        for result in good(run(world, matrices_on_a_mesh)):
            assert equal(result, expected)


def one_device_of_matrices():
    return of_matrices(lambda t: t, {})


def matrices_on_a_mesh(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    return of_matrices(lambda t: distribute_tensor(t, mesh, [Shard(0)]), {"exact": True})


def of_matrices(place, kw):
    where = [i for i, shape in enumerate(SHAPES) if len(shape) > 1]
    params = [nn.Parameter(place(values(0)[i])) for i in where]
    optimizer = Centred(params, lr=0.01, max_norm=0.5, **kw)
    norms = []
    for step in range(STEPS):
        for p, i in zip(params, where):
            p.grad = place(values(step + 1)[i])
        optimizer.step()
        norms.append(optimizer.stats()["grad_norm"])
    return [getattr(p, "full_tensor", lambda p=p: p)().detach() for p in params], norms


def deferred(rank, world):
    """torch's order of calls, whose norm is asked for before the step; and copies of the optimizer."""
    mesh = init_device_mesh("cpu", (world,))
    shard = lambda t: distribute_tensor(t, mesh, [Shard(0)])  # noqa: E731
    found = []
    for place, kw in ((shard, {"exact": True}), (lambda t: t, {})):
        params = [nn.Parameter(place(w)) for w in values(0)]
        optimizer = AdamW(params, lr=0.01, **kw)
        scaler = GradScaler("cpu", init_scale=1024.0, defer_unscale=True)
        norms = []
        for step in range(3):
            scaler.scale(torch.ones(()))  # makes the scale
            for p, g in zip(params, gradients(step, True)):
                p.grad = place(g)
            scaler.unscale_(optimizer)
            norms.append(repr(float(clip_grad_norm_(optimizer, 0.5))))
            if step == 1:  # applies the first clip to the gradients
                norms.append(repr(float(clip_grad_norm_(optimizer, math.inf))))
            scaler.step(optimizer)
            scaler.update()
        found.append((norms, [getattr(p, "full_tensor", lambda p=p: p)().detach() for p in params]))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(p, q) for p, q in zip(found[0][1], found[1][1]))
    plain = AdamW([nn.Parameter(torch.ones(3))], exact=True)
    assert all(type(o._pieces).__name__ == "ExactNorm" for o in (copy.deepcopy(plain), pickle.loads(pickle.dumps(plain))))


def test_the_deferred_order():
    good(run(2, deferred))


def several(rank, world, kw, scaled):
    """Dense parameters on one mesh, experts on another that has the same ranks."""
    flat, square = init_device_mesh("cpu", (world,)), init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("experts", "data"))
    places = [(flat, [Shard(0)]), (square, [Shard(0), Shard(1)]), (flat, [Replicate()]), (square, [Shard(0), Replicate()])] * 2
    if kw.get("exact"):
        places = [(mesh, [Shard(0)] * len(p) if Shard(1) in p else p) for mesh, p in places]
    places = [(mesh, [Replicate() if q.is_shard() and q.dim >= len(shape) else q for q in p]) for (mesh, p), shape in zip(places, SHAPES)]
    params = [nn.Parameter(distribute_tensor(w, *place)) for w, place in zip(values(0), places)]
    optimizer = made(AdamW, params, kw, scaled)
    norms = []
    for step in range(STEPS):
        for p, g, place in zip(params, gradients(step, scaled), places):
            p.grad = distribute_tensor(g, *place)
        optimizer.step()
        norms.append(optimizer.stats()["grad_norm"])
    return [p.full_tensor().detach() for p in params], norms


@pytest.mark.parametrize("scaled", [False, True])
def test_several_meshes_have_one_norm(scaled):
    weights, norms = one_device(AdamW, {"max_norm": 0.5}, torch.float32, scaled)
    results = good(run(4, several, {"max_norm": 0.5}, scaled))
    assert all(equal(result, results[0]) for result in results)
    assert results[0][1] == pytest.approx(norms, rel=1e-5, nan_ok=True)
    for p, q in zip(results[0][0], weights):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
    exact = good(run(4, several, {"max_norm": 0.5, "exact": True}, scaled))
    assert all(equal(result, exact[0]) for result in exact)
    assert exact[0][1] == pytest.approx(norms, rel=1e-6, nan_ok=True)


def refused(rank, world):
    mesh = init_device_mesh("cpu", (world,))
    w = torch.ones(4, 6)
    p = nn.Parameter(distribute_tensor(w, mesh, [Shard(1)]))
    p.grad = distribute_tensor(w, mesh, [Shard(1)])
    with pytest.raises(TypeError, match="exact=True takes DTensors that are cut along their first dimension, as FSDP2 cuts them; parameter 0"):
        AdamW([p], max_norm=1.0, exact=True).step()
    with pytest.raises(ValueError, match="exact: expected True for the norm of one device on any mesh of DTensors, or False; got 1"):
        AdamW([p], max_norm=1.0, exact=1)


def test_what_it_cannot_do_is_refused():
    good(run(2, refused))
