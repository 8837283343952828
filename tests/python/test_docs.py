"""docs/errors.md names messages as they are, and the pages name what there is."""

import inspect
import pathlib
import re
import subprocess
import sys

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
        for name in set(re.findall(r"stepfuse\.torch\.(\w+)", text)) - {"accelerate", "lightning", "megatron", "torchtitan", "transformers"}:
            assert hasattr(stepfuse.torch, name), (page, name)
        for file in re.findall(r"`((?:tools|tests)/[\w/.]+)`", text):
            assert (ROOT / file).exists(), (page, file)


def test_the_tutorials_programs_run_in_their_order_and_learn():
    page = (ROOT / "docs" / "tutorial_pytorch.md").read_text(encoding="utf-8")
    program = "".join(re.findall(r"^```python\n(.*?)^```$", page, re.S | re.M))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    losses = [float(x) for x in re.findall(r"loss (\S+)", done.stdout)]
    assert len(losses) == 4 and losses[-1] < 0.8 * losses[0], losses
