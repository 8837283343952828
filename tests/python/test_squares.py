"""Scales per square of 128 rows by 128 columns (copy_scale="block128"): its rows and columns, and its combinations."""

import pytest
import torch

import stepfuse.torch as sft
from stepfuse.torch import AdamW
from copied import SQUARES, TYPES, bits, block_scaled, fits, parameters, train


@pytest.mark.parametrize("how", SQUARES)
def test_squares_are_of_rows_and_columns(how):
    """Columns are the last dimension, rows all before it; a matrix stored by columns uses its own rows and columns."""
    shapes = {(130, 257): (2, 3), (3, 50, 200): (2, 2), (257,): (1, 3), (): (1, 1), (0, 4): (0, 1), (4, 0): (1, 0), (5, 1): (1, 1)}
    params = parameters(shapes=shapes)
    optimizer = AdamW(params, lr=0.1, copy_scale=how)
    assert [tuple(optimizer.copy_scale_inv(p).shape) for p in params] == list(shapes.values())
    train(optimizer, range(3))
    assert [tuple(optimizer.state[p]["weight_scale"].shape) for p in params if p.numel()] == [s for s in shapes.values() if 0 not in s]
    torch.manual_seed(5)
    start = torch.randn(130, 300) * 2.0 ** torch.arange(300)[None].div(32).floor()
    row, column = (torch.nn.Parameter(m.to(TYPES[0])) for m in (start, start.t().contiguous().t()))
    assert column.stride() == (1, 130)
    made = [AdamW([p], lr=0.1, copy_scale=how) for p in (row, column)]
    for p, optimizer in zip((row, column), made):
        assert optimizer.copy_scale_inv(p).shape == (2, 3)
        optimizer.set_weight(p, start)
        assert fits(optimizer, p)
        train(optimizer, range(3))
        assert fits(optimizer, p)
    assert torch.equal(bits(row), bits(column)) and torch.equal(made[0].copy_scale_inv(row), made[1].copy_scale_inv(column))
    assert torch.equal(made[0].dequantized(row), made[1].dequantized(column))
    # Loads the saved state into the other optimizer, without reading the master again.
    loaded = AdamW([other := torch.nn.Parameter(row.detach().clone())], lr=0.1, copy_scale=how)
    loaded.load_state_dict(made[1].state_dict())
    assert torch.equal(bits(loaded.copy_scale_inv(other)), bits(made[0].copy_scale_inv(row)))
    for p, optimizer in ((row, made[0]), (other, loaded)):
        train(optimizer, range(3, 5))
    assert torch.equal(bits(other), bits(row))


@pytest.mark.parametrize("how", SQUARES)
def test_of_more_dimensions_rows_and_columns_are_those_of_memory(how):
    torch.manual_seed(6)
    start = torch.randn(40, 300, 2, 2)
    p = torch.nn.Parameter(start.to(TYPES[0]).contiguous(memory_format=torch.channels_last))
    optimizer = AdamW([p], lr=0.1, copy_scale=how)
    optimizer.set_weight(p, start)
    for k in range(2):
        lies = optimizer.state[p]["master"].permute(0, 2, 3, 1)
        assert lies.is_contiguous()
        codes, scales = block_scaled(lies, p.dtype, how == "block128")
        assert torch.equal(bits(codes), bits(p.permute(0, 2, 3, 1))) and torch.equal(bits(scales), bits(optimizer.copy_scale_inv(p)))
        train(optimizer, [k])


@pytest.mark.parametrize("kw", [{"clip_factor": 0.01}, {"cls": sft.Adafactor}], ids=str)
def test_squares_and_other_rows_are_of_one_kind(kw):
    """A matrix has the same rows in both; with more dimensions they differ, which is an error."""
    cls, kw = kw.get("cls", AdamW), {key: value for key, value in kw.items() if key != "cls"}
    train(optimizer := cls(parameters(shapes=((130, 257), (33,))), copy_scale="block128", **kw), range(3))
    assert all(fits(optimizer, p) for p in optimizer.param_groups[0]["params"])
    with pytest.raises(TypeError, match="parameter 0 of group 0 along the dimension that is innermost in memory, .*'current', or leave out clip_factor="):
        train(cls(parameters(shapes=((3, 50, 200),)), copy_scale="block128", **kw), range(1))
