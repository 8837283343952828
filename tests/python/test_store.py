"""The option store=: the same as the options that it replaces, bit for bit; and what it refuses."""

import pytest
import torch

from stepfuse.torch import SGD, AdamW, stored
from copied import WIDE, bits, everything, parameters, same, train

BF16, F8 = torch.bfloat16, torch.float8_e4m3fn
PAIRS = {
    "ecc24": (BF16, {"weight": "bf16+ecc24"}, {"master": "ecc24"}),
    "remainder": (BF16, {"weight": "bf16+remainder"}, {"master": "remainder"}),
    "stochastic": (BF16, {"weight": "bf16:stochastic"}, {"weight_rounding": "stochastic"}),
    "nearest": (BF16, {"weight": "bf16"}, {"weight_rounding": "nearest"}),
    "moments": (torch.float32, {"moments@4096": "fp8"}, {"moments": "fp8", "moments_min": 4096}),
    "two": (torch.float32, {"exp_avg": "int8", "exp_avg_sq": "sqrt8"}, {"moments": "exp_avg=int8|exp_avg_sq=sqrt8", "moments_min": 0}),
    "both": (BF16, {"weight": "bf16+f32", "moments": "bf16"}, {"master": "f32", "moments": "bf16"}),
}


def trained(dtype, **options):
    torch.manual_seed(3)
    params = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in ((80, 64), (33,))]
    optimizer = AdamW(params, lr=0.01, **options)
    for _ in range(3):
        for p in params:
            p.grad = torch.randn(p.shape).to(dtype)
        optimizer.step()
    return optimizer


@pytest.mark.parametrize("dtype, store, older", PAIRS.values(), ids=PAIRS)
def test_store_says_what_the_older_options_say(dtype, store, older):
    optimizer = trained(dtype, store=store)
    assert same(everything(optimizer), everything(trained(dtype, **older)))
    group = optimizer.param_groups[0]
    assert {name: group[name] for name in older} == older and "store" not in group


@pytest.mark.skipif(not WIDE, reason="gradients of 8-bit parameters in f32 need torch 2.10")
def test_store_of_a_scaled_copy():
    optimizers = [AdamW(parameters(F8), lr=0.01, **options) for options in ({"store": {"weight": "f8e4m3:mx-rceil"}}, {"copy_scale": "mx-rceil"})]
    for optimizer in optimizers:
        train(optimizer, range(2))
    assert same(*map(everything, optimizers))


def test_a_group_has_a_store_of_its_own():
    a, b = (torch.nn.Parameter(torch.ones(300, dtype=BF16)) for _ in range(2))
    optimizer = AdamW([{"params": [a], "store": {"weight": "bf16+remainder"}}, {"params": [b]}], store={"weight": "bf16+ecc24"})
    optimizer.add_param_group({"params": [c := torch.nn.Parameter(torch.ones(7, dtype=BF16))], "store": {"weight": "bf16+f32"}})
    for p in (a, b, c):
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert [stored.find_rest(optimizer.state[p]) for p in (a, b, c)] == ["remainder", "correction", "master"]


def test_a_moment_alone_is_stored_by_the_size_of_its_parameter():
    optimizer = trained(torch.float32, store={"exp_avg@4096": "fp8"})
    big, small = (optimizer.state[p] for p in optimizer.param_groups[0]["params"])
    assert "exp_avg.fp8.code" in big and "exp_avg_sq" in big and "exp_avg" not in big
    assert small["exp_avg"].dtype == torch.float32 and "exp_avg.fp8.code" not in small


@pytest.mark.parametrize("dtype, options, words", [
    (BF16, {"store": "weight=bf16"}, "a dict from buffers to forms"),
    (BF16, {"store": {"weight": "bf16+ecc16"}}, "remainder, ecc24"),
    (BF16, {"store": {"weight@9": "bf16"}}, "^store: expected keys that are 'weight', 'moments' or a moment's name.*; got 'weight@9'$"),
    (BF16, {"store": {"grad": "f16"}}, "expected keys .*; got 'grad'"),
    (BF16, {"store": {"exp_avg@some": "fp8"}}, "expected keys .*; got 'exp_avg@some'"),
    (BF16, {"store": {"weight": "f16+f32"}}, "is torch.bfloat16"),
    (torch.float32, {"store": {"weight": "bf16+ecc24"}}, r"^store: the entry 'weight' does not change a parameter's dtype, and no parameter is bf16; "
     r"convert the model first \(model.bfloat16\(\)\)$"),
    (torch.float32, {"store": {"weight": "bf16:stochastic"}}, "model.bfloat16"),
    (torch.float32, {"store": {"weight": "f16"}}, "model.half"),
    (torch.float32, {"store": {"weight": "f8e4m3:mx"}}, r"model.to\(torch.float8_e4m3fn\)"),
    (BF16, {"store": {"weight": "bf16+ecc24"}, "master": "f32"}, "^store= and master= were both given; leave out master=$"),
    (BF16, {"store": {"weight": "bf16+ecc24"}, "master": "f32", "moments": "fp8"}, "^store=, master= and moments= were all given; leave out master= and moments=$"),
    (BF16, {"store": {"exp_avg": "fp9"}}, "^store={'exp_avg': 'fp9'}: there is no format 'fp9'"),
    (BF16, {"store": {"exp": "fp8"}}, "^store: adamw has no moment 'exp'; it has exp_avg, exp_avg_sq$"),
    (BF16, {"store": {"weight": "bf16+ecc24", "exp@4096": "fp8"}}, "^store: adamw has no moment 'exp'; it has exp_avg, exp_avg_sq$"),
    (BF16, {"moments": "exp=fp8"}, "^moments: adamw has no moment 'exp'; it has exp_avg, exp_avg_sq$"),
])
def test_what_store_refuses(dtype, options, words):
    with pytest.raises(ValueError, match=words):
        AdamW([torch.nn.Parameter(torch.ones(8, dtype=dtype))], **options)


def test_a_groups_own_store_is_named_too():
    a, b = (torch.nn.Parameter(torch.ones(8)) for _ in "ab")
    with pytest.raises(ValueError, match="^store: adamw has no moment 'exp'"):
        AdamW([{"params": [a]}, {"params": [b], "store": {"exp": "fp8"}}])
    optimizer = AdamW([a], store={"exp_avg": "bf16"})
    with pytest.raises(ValueError, match="^store: adamw has no moment 'exp'"):
        optimizer.add_param_group({"params": [b], "store": {"exp": "fp8"}})
    with pytest.raises(ValueError, match="^moments: adamw has no moment 'exp'"):
        optimizer.add_param_group({"params": [b], "moments": "exp=fp8"})
    assert len(optimizer.param_groups) == 1
    with pytest.raises(ValueError, match="^store: sgd has no moments; leave 'momentum_buffer' out$"):
        SGD([a], store={"momentum_buffer": "fp8"})
    SGD([a], store={}).add_param_group({"params": [b], "store": {}})


def test_the_weights_type_is_that_of_some_parameters():
    """A model may keep single parameters in f32. A group's own entry counts instead of the optimizer's."""
    def parameter(dtype):
        return torch.nn.Parameter(torch.ones(8, dtype=dtype))

    store = {"weight": "bf16+ecc24"}
    AdamW([parameter(BF16), parameter(torch.float32)], store=store)
    optimizer = AdamW([{"params": [parameter(torch.float32)]}, {"params": [parameter(BF16)]}], store=store)
    optimizer.add_param_group({"params": [parameter(torch.float32)]})
    with pytest.raises(ValueError, match="does not change a parameter's dtype"):
        optimizer.add_param_group({"params": [parameter(torch.float32)], "store": store})
    assert len(optimizer.param_groups) == 3
    with pytest.raises(ValueError, match="does not change a parameter's dtype"):
        AdamW([{"params": [parameter(torch.float32)], "store": store}, {"params": [parameter(BF16)]}])
    optimizer = AdamW([{"params": [parameter(torch.float16)], "store": {"weight": "f16+f32"}}, {"params": [parameter(BF16)]}], store=store)
    assert [g["master"] for g in optimizer.param_groups] == ["f32", "ecc24"] and not any("weight_type" in g for g in optimizer.param_groups)


@pytest.mark.parametrize("way", ["current", "mx", "mx-rceil", "block128", "block128-f32"])
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_the_multiplication_of_a_forward_pass_decodes_all_codes_as_the_library_does(way, dtype):
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype).repeat(128).reshape(128, 256)
    form = f"{way}_{'f8e4m3' if dtype == torch.float8_e4m3fn else 'f8e5m2'}".replace("-", "_")
    arrays = {f".{form}.weight": codes}
    if way.startswith("mx"):
        scales = torch.arange(codes.numel() // 32, dtype=torch.int32).remainder(256).to(torch.uint8)
        arrays[f".{form}.weight_scale"] = scales
    elif way == "current":
        scales = torch.tensor(0.3)
    else:
        scales = torch.tensor([[0.3, 2.0**-9]])
        arrays[f".{form}.weight_scale"] = scales
    bound = {"from" + name: array for name, array in arrays.items()}
    bound["to"] = torch.empty(codes.shape)
    stored.run_conversion(stored.conversion(form, "f32"), bound, codes, {"copy_scale_inv": float(scales) if way == "current" else 1.0})
    mine = stored.multiply_by_scales(codes, scales)
    assert torch.equal(bits(torch.where(mine.isnan(), 0, mine)), bits(torch.where(bound["to"].isnan(), 0, bound["to"])))
    assert torch.equal(mine.isnan(), bound["to"].isnan())
