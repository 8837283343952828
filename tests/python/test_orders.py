"""orientation="both" and scale_layout="swizzled": transposes of weights' copies, and scales as matrix products take them."""

import copy
import importlib.util
import json
import pathlib
import sys

import pytest
import torch
from copied import bits, gradients, train
from test_quantized import unpacked

from stepfuse.torch import SGD, AdamW, LossScaler, Muon
from stepfuse.torch.orders import swizzled

SHAPES = ((160, 288), (96, 32), (33,), (3, 16, 64))
BOTH = ("mxfp8", "mxfp8-rceil", "nvfp4", "nvfp4-delayed", "current", "delayed", "block128", "block128-f32")
SWIZZLED = ("mx", "mx-rceil", "mxfp8", "mxfp8-rceil", "nvfp4", "nvfp4-delayed")


def make(way, shapes=SHAPES, kind=AdamW, **kw):
    torch.manual_seed(3)
    dtype = torch.float32 if way.startswith("nvfp4") else torch.float8_e4m3fn
    params = [torch.nn.Parameter((torch.randn(s) * torch.randn(s).exp2()).to(dtype)) for s in shapes]
    return params, kind(params, copy_scale=way, **kw)


def values_of(arrays, side):
    """The values of codes with scales per `side` elements of a row, of squares, or of the tensor."""
    codes, scales, tensor_scale = arrays
    wide = unpacked(codes) if codes.dtype == torch.uint8 else codes.float()
    if scales.ndim == 2 and scales.shape[0] != wide.shape[0]:
        scales = scales.repeat_interleave(128, 0)[:wide.shape[0]]
    each = scales if scales.ndim == 0 else scales.float().repeat_interleave(side, 1)[:, :wide.shape[1]]
    return wide * (each if tensor_scale is None else each * tensor_scale)


def side_of(way):
    return 16 if way.startswith("nvfp4") else 128 if way.startswith("block") else 32


def in_rows(scales, rows, columns):
    """A swizzled array as the matrix that it was made from: each byte is found by its own number."""
    count = torch.arange(rows * columns, dtype=torch.int32).view(rows, columns)
    high, low = (swizzled((count // 256 ** k % 256).to(torch.uint8)).int() for k in (1, 0))
    places = high * 256 + low
    is_first = torch.ones(rows * columns, dtype=torch.bool)
    out = torch.empty(rows * columns, dtype=torch.uint8)
    for place, value in zip(places.tolist(), bits(scales).tolist()):
        if is_first[place] or place != 0:  # zeros fill the ends
            out[place], is_first[place] = value, False
    return out.view(rows, columns)


@pytest.mark.parametrize("way", BOTH)
def test_the_transpose_has_the_values_of_the_copy(way):
    params, optimizer = make(way, orientation="both")
    for k in range(3):
        train(optimizer, range(k, k + 1))
        for p in params[:2]:
            plain, turned = optimizer.quantized(p, plain=True), optimizer.quantized(p, plain=True, transposed=True)
            side = side_of(way)
            assert torch.equal(values_of(plain, side).t(), values_of(turned, side))
            assert turned.codes.is_contiguous() and turned.scales.is_contiguous()
            assert turned.codes.shape == (p.shape[1], p.shape[0] // (2 if side == 16 else 1))
    for p in params[2:]:
        if p.ndim < 2 and side_of(way) == 16:
            continue
        with pytest.raises(ValueError, match="has no transposed copy; give its group orientation='both', which makes one of each matrix"):
            optimizer.quantized(p, plain=True, transposed=True)


@pytest.mark.parametrize("way", SWIZZLED)
def test_swizzled_scales_are_those_by_rows(way):
    options = {} if way.startswith("mx-") or way == "mx" else {"orientation": "both"}
    params, optimizer = make(way, scale_layout="swizzled", **options)
    _, plain = make(way, **options)
    train(optimizer, range(3))
    train(plain, range(3))
    for p, same in zip(params[:2], plain.param_groups[0]["params"]):
        for transposed in (False, True) if options else (False,):
            ours = optimizer.quantized(p, plain=True, transposed=transposed)
            wanted = plain.quantized(same, plain=True, transposed=transposed)
            assert torch.equal(bits(ours.codes), bits(wanted.codes))
            assert ours.scales.dtype == wanted.scales.dtype and ours.scales.ndim == 1
            assert torch.equal(bits(ours.scales), swizzled(bits(wanted.scales)))
            assert torch.equal(in_rows(ours.scales, *wanted.scales.shape), bits(wanted.scales))


@pytest.mark.parametrize("way", ["mxfp8", "nvfp4"])
def test_torchao_reads_the_same_values(way):
    pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
    from torchao.prototype.mx_formats.utils import to_blocked

    params, optimizer = make(way, orientation="both", scale_layout="swizzled")
    _, plain = make(way, orientation="both")
    train(optimizer, range(2))
    train(plain, range(2))
    x = torch.randn(7, 288)
    for p, same in zip(params[:2], plain.param_groups[0]["params"]):
        for transposed in (False, True):
            theirs = optimizer.quantized(p, transposed=transposed)
            rows = plain.quantized(same, plain=True, transposed=transposed)
            assert torch.equal(bits(theirs.scale), bits(to_blocked(rows.scales.view(torch.uint8))))
            assert theirs.is_swizzled_scales
            values = theirs.dequantize(torch.float32)
            assert torch.equal(values, values_of(rows, side_of(way)))
        if p.shape[1] == 288:
            forward = optimizer.quantized(p).dequantize(torch.float32)
            backward = optimizer.quantized(p, transposed=True).dequantize(torch.float32)
            assert torch.equal(x @ forward.t(), x @ backward)


def test_arrays_stay_and_follow_every_write():
    for way in ("mxfp8", "nvfp4"):
        params, optimizer = make(way, orientation="both", scale_layout="swizzled")
        p = params[0]
        first = [optimizer.quantized(p, plain=True, transposed=t) for t in (False, True)]

        def fits():
            for before, transposed in zip(first, (False, True)):
                now = optimizer.quantized(p, plain=True, transposed=transposed)
                assert now.codes.data_ptr() == before.codes.data_ptr() and now.scales.data_ptr() == before.scales.data_ptr()
                fresh = optimizer._ordered[p].make(*optimizer._copy_of(p, optimizer.param_groups[0])[:2])
                wanted = fresh["weight_scale_t_swizzled" if transposed else "weight_scale_swizzled"]
                assert torch.equal(bits(now.scales), bits(wanted))
                if transposed:
                    assert torch.equal(bits(now.codes), bits(fresh["weight_t"]))

        fits()
        train(optimizer, range(2))
        fits()
        if way == "nvfp4":
            with torch.no_grad():
                p.mul_(-3)
        else:
            optimizer.set_weight(p, torch.randn(p.shape))
        fits()
        train(optimizer, range(1))
        fits()
        state = copy.deepcopy(optimizer.state_dict())
        train(optimizer, range(3))
        optimizer.load_state_dict(state)
        fits()


def test_a_skipped_step_changes_nothing():
    params, optimizer = make("mxfp8", orientation="both", scaler=LossScaler(init_scale=4.0))
    train(optimizer, range(2))
    before = [bits(a) for a in optimizer.quantized(params[0], plain=True, transposed=True)[:2]]
    gradients(params, 5)
    params[1].grad.view(-1)[7] = torch.nan
    optimizer.step()
    assert all(torch.equal(bits(a), b) for a, b in zip(optimizer.quantized(params[0], plain=True, transposed=True), before))


def test_the_weights_do_not_depend_on_it():
    for way in ("mxfp8", "nvfp4", "current"):
        made = [make(way, **kw) for kw in ({}, {"orientation": "both"})]
        for _, optimizer in made:
            train(optimizer, range(3))
        assert all(torch.equal(bits(a), bits(b)) for a, b in zip(made[0][0], made[1][0]))


def test_groups_and_muon_have_their_own():
    params, optimizer = make("current", shapes=((64, 96), (96, 64)), kind=SGD)
    optimizer.param_groups[0]["params"] = params[:1]
    optimizer.add_param_group({"params": params[1:], "orientation": "both"})
    train(optimizer, range(2))
    assert torch.equal(bits(optimizer.quantized(params[1], plain=True, transposed=True).codes), bits(params[1]).t())
    with pytest.raises(ValueError, match="give its group orientation='both'"):
        optimizer.quantized(params[0], plain=True, transposed=True)
    params, optimizer = make("nvfp4", shapes=((64, 96),), kind=Muon, orientation="both")
    train(optimizer, range(2))
    plain, turned = (optimizer.quantized(params[0], plain=True, transposed=t) for t in (False, True))
    assert torch.equal(values_of(plain, 16).t(), values_of(turned, 16))


@pytest.mark.skipif(not hasattr(torch.Tensor, "grad_dtype"), reason="8-bit parameters have gradients in f32 from torch 2.10 on")
def test_the_sample_trains_in_every_way(monkeypatch, capsys, tmp_path):
    path = pathlib.Path(__file__).resolve().parents[2] / "samples" / "pytorch" / "low_bit_products.py"
    monkeypatch.syspath_prepend(path.parent)  # it takes the model of train_gpt.py
    spec = importlib.util.spec_from_file_location("low_bit_products", path)
    sample = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sample)
    monkeypatch.setattr(sys, "argv", [str(path), "--steps", "25", "--json", str(tmp_path / "losses.json")])
    threads = torch.get_num_threads()
    sample.main()
    torch.set_num_threads(threads)
    runs = json.loads((tmp_path / "losses.json").read_text())["runs"]
    assert [r["name"] for r in runs] == list(sample.WAYS) and len(capsys.readouterr().out.splitlines()) == 2 + len(runs)
    for r in runs:
        assert len(r["losses"]) == 25 and r["losses"][-1] < r["losses"][0] - 1.5
        assert abs(r["losses"][-1] - runs[0]["losses"][-1]) < 0.5


def test_refused_with_what_to_change():
    def refused(way, shape, **kw):
        with pytest.raises((ValueError, TypeError, RuntimeError)) as caught:
            _, optimizer = make(way, shapes=(shape,), **kw)
            train(optimizer, range(1))
        return str(caught.value)

    assert "orientation='both' needs scales that the transpose has, too, and copy_scale='mx' has scales along rows; use 'mxfp8'" in refused("mx", (32, 64), orientation="both")
    assert "copy_scale='mx', 'mxfp8' or 'nvfp4'" in refused("current", (32, 64), scale_layout="swizzled")
    assert "both numbers must be multiples of 32" in refused("mxfp8", (48, 64), orientation="both")
    assert "both numbers must be multiples of 16" in refused("current", (48, 40), orientation="both")
    assert "orientation: expected one of rowwise, both" in refused("mxfp8", (32, 64), orientation="columnwise")
    p = torch.nn.Parameter(torch.zeros(32, 64))
    with pytest.raises(ValueError, match="orientation='both' needs copies of weights; give the group copy_scale="):
        AdamW([p], orientation="both")
    p = torch.nn.Parameter(torch.zeros(64, 32).to(torch.float8_e4m3fn).t())
    with pytest.raises(TypeError, match="is for matrices that are stored row by row"):
        train(AdamW([p], copy_scale="current", orientation="both"), range(1))
