"""docs/errors.md names messages as they are, and the pages name what there is."""

import ast
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys
import types

import pytest
import torch

import stepfuse.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def said():
    """All texts of messages, ours and torch's, pieces of one joined."""
    files = [*ROOT.glob("python/stepfuse/**/*.py"), *ROOT.glob("runtime/**/*.cpp"),
             *(pathlib.Path(inspect.getfile(m)) for m in (torch.amp.grad_scaler, torch.nn.utils.clip_grad))]
    text = "\n".join(f.read_text(encoding="utf-8") for f in files)
    return re.sub(r'"\s*\n?\s*f?"', "", text)


def test_messages_are_as_the_page_says():
    messages = said()
    rows = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+)", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), re.M)
    assert len(rows) > 15
    for row in rows:
        for shown in re.findall(r"`([^`]+)`", row):
            for piece in re.split(r"…\w*|\d+\.\d+|\d+|AdamW|'exp_avg'|=True", shown):
                assert piece.strip(" .'") in messages, (shown, piece)


def test_names_on_the_pages_exist():
    for page in ("pytorch", "trainers", "migration", "install"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        for name in set(re.findall(r"stepfuse\.torch\.(\w+)", text)) - {"accelerate", "megatron", "torchtitan", "transformers"}:
            assert hasattr(stepfuse.torch, name), (page, name)
        for file in re.findall(r"`((?:tools|tests)/[\w/.]+)`", text):
            assert (ROOT / file).exists(), (page, file)


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.S | re.M)


class Model(torch.nn.Module):
    """The model that the programs on the pages speak of: it returns a loss."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.head = torch.nn.Linear(8, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return self.head(x).square().mean()


def test_the_programs_about_pytorch_run():
    """test_formulas.py runs those that define an optimizer."""
    programs = [code for code in blocks("docs/pytorch.md") if "Formula" not in code]
    assert len(programs) == 4
    for code in programs:
        torch.manual_seed(0)
        model, bias = Model(), torch.nn.Parameter(torch.zeros(1024))
        names = {"torch": torch, "nn": torch.nn, "stepfuse": stepfuse, "model": model, "data": list(torch.randn(3, 4, 8)), "width": 8,
                 "validate": lambda m: m(torch.randn(4, 8)), "bias": bias, "x": torch.randn(2, 1024), "linear": torch.nn.functional.linear,
                 "schedule": types.SimpleNamespace(step=lambda: None)}
        code = code.replace('torch.autocast("cuda", torch.float16)', 'torch.autocast("cpu", torch.bfloat16)').replace("\n…\n", "\n")
        exec(code, names)
        if "optimizer.stats()" in code:
            assert names["optimizer"].stats()["grad_norm"] > 0


@pytest.mark.parametrize("page", ["docs/ranks.md", "docs/trainers.md", "docs/pytorch.md", "python/README.md", "README.md"])
def test_programs_use_what_there_is(page):
    """Programs on pages about ranks and trainers are parts of bigger ones: their calls of this package must fit its signatures."""
    calls = 0
    for code in blocks(page):
        for node in ast.walk(ast.parse(code.replace("\n…\n", "\n"))):
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("stepfuse.torch."):
                continue
            name = ast.unparse(node.func).removeprefix("stepfuse.torch.")
            module, _, function = name.rpartition(".")
            if module:
                text = (ROOT / "python/stepfuse/torch" / f"{module}.py").read_text(encoding="utf-8")
                assert re.search(rf"^def {function}\(", text, re.M), (page, name)
            else:
                takes = inspect.signature(getattr(stepfuse.torch, name)).parameters
                known = any(p.kind is p.VAR_KEYWORD for p in takes.values())
                assert known or {k.arg for k in node.keywords} <= set(takes), (page, ast.unparse(node))
            calls += 1
    assert calls > 0


def test_the_readmes_have_one_program():
    assert blocks("README.md") == blocks("python/README.md")


def test_a_layout_is_made_of_a_models_file(tmp_path):
    page = (ROOT / "samples/layouts/README.md").read_text(encoding="utf-8")
    command = re.search(r"^```sh\n(python3 .*?)^```$", page, re.S | re.M)[1]
    torch.save(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).state_dict(), tmp_path / "model.pt")
    (tmp_path / "python3").symlink_to(sys.executable)
    done = subprocess.run(["bash", "-euc", command], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stderr
    made = json.loads((tmp_path / "mine.json").read_text(encoding="utf-8"))
    assert {t["name"]: t["shape"] for t in made["tensors"]} == {"0.weight": [2, 3], "0.bias": [2], "1.weight": [2], "1.bias": [2]}


def test_the_tutorials_programs_run_in_their_order_and_learn():
    page = (ROOT / "docs" / "tutorial_pytorch.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"^```python\n(.*?)^```$", page, re.S | re.M))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    losses = [float(x) for x in re.findall(r"loss (\S+)", done.stdout)]
    assert len(losses) == 4 and losses[-1] < 0.8 * losses[0], losses
