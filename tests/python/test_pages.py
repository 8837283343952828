"""The Python programs on the pages: those about one process run here, with tiny models; calls in the others fit the package."""

import ast
import contextlib
import inspect
import json
import pathlib
import re

import pytest
import torch

import stepfuse.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEFT_OUT = "\n…\n"  # a line that stands for the reader's own code
TRAINING = "\nmodel(data[0]).backward()\noptimizer.step()\n"


def programs(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)


class Model(torch.nn.Module):
    """The model of the pages' programs: it has layers and a head, and returns a loss."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))
        self.head = torch.nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x).square().mean()


class Schedule:
    def __init__(self):
        self.steps = 0

    def step(self):
        self.steps += 1


def names():
    torch.manual_seed(0)
    return {"torch": torch, "nn": torch.nn, "stepfuse": stepfuse, "model": Model(), "data": list(torch.randn(3, 8, 4)), "width": 4,
            "schedule": Schedule(), "validate": lambda model: model(torch.randn(8, 4)), "x": torch.randn(2, 1024),
            "bias": torch.nn.Parameter(torch.zeros(1024)), "linear": torch.nn.functional.linear}


def run(code, **more):
    """Runs a program of the page on the CPU; returns its names."""
    has = {**names(), **more}
    code = code.replace(LEFT_OUT, TRAINING).replace('autocast("cuda", torch.float16)', 'autocast("cpu", torch.bfloat16)')
    exec(compile(code, "page", "exec"), has)
    return has


def program_with(word, page="docs/pytorch.md"):
    found = [code for code in programs(page) if word in code]
    assert len(found) == 1, (page, word)
    return found[0]


def test_the_native_way_steps_and_reports():
    has = run(program_with("LossScaler("))
    assert has["optimizer"].stats()["grad_norm"] > 0 and has["schedule"].steps == 3


def test_factors_and_averages():
    tried = []
    has = run(program_with("ema_decay="), validate=lambda model: tried.append(model(torch.randn(8, 4)).item()))
    assert len(tried) == 1 and isinstance(has["optimizer"], stepfuse.torch.AdamW)


@pytest.mark.skipif(not hasattr(torch.Tensor, "grad_dtype"), reason="this torch has no grad_dtype")
def test_8_bit_weights_compute():
    has = run(program_with("grad_dtype"))
    has["y"].sum().backward()
    has["optimizer"].step()
    assert has["weight"].dtype == torch.float8_e4m3fn and has["bias"].abs().max() > 0


def test_low_bit_moments_step():
    has = run(program_with('moments="fp8"'))
    has["model"](torch.randn(8, 4)).backward()
    has["optimizer"].step()


def test_the_program_with_a_graph_runs_up_to_the_capture():
    """A capture needs CUDA; test_capture.py captures on the fake driver."""
    before, _, after = program_with("CUDAGraph").partition("graph = ")
    model = Model()
    has = run(before.replace(", capturable=True", ""), model=model, loss=lambda: model(torch.randn(8, 4)))
    assert has["optimizer"].stats()["skipped"] == 0
    for call in set(re.findall(r"optimizer\.(\w+)\(", after)):
        assert callable(getattr(has["optimizer"], call))


def calls_of(code):
    for node in ast.walk(ast.parse(code.replace(LEFT_OUT, "\n").replace(", …", ""))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("stepfuse.torch."):
            yield node


@pytest.mark.parametrize("page", ["docs/ranks.md", "docs/trainers.md", "docs/pytorch.md"])
def test_calls_on_the_pages_fit_the_package(page):
    """Programs about ranks and trainers are parts of larger ones. Their calls are bound to the functions' signatures."""
    checked = 0
    for code in programs(page):
        for call in calls_of(code):
            path = ast.unparse(call.func).removeprefix("stepfuse.torch.").split(".")
            target = stepfuse.torch
            with contextlib.suppress(ImportError):  # a trainer that is not installed
                if len(path) == 2:
                    __import__(f"stepfuse.torch.{path[0]}")
                for name in path:
                    target = getattr(target, name)
                takes = inspect.signature(target)
                takes.bind(*call.args, **{k.arg: k.value for k in call.keywords if k.arg})
            checked += 1
    assert checked > 2, page


def test_the_command_that_makes_a_layout_from_a_models_file(tmp_path, monkeypatch, capsys):
    page = (ROOT / "samples/layouts/README.md").read_text(encoding="utf-8")
    command = re.search(r'python3 -c "(import json, torch.*?)" > mine\.json$', page, re.S | re.M)[1]
    monkeypatch.chdir(tmp_path)
    torch.save(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict(), "model.pt")
    exec(compile(command, "page", "exec"), {})
    made = json.loads(capsys.readouterr().out)
    assert {t["name"]: t["shape"] for t in made["tensors"]} == {"0.weight": [2, 3], "0.bias": [2], "1.weight": [2], "1.bias": [2]}


def test_both_readmes_have_one_program():
    assert programs("README.md") == programs("python/README.md")
