"""Copies in squares for matrix products of few bits: copy_scale="mxfp8" of 8-bit parameters, and "nvfp4" of f32 ones."""

import copy
import weakref

import pytest
import torch
from copied import bits, everything, gradients, same, train

from stepfuse.torch import SGD, AdamW, stored
from stepfuse.torch.packed import Quantized

EIGHTS, FOURS = ("mxfp8", "mxfp8-rceil"), ("nvfp4", "nvfp4-delayed")
SHAPES = ((70, 96), (5, 64), (33,), (), (3, 50, 160), (130, 32))


def parameters(dtype=torch.float32, shapes=SHAPES):
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(s).to(dtype)) for s in shapes]


def squares_of(values, side):
    """The largest magnitude of each element's square; rows are all dimensions but the last."""
    flat = values.reshape(-1, values.shape[-1])
    most = torch.empty_like(flat)
    for i in range(0, flat.shape[0], side):
        for j in range(0, flat.shape[1], side):
            at = (slice(i, i + side), slice(j, j + side))
            most[at] = flat[at].abs().max()
    return most.view(values.shape)


def unpacked(codes):
    """The values of 4-bit codes."""
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    each = torch.stack([codes & 15, codes >> 4], -1).flatten(-2).long()
    return values[each & 7] * torch.where(each > 7, -1.0, 1.0)


def is_copy(master, arrays, tensor_scale=None):
    """Whether 4-bit codes are the nearest, by the rule for scales of squares."""
    of_tensor = arrays.tensor_scale if tensor_scale is None else tensor_scale
    ratio = (squares_of(master, 16) / 6 / of_tensor).clamp(2.0**-6, 448)[..., ::16]
    scales = ratio.to(torch.float8_e4m3fn)
    part = master * (1 / of_tensor / scales.float()).repeat_interleave(16, -1)
    off = (unpacked(arrays.codes) - part.clamp(-6, 6)).abs()
    step = torch.where(part.abs() < 2, 0.25, torch.where(part.abs() < 4, 0.5, 1.0))  # half the distance of codes
    return torch.equal(bits(scales), bits(arrays.scales)) and bool((off <= step).all())


@pytest.mark.parametrize("way", EIGHTS)
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_eight_bits_are_the_masters_in_squares(way, dtype):
    params = parameters(dtype)
    optimizer = AdamW(params, lr=0.02, copy_scale=way)
    train(optimizer, range(3))
    for p in params:
        master, scale = optimizer.state[p]["master"], optimizer.state[p]["weight_scale"]
        form = f"{way}_{'f8e4m3' if dtype == torch.float8_e4m3fn else 'f8e5m2'}".replace("-", "_")
        made, _ = stored.encode(master, form)
        assert torch.equal(bits(made[f".{form}.weight"]), bits(p))
        assert torch.equal(bits(made[f".{form}.weight_scale"]), bits(scale))
        if p.ndim > 1:
            wanted = squares_of(master, 32)[..., ::32].reshape(-1)
            exponent = torch.frexp(wanted).exponent - 1
            most = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}[dtype]
            if way == "mxfp8":
                expected = exponent - (8 if dtype == torch.float8_e4m3fn else 15)
            else:
                mantissa, expected = torch.frexp(wanted / most)
                expected = torch.where(mantissa == 0.5, expected - 1, expected)
            assert torch.equal(scale.view(torch.uint8).int() - 127, expected.int())
        assert (optimizer.dequantized(p).detach() - master).abs().max() <= master.abs().max() * 2.0**-3


@pytest.mark.parametrize("way", FOURS)
def test_four_bits_are_of_the_parameters(way):
    params, plain = parameters(), parameters()
    optimizer, beside = AdamW(params, lr=0.02, copy_scale=way), AdamW(plain, lr=0.02)
    held = [optimizer.quantized(p, plain=True) for p in params if p.ndim > 1]  # before the first step
    assert all(is_copy(p.detach(), arrays) for p, arrays in zip([p for p in params if p.ndim > 1], held))
    for k in range(3):
        largest = [p.detach().abs().max() for p in params]
        train(optimizer, (k,))
        train(beside, (k,))
        assert same(everything(optimizer), everything(beside))  # the copies change nothing
        before = [amax for p, amax in zip(params, largest) if p.ndim > 1]
        for p, arrays, amax in zip([p for p in params if p.ndim > 1], held, before):
            now = p.detach().abs().max() if way == "nvfp4" else amax
            assert arrays.tensor_scale == now / (448 * 6)
            assert is_copy(p.detach(), arrays)
            again = optimizer.quantized(p, plain=True)
            assert all(a.data_ptr() == b.data_ptr() for a, b in zip(arrays, again))


def test_four_bits_follow_what_is_written():
    params = parameters(shapes=((32, 64),))
    optimizer = SGD(params, lr=0.1, copy_scale="nvfp4")
    train(optimizer, range(1))
    for write in (lambda p: optimizer.set_weight(p, torch.full_like(p, 3.0)), lambda p: p.detach().mul_(0.25)):
        write(params[0])
        assert is_copy(params[0].detach(), optimizer.quantized(params[0], plain=True))
    train(optimizer, range(1, 2))
    assert is_copy(params[0].detach(), optimizer.quantized(params[0], plain=True))


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("way", ("mxfp8", *FOURS))
def test_a_skipped_step_keeps_what_is_written(way, asks):
    """Also if somebody asks for the copy between the write and the step."""
    is_eight = way in EIGHTS
    p, other = parameters(torch.float8_e4m3fn if is_eight else torch.float32, ((32, 64), (48, 32)))
    optimizer = AdamW([p, other], lr=0.02, copy_scale=way, skip_nonfinite=True)
    train(optimizer, range(2))
    beside = [bits(t) for t in optimizer.quantized(other, plain=True) if t is not None]
    with torch.no_grad():
        p.copy_((torch.arange(32 * 64).view(32, 64) % 15 - 7.0) * 32)
    written = bits(p)
    if asks:
        optimizer.quantized(p, plain=True)
    gradients([p, other], 2)
    p.grad.view(-1)[5] = float("nan")
    optimizer.step()
    assert optimizer.last_step_skipped and torch.equal(bits(p), written)
    arrays = optimizer.quantized(p, plain=True)
    if is_eight:
        state = optimizer.state[p]
        assert torch.equal(bits((state["master"] / stored.factors_of(p.detach(), state["weight_scale"])).to(p.dtype)), written)
    else:
        assert arrays.tensor_scale == p.detach().abs().max() / (448 * 6)
        assert is_copy(p.detach(), arrays)
    assert all(torch.equal(bits(t), b) for t, b in zip(optimizer.quantized(other, plain=True), beside))
    largest = p.detach().float().abs().max()
    train(optimizer, range(3, 4))
    if not is_eight:  # the next step, too, knows the largest written value
        arrays = optimizer.quantized(p, plain=True)
        assert arrays.tensor_scale == (p.detach().abs().max() if way == "nvfp4" else largest) / (448 * 6)
        assert is_copy(p.detach(), arrays)


def test_a_parameter_with_other_memory_is_copied_again():
    p, = parameters(shapes=((32, 64),))
    optimizer = SGD([p], lr=0.1, copy_scale="nvfp4")
    train(optimizer, range(1))
    p.data = p.data * 4.0
    assert is_copy(p.detach(), optimizer.quantized(p, plain=True))


def test_memory_is_not_reused_unnoticed():
    """An allocator gives new tensors the addresses of old ones, if nothing else has these."""
    p, = parameters(shapes=((64, 64),))
    optimizer = SGD([p], lr=0.0, copy_scale="nvfp4")
    for step in range(10):
        p.data = torch.full((64, 64), 1.0)
        optimizer.quantized(p, plain=True)
        address = p.data_ptr()
        p.data = torch.full((64, 64), 2.0)
        tensors = [torch.full((64, 64), 3.0) for _ in range(50)]
        p.data = next((t for t in tensors if t.data_ptr() == address), tensors[0])
        if step % 2:
            train(optimizer, range(1))
        assert optimizer.quantized(p, plain=True).tensor_scale == torch.tensor(3.0) / (448 * 6), step


def test_replaced_memory_is_free_after_the_next_step():
    p, = parameters(shapes=((64, 64),))
    optimizer = SGD([p], lr=0.1, copy_scale="nvfp4")
    train(optimizer, range(2))
    storage = weakref.ref(p.untyped_storage())
    p.data = p.data.clone()
    train(optimizer, range(2, 3))
    assert storage() is None


@pytest.mark.parametrize("way", (*EIGHTS, *FOURS))
def test_a_resumed_run_makes_the_same_copies(way):
    dtype = torch.float8_e4m3fn if way in EIGHTS else torch.float32
    shapes = ((70, 96), (5, 64))
    params = parameters(dtype, shapes)
    optimizer = AdamW(params, copy_scale=way)
    train(optimizer, range(3))
    other = [torch.nn.Parameter(p.detach().clone()) for p in params]
    resumed = AdamW(other, copy_scale=way)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(optimizer, range(3, 5))
    train(resumed, range(3, 5))
    for p, q in zip(params, other):
        for a, b in zip(optimizer.quantized(p, plain=True), resumed.quantized(q, plain=True)):
            assert a is None and b is None or torch.equal(bits(a), bits(b))


def test_arrays_are_the_parameter_and_its_scales():
    p = parameters(torch.float8_e4m3fn, ((64, 96),))[0]
    optimizer = AdamW([p], copy_scale="mxfp8")
    train(optimizer, range(1))
    arrays = optimizer.quantized(p, plain=True)
    assert isinstance(arrays, Quantized)
    assert arrays.codes.data_ptr() == p.data_ptr()
    assert arrays.scales.data_ptr() == optimizer.state[p]["weight_scale"].data_ptr()
    assert arrays.scales.shape == (64, 3)
    assert arrays.tensor_scale is None
    assert torch.equal(bits(arrays.scales[:32]), bits(arrays.scales[:1].expand(32, 3).contiguous()))


@pytest.mark.parametrize("way", ["mxfp8", "nvfp4"])
def test_torchaos_tensors_share_the_memory_and_multiply_alike(way):
    pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
    p = parameters(torch.float8_e4m3fn if way == "mxfp8" else torch.float32, ((48, 64),))[0]
    optimizer = AdamW([p], copy_scale=way)
    train(optimizer, range(2))
    theirs, ours = optimizer.quantized(p), optimizer.quantized(p, plain=True)
    assert theirs.shape == (48, 64)
    assert theirs.qdata.data_ptr() == ours.codes.data_ptr()
    assert theirs.scale.data_ptr() == ours.scales.data_ptr()
    if way == "mxfp8":
        values = optimizer.dequantized(p).detach()
    else:
        values = unpacked(ours.codes) * (ours.tensor_scale * ours.scales.float()).repeat_interleave(16, -1)
    assert torch.equal(theirs.dequantize(torch.float32), values)
    x = torch.randn(7, 64)
    assert torch.equal(x @ theirs.dequantize(torch.float32).t(), x @ values.t())
    train(optimizer, range(2, 3))
    assert torch.equal(bits(theirs.qdata), bits(optimizer.quantized(p, plain=True).codes))


def test_forms_of_store_say_the_same():
    for way, dtype in (("mxfp8", torch.float8_e5m2), ("nvfp4", torch.float32)):
        made = [AdamW(parameters(dtype), **kw) for kw in ({"copy_scale": way}, {"store": {"weight": way}})]
        for optimizer in made:
            train(optimizer, range(2))
        assert same(*map(everything, made))


def test_refused_with_what_to_change():
    def refused(way, shape, dtype=torch.float32, **kw):
        p = torch.nn.Parameter(torch.zeros(shape).to(dtype))
        with pytest.raises((ValueError, TypeError)) as caught:
            optimizer = AdamW([p], copy_scale=way, **kw)
            gradients([p], 0)
            optimizer.step()
        return str(caught.value)

    assert "has a scale per 32 elements of a row" in refused("mxfp8", (4, 40), torch.float8_e4m3fn)
    assert "has a scale per 16 elements of a row" in refused("nvfp4", (4, 40))
    assert "has rows of 1; give it its own group with copy_scale='current'" in refused("mxfp8", (64, 1), torch.float8_e4m3fn)
    assert "has rows of 1; give it its own group with copy_scale=None" in refused("nvfp4", (64, 1))
    assert "copies f32 matrices" in refused("nvfp4", (4, 64), torch.bfloat16)
    assert "moments='bf16'" in refused("nvfp4", (4, 64), moments="fp8")
    assert "moments='bf16'" in refused("mxfp8", (4, 64), torch.float8_e4m3fn, moments="fp8")
    p = parameters(torch.float8_e4m3fn, ((4, 40),))[0]
    with pytest.raises(ValueError, match="cannot be an MX tensor"):
        AdamW([p], copy_scale="mx").quantized(p)
    p = parameters(shapes=((4, 64),))[0]
    with pytest.raises(ValueError, match="is its own master, and has no scale; quantized"):
        AdamW([p], copy_scale="nvfp4").copy_scale_inv(p)


@pytest.mark.parametrize("way", FOURS)
@pytest.mark.parametrize("master", ["f32", "remainder", "ecc24"])
def test_a_run_in_f32_leaves_no_outdated_master(master, way):
    """A bf16 run that continues from it starts with its weights."""
    b = torch.nn.Parameter(torch.ones(64, 64, dtype=torch.bfloat16))
    first = SGD([b], lr=1.0, master=master)
    b.grad = torch.zeros_like(b)
    first.step()
    f = torch.nn.Parameter(torch.ones(64, 64))
    second = SGD([f], lr=1.0, copy_scale=way)
    second.load_state_dict(first.state_dict())
    f.grad = torch.full((64, 64), 0.5)
    second.step()
    assert stored.find_rest(second.state[f]) is None and "master" not in second.plain_state_dict()["state"][0]
    c = torch.nn.Parameter(f.detach().bfloat16())
    third = SGD([c], lr=1.0)
    third.load_state_dict(second.state_dict())
    c.grad = torch.zeros_like(c)
    third.step()
    assert c.eq(0.5).all()
