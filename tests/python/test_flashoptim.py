"""State of FlashOptim's optimizers: its codes, scales and error bits bit for bit, from what its own kernels made."""

import json
import pathlib

import pytest
import torch

from stepfuse.torch import AdamW, stored

RECORDED = json.loads((pathlib.Path(__file__).parent.parent / "data" / "flashoptim.json").read_text(encoding="utf-8"))
MOMENTS = {"exp_avg": "int8_f16", "exp_avg_sq": "sqrt8_f16"}


def floats(values):
    return torch.tensor(values, dtype=torch.int32).view(torch.float32)


@pytest.mark.parametrize("form", MOMENTS.values())
def test_moments_have_flashoptims_bits(form):
    recorded = RECORDED[form]
    made, _ = stored.encode(floats(recorded["x"]), form)
    assert made[f".{form}.code"].tolist() == recorded["code"]
    assert made[f".{form}.scale"].view(torch.int16).tolist() == recorded["scale"]
    back = stored.decode(made, "", form, floats(recorded["x"]), "a moment")
    assert back.view(torch.int32).tolist() == recorded["back"]


@pytest.mark.parametrize("form", ["ecc24", "ecc24_i16"])
def test_error_bits_have_flashoptims_bits(form):
    recorded = RECORDED[form]
    x = floats(recorded["x"])
    made, _ = stored.encode(x, form)
    assert made[f".{form}.weight"].view(torch.int16).tolist() == recorded["weight"]
    assert made[f".{form}.correction"].tolist() == recorded["correction"]
    back, expected = stored.decode(made, "", form, x, "a weight"), floats(recorded["back"])
    assert torch.equal(back, expected)  # only the sign of a zero may differ


def saved(dtype, master_bytes):
    """A state_dict as FlashAdamW saves it with compressed moments, over the recorded arrays."""
    state = {"step": torch.tensor(3)}
    for moment, form in MOMENTS.items():
        codes, scales = RECORDED[form]["code"], torch.tensor(RECORDED[form]["scale"], dtype=torch.int16)
        state[f"{moment}::quantized"] = torch.tensor(codes, dtype=torch.int8 if form == "int8_f16" else torch.uint8)
        state[f"{moment}::scales"] = scales.view(torch.bfloat16 if dtype == torch.bfloat16 else torch.float16)
    group = {"params": [0], "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
    if master_bytes:
        errors = torch.arange(135, dtype=torch.int32) - 60
        state["error_bits"] = errors.to(torch.bfloat16) if master_bytes == 3 else (errors * 300).to(torch.int16).view(torch.bfloat16)
        group["master_bytewidth"] = master_bytes
    return {"state": {0: state}, "param_groups": [group]}


def loaded(dtype, master_bytes, **options):
    torch.manual_seed(1)
    p = torch.nn.Parameter(torch.randn(135).to(dtype))
    optimizer = AdamW([p], **options)
    optimizer.load_state_dict(saved(dtype, master_bytes))
    return optimizer, p


@pytest.mark.parametrize("dtype, master_bytes", [(torch.float32, 0), (torch.bfloat16, 3), (torch.bfloat16, 4)])
def test_a_state_dict_loads_bit_for_bit(dtype, master_bytes):
    kept = {"moments": "exp_avg=int8_f16,exp_avg_sq=sqrt8_f16", "moments_min": 0, **({"master": "ecc24"} if master_bytes == 3 else {})}
    optimizer, p = loaded(dtype, master_bytes, **kept)
    weight = p.detach().clone()
    optimizer._make_state()
    state = optimizer.state_dict()["state"][0]
    assert float(state["step"]) == 3
    for moment, form in MOMENTS.items():
        assert state[f"{moment}.{form}.code"].tolist() == RECORDED[form]["code"]
        assert state[f"{moment}.{form}.scale"].view(torch.int16).tolist() == RECORDED[form]["scale"]
    errors = torch.arange(135) - 60
    if master_bytes == 3:
        assert state["correction"].tolist() == errors.tolist()
    elif master_bytes == 4:  # an f32 master, which is the weight and its 16 bits
        unit = torch.ldexp(torch.ones(135), torch.frexp(weight.float()).exponent - 1 - 8)
        expected = weight.float() + (errors * 300).float() / 32767 * unit
        assert torch.equal(state["master"], expected)


def test_moments_that_are_kept_otherwise_are_converted():
    optimizer, p = loaded(torch.float32, 0)
    optimizer._make_state()
    for moment, form in MOMENTS.items():
        assert optimizer.state[p][moment].view(torch.int32).tolist() == RECORDED[form]["back"]


def test_what_cannot_be_read_is_said():
    state_dict = saved(torch.float32, 0)
    del state_dict["state"][0]["exp_avg::scales"]
    with pytest.raises(ValueError, match="exp_avg::scales' missing"):
        AdamW([torch.nn.Parameter(torch.ones(135))]).load_state_dict(state_dict)
