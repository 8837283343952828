"""torch.set_default_device() and set_default_dtype() are the program's own matter: a step keeps its numbers where they were."""

import copy

import pytest
import torch

from stepfuse.torch import Adafactor, AdamW, Lion, LossScaler, Muon, parts

CASES = [
    (AdamW, {"max_norm": 1.0, "layer_norms": True}, torch.float32), (AdamW, {"max_norm": 1.0, "scaler": True}, torch.float32),
    (AdamW, {"moments": "int8", "master": "remainder"}, torch.bfloat16), (AdamW, {"clip": "zclip", "max_norm": 1.0}, torch.float32),
    (AdamW, {"copy_scale": "delayed"}, torch.float8_e4m3fn), (AdamW, {"copy_scale": "current"}, torch.float8_e4m3fn),
    (Adafactor, {}, torch.float32), (Lion, {"weight_rounding": "stochastic", "seed": 3}, torch.bfloat16), (Muon, {}, torch.float32)]


def train(cls, more, dtype, settings):
    """Weights and state after steps and a round through a state_dict, all made under torch's `settings`."""
    generator = torch.Generator("cpu").manual_seed(1)

    def draw():
        return [torch.randn(40, 30, generator=generator, dtype=torch.float32, device="cpu").to(dtype) for _ in range(3)]

    params = [torch.nn.Parameter(p) for p in draw()]
    with settings():
        more = {**more, **({"scaler": LossScaler(8.0)} if "scaler" in more else {})}
        optimizer = cls(params, lr=0.01, **more)
        for k in range(4):
            for p, grad in zip(params, draw()):
                p.grad = grad
            optimizer.step()
            optimizer.stats()
            if k == 1:
                saved = copy.deepcopy(optimizer.state_dict())
                optimizer = cls(params, lr=0.01, **more)
                optimizer.load_state_dict(saved)
        return params, optimizer.state_dict()["state"]


class Doubles:
    def __enter__(self):
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *_):
        torch.set_default_dtype(self.before)


@pytest.mark.parametrize("settings", [lambda: torch.device("meta"), Doubles], ids=["meta", "float64"])
@pytest.mark.parametrize(("cls", "more", "dtype"), CASES, ids=str)
def test_defaults_of_torch_change_nothing(cls, more, dtype, settings):
    if parts.on_cuda(torch.device("cpu")):
        pytest.skip("skipped: many kernels")
    (a, state), (b, other) = (train(cls, more, dtype, how) for how in (settings, lambda: torch.device("cpu")))
    for p, q in zip(a, b):
        assert torch.equal(p.view(torch.uint8), q.view(torch.uint8))
    assert state.keys() == other.keys()
    for i, values in state.items():
        for name, value in values.items():
            assert value.device.type == "cpu" and value.dtype == other[i][name].dtype and torch.equal(value.reshape(-1).view(torch.uint8), other[i][name].reshape(-1).view(torch.uint8)), name
