"""The sample trains: its losses are those of optax, and a resumed training has the bits of one that never stopped."""

import argparse
import importlib.util
import pathlib
import sys

import jax
import numpy as np
import pytest

FILE = pathlib.Path(__file__).resolve().parents[2] / "samples/jax/train_bytes.py"


@pytest.fixture(scope="module")
def sample():
    spec = importlib.util.spec_from_file_location("train_bytes", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_losses_of_optax(sample, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(FILE), "--compare", "--stop", "20"])
    sample.main()
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("step 20: loss stepfuse "))
    ours, theirs = (float(part.split()[-1].rstrip(",")) for part in line.partition("loss ")[2].split(", ")[:2])
    assert ours == pytest.approx(theirs, abs=2e-3) and ours < 4.0  # from ln(256), which is 5.5


def test_a_resumed_training(sample, tmp_path):
    options = argparse.Namespace(steps=100, dtype="bf16", moments="fp8", seed=1)
    text = np.frombuffer(sample.TEXT.read_bytes(), np.uint8)
    one, two = sample.Training(sample.Ours, options), sample.Training(sample.Ours, options)
    for i in range(6):
        if i == 3:
            one.save(tmp_path)
        one.step(text)
    two.load(tmp_path)
    for _ in range(3):
        two.step(text)
    assert one.losses == two.losses
    for a, b in zip(jax.tree.leaves((one.params, one.state)), jax.tree.leaves((two.params, two.state)), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
