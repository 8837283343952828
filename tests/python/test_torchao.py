"""State of torchao's AdamWFp8, AdamW8bit and AdamW4bit converts from and to ours bit for bit, and both can resume."""

import pytest
import torch
from peer import ieee_sqrt

from stepfuse.torch import AdamW
from stepfuse.torch.torchao import to_torchao

torchao = pytest.importorskip("torchao.optim")
KW = {"lr": torch.tensor(1e-3), "betas": (0.5, 0.75), "weight_decay": 0.01}
SHAPES = ((64, 128), (512,))  # the second is small and stays f32
PAIRS = [("AdamWFp8", {"exp_avg": "fp8", "exp_avg_sq": "fp8"}), ("AdamW8bit", {"exp_avg": "dyn8", "exp_avg_sq": "dyn8u"}),
         ("AdamW4bit", {"exp_avg": "dyn4", "exp_avg_sq": "lin4"})]


def trained(optimizer, steps):
    for k in steps:
        for i, p in enumerate(optimizer.param_groups[0]["params"]):
            p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(10 * k + i))
        with ieee_sqrt():
            optimizer.step()


def made(cls, **kw):
    torch.manual_seed(0)
    return cls([torch.nn.Parameter(torch.randn(s)) for s in SHAPES], **kw)


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda f, **_: f)  # torchao compiles its step


def same(ours, theirs, forms):
    for moment, form in forms.items():
        big = theirs[0][moment]
        codes = ours[0].get(f"{moment}.{form}.code")
        if codes is None:  # 4 bytes of one array, then 4 of the other
            halves = [ours[0][f"{moment}.{form}.{part}"].view(torch.uint8) for part in ("first", "second")]
            codes = torch.stack([h.view(-1, 4) for h in halves], 1).flatten()
        assert torch.equal(codes.view(torch.uint8), big.codes.view(torch.uint8))
        assert torch.equal(ours[0][f"{moment}.{form}.scale"], big.scale)
        assert torch.equal(ours[1][moment], theirs[1][moment])


@pytest.mark.parametrize(("peer", "forms"), PAIRS, ids=[p[0] for p in PAIRS])
def test_theirs_goes_in_and_comes_out_to_the_bit(peer, forms):
    theirs = made(getattr(torchao, peer), **KW)
    trained(theirs, range(3))
    ours = made(AdamW, **KW, moments="|".join(f"{moment}={form}" for moment, form in forms.items()))
    ours.load_state_dict(theirs.state_dict())
    same(ours.state_dict()["state"], theirs.state_dict()["state"], forms)
    ours._make_state()
    same(ours.state_dict()["state"], theirs.state_dict()["state"], forms)
    trained(ours, range(3, 5))
    again = made(getattr(torchao, peer), **KW)
    again.load_state_dict(to_torchao(ours.state_dict(), ours.param_groups[0]["params"]))
    same(ours.state_dict()["state"], again.state_dict()["state"], forms)
    trained(again, range(5, 6))
    trained(ours, range(5, 6))
    a, b = (o.plain_state_dict()["state"] if o is ours else o.state_dict()["state"] for o in (ours, again))
    for i in a:
        near = b[i]["exp_avg"]
        near = near.dequantize() if hasattr(near, "dequantize") and i == 0 else near
        assert (a[i]["exp_avg"] - near).norm() < 0.02 * near.norm()


def test_what_is_not_theirs_is_refused_by_name():
    ours = made(AdamW, moments="int8")
    trained(ours, range(1))
    with pytest.raises(ValueError, match="'exp_avg.int8.code' of parameter 0 has a format that torchao does not have; it has fp8, dyn8, dyn8u, dyn4, lin4"):
        to_torchao(ours.state_dict())
    theirs = made(torchao.AdamW8bit, **KW, block_size=128)
    trained(theirs, range(1))
    with pytest.raises(TypeError, match="'exp_avg' of parameter 0 is torchao's OptimState8bit in blocks of 128"):
        made(AdamW, moments="exp_avg=dyn8|exp_avg_sq=dyn8u").load_state_dict(theirs.state_dict())


def test_of_4_bits_the_shapes_are_asked_for():
    ours = made(AdamW, moments="exp_avg=dyn4|exp_avg_sq=lin4")
    trained(ours, range(1))
    with pytest.raises(ValueError, match=r"'exp_avg' of parameter 0 in 4 bits has no shape: to_torchao\(state_dict, params\)"):
        to_torchao(ours.state_dict())


@pytest.mark.parametrize("lr", [1e-3, KW["lr"]], ids=["float", "tensor"])
def test_theirs_steps_with_a_state_of_ours(lr):
    ours = made(AdamW, **{**KW, "lr": lr}, moments="fp8")
    trained(ours, range(1))
    theirs = made(torchao.AdamWFp8, **KW)
    theirs.load_state_dict(to_torchao(ours.state_dict()))
    trained(theirs, range(1, 2))
