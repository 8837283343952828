"""State, counts, parameters and gradients whose memory moves or changes its size between two steps, while the objects stay."""

import io
import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from pairs import Pair, same_state
from torch.multiprocessing import reductions

from stepfuse.torch import SGD, AdamW, binding, parts, private

ON_CUDA = parts.on_cuda(torch.device("cpu"))
CANARY = -77.0
assert reductions  # which teaches ForkingPickler how tensors are sent


@pytest.fixture(params=["libtorch", "DLPack", "methods"], autouse=True)
def asked(request, monkeypatch):
    """The ways in which the walk asks how a tensor lies."""
    if request.param != "libtorch":
        monkeypatch.setattr(binding, "INSIDE", [])
    if request.param == "methods":
        monkeypatch.setattr(private, "EXCHANGE", None)
    elif private.EXCHANGE is None:
        pytest.skip(f"torch {torch.__version__} has no exchange API of DLPack")
    assert binding.new_walk().asks() == request.param


def by_data(v, _):
    v.data = v.data.clone()


def by_another_type_and_back(v, _):
    v.data = v.data.to(torch.float64)
    v.data = v.data.to(torch.float32)


def by_sharing(v, _):
    v.share_memory_()


def by_resizing(v, _):
    storage = v.untyped_storage()
    kept = storage.clone()  # counts share one
    storage.resize_(0)
    storage.resize_(2 * kept.nbytes())
    storage[:kept.nbytes()].copy_(kept)


def by_set(v, _):
    v.set_(v.clone())


def by_swapping(v, _):
    torch.utils.swap_tensors(v, v.clone())


def by_new_values(v, _):
    v.data = v.data * 2


def by_sending(_, optimizer):
    ForkingPickler(io.BytesIO(), pickle.HIGHEST_PROTOCOL).dump(optimizer.state_dict())


WAYS = [by_data, by_another_type_and_back, by_sharing, by_resizing, by_set, by_swapping, by_new_values, by_sending]


def canaries():
    """Memory of the sizes that a step works on, which is likely to be what was given back before."""
    made = [torch.full((n,), CANARY) for n in (3, 32, 128) for _ in range(50)]
    return lambda: all((c == CANARY).all() for c in made)


@pytest.mark.parametrize("name", ["exp_avg", "exp_avg_sq", "step"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_state_that_moves(way, name):
    if ON_CUDA and way is by_new_values and name == "step":
        pytest.skip("a GPU's counts are the step's own until state_dict()")
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    pair.steps(3)
    for optimizer in (pair.ours, pair.theirs):
        for state in list(optimizer.state.values())[:2]:
            way(state[name], optimizer)
    untouched = canaries()
    pair.steps(3)
    assert untouched()
    assert pair.equal()
    assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())


def test_a_master_that_moves():
    weights = [torch.nn.Parameter(torch.linspace(-1, 1, 64).bfloat16()) for _ in range(2)]
    optimizers = [AdamW([p], lr=1e-3) for p in weights]
    for step in range(4):
        for p, optimizer in zip(weights, optimizers):
            p.grad = torch.ones_like(p)
            optimizer.step()
        if step == 1:
            by_resizing(optimizers[0].state[weights[0]]["master"], None)
    assert torch.equal(*weights)
    assert torch.equal(*[o.state[p]["master"] for o, p in zip(optimizers, weights)])


@pytest.mark.parametrize("way", WAYS[:-2], ids=lambda way: way.__name__)
def test_parameters_that_move(way):
    pair = Pair(AdamW, torch.optim.AdamW, fused=True)
    pair.steps(3)
    with torch.no_grad():
        for params in (pair.a, pair.b):
            for p in params:
                p.grad = None
            if way is by_set:
                params[0].data.set_(params[0].data.clone())
            else:
                way(params[0].data if way is by_resizing else params[0], None) if way is not by_swapping else (
                    torch.utils.swap_tensors(params[0], torch.nn.Parameter(params[0].detach().clone())))
    untouched = canaries()
    pair.steps(3)
    assert untouched() and pair.equal()


def shortened(optimizer_class, short_parameter, short_gradient, **kw):
    """A parameter in the first half of some memory, and the rest of that after steps."""
    memory, gradient = torch.ones(64), torch.ones(64)
    p = torch.nn.Parameter(memory[:32])
    assert p.data_ptr() == memory.data_ptr()
    optimizer = optimizer_class([p], lr=0.1, **kw)
    p.grad = gradient[:32]
    optimizer.step()
    before = p.detach().clone()
    if short_parameter:
        p.data = p.data[:16]
    if short_gradient:
        p.grad.data = p.grad.data[:16]
    return optimizer, p, memory, before


@pytest.mark.parametrize(("kw", "short_parameter", "short_gradient", "message"), [
    ({}, True, False, r"gradient of parameter 0 of group 0 has shape \(32,\), but the parameter has \(16,\)"),
    ({}, False, True, r"gradient of parameter 0 of group 0 has shape \(16,\), but the parameter has \(32,\)"),
    ({"momentum": 0.9}, True, True, r"state 'momentum_buffer' of parameter 0 of group 0 has shape \(32,\), but the parameter has \(16,\)"),
], ids=str)
def test_sizes_that_differ_are_refused_by_name(kw, short_parameter, short_gradient, message):
    optimizer, p, memory, before = shortened(SGD, short_parameter, short_gradient, **kw)
    for _ in range(2):
        with pytest.raises((RuntimeError, ValueError), match=message):
            optimizer.step()
    assert torch.equal(memory[:32], before) and (memory[32:] == 1).all()
    assert torch.equal(p, before[:p.numel()])


def test_a_parameter_that_became_a_part_of_itself():
    optimizer, p, memory, before = shortened(SGD, True, True)
    optimizer.step()
    assert torch.equal(p, before[:16] - 0.1)
    assert torch.equal(memory[16:32], before[16:]) and (memory[32:] == 1).all()


def test_a_gradient_of_another_type_at_the_same_place():
    p = torch.nn.Parameter(torch.zeros(8))
    optimizer = SGD([p], lr=1.0)
    p.grad = torch.ones(8)
    optimizer.step()
    p.grad.data = p.grad.data.view(torch.int32)
    with pytest.raises(TypeError, match="int32"):
        optimizer.step()
    assert (p == -1).all()


@pytest.mark.parametrize("what", ["the gradient of parameter 0 of group 0", "parameter 0 of group 0", "state 'exp_avg' of parameter 0 of group 0"])
def test_memory_that_was_taken_away(what):
    p = torch.nn.Parameter(torch.ones(64))
    optimizer = AdamW([p], lr=0.1)
    p.grad = torch.ones(64)
    optimizer.step()
    {"the": p.grad, "par": p.data, "sta": optimizer.state[p]["exp_avg"]}[what[:3]].untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=f"{what} has 64 elements, but a storage of only 0 bytes"):
        optimizer.step()


@pytest.mark.parametrize("shape", [(1,), (), (1, 1)])
def test_a_gradient_that_is_negated_lazily(shape):
    p, q = (torch.nn.Parameter(torch.ones(shape)) for _ in range(2))
    ours, theirs = SGD([p], lr=1.0), torch.optim.SGD([q], lr=1.0)
    for optimizer, w in ((ours, p), (theirs, q)):
        for step in range(2):
            z = torch.complex(torch.zeros(shape), torch.full(shape, 1.0 + step))
            w.grad = z.conj().imag if step else torch.ones(shape)
            assert w.grad.is_neg() == bool(step)
            optimizer.step()
    assert torch.equal(p, q)


def test_a_gradient_on_another_device():
    """As after `p.data = p.data.cuda()`; no two devices are here, so the check is asked by itself."""
    optimizer = SGD([torch.nn.Parameter(torch.ones(8))], lr=1.0)
    with pytest.raises(RuntimeError, match="SGD: the gradient of weight is on meta, but the parameter is on cpu; move one of them"):
        optimizer._bound().check_gradient(torch.ones(8, device="meta"), torch.ones(8), "weight")
