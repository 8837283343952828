"""tools/torch_checkpoint.py and the checkpoints of stepfuse whose moments are in formats: the library converts them."""

import pathlib
import sys

import pytest
import torch

from stepfuse import _core
from stepfuse.torch import stored

pytest.importorskip("safetensors")
pytest.importorskip("xxhash")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import torch_checkpoint

SIZE = 600


@pytest.fixture
def saved(tmp_path):
    """A checkpoint with moments in fp8, and the moments' values."""
    torch.manual_seed(2)
    weight, moments = torch.randn(SIZE), {name: torch.rand(SIZE) for name in ("exp_avg", "exp_avg_sq")}
    arrays = {"grad": torch.zeros(SIZE), "weight": weight}
    for name, values in moments.items():
        arrays.update((name + part, array) for part, array in stored.encode(values, "fp8")[0].items())
    step = _core.Step(_core.Program("adamw", ["moments=fp8"]), [("t", SIZE, 0, False, 0)], 0, 0, 1, None, False)
    for name, array in arrays.items():
        if name != "grad":
            step.bind(name, [array.data_ptr()])
    step.adopt_state()
    step.save(str(tmp_path / "fp8.safetensors"))
    return tmp_path / "fp8.safetensors", {name: stored.decode(arrays, name, "fp8", weight, "") for name in moments}


def test_moments_in_a_format_are_read_as_the_values_of_their_codes(saved):
    path, values = saved
    states, _, step = torch_checkpoint.read(path)
    assert step == "adamw"
    assert {name: torch.equal(states[0][name], values[name]) for name in values} == dict.fromkeys(values, True)


def test_the_library_converts_some_moments_and_says_what_it_lacks(saved):
    path, values = saved
    other = path.with_name("some.safetensors")
    _core.convert_checkpoint(str(path), str(other), "exp_avg=f32")
    from safetensors.torch import load_file
    arrays = load_file(other)
    assert torch.equal(arrays["buffer.exp_avg.0"], values["exp_avg"])
    assert arrays["buffer.exp_avg_sq.fp8.code.0"].dtype == torch.float8_e4m3fn
    with pytest.raises(_core.Error, match="fp9"):
        _core.convert_checkpoint(str(path), str(other), "fp9")
