"""The sample samples/pytorch: what it saves and resumes from, and its comparison."""

import importlib.util
import json
import pathlib
import sys

import pytest
import torch

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "samples" / "pytorch"
DOCS = SAMPLES.parents[1] / "docs"


def sample_of(name, monkeypatch):
    """What runs a sample's main() with arguments."""
    monkeypatch.syspath_prepend(SAMPLES)  # they import one another
    path = SAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    sample = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sample)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        sample.main()

    return run


@pytest.fixture
def train(monkeypatch):
    return sample_of("train_gpt", monkeypatch)


def test_resumes_to_the_bit(train, tmp_path):
    whole, half, resumed = (tmp_path / name for name in ("whole.pt", "half.pt", "resumed.pt"))
    common = ("--steps", 6, "--dtype", "f16")
    train(*common, "--save", whole)
    train(*common, "--stop", 3, "--save", half)
    train(*common, "--resume", half, "--save", resumed)
    a, b = torch.load(whole, weights_only=True), torch.load(resumed, weights_only=True)
    assert len(torch.load(half, weights_only=True)["losses"]) == 3
    assert a["losses"] == b["losses"] and len(a["losses"]) == 6
    assert a["scaler"] == b["scaler"]
    assert all(torch.equal(v, b["model"][k]) for k, v in a["model"].items())


def test_compares(train, tmp_path, capsys):
    train("--steps", 3, "--dtype", "f32", "--compare", "--svg", tmp_path / "losses.svg")
    assert (tmp_path / "losses.svg").read_text().count("<polyline") == 2
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith(("| stepfuse", "| classic"))]
    assert float(rows[0][2]) == pytest.approx(float(rows[1][2]), abs=2e-3)


def test_tells_tensorboard(train, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard")
    train("--steps", 4, "--dtype", "f16", "--log", tmp_path / "log")
    events = accumulator.EventAccumulator(str(tmp_path / "log"))
    events.Reload()
    values = {name: [e.value for e in events.Scalars(f"train/{name}")]
              for name in ("loss", "rate", "grad_norm", "loss_scale", "skipped")}
    assert all(len(v) == 4 for v in values.values())
    assert values["loss"][3] < values["loss"][0] and values["rate"][3] != values["rate"][0]
    assert all(v > 0 for v in values["grad_norm"] + values["loss_scale"])


def test_the_page_about_moments_has_the_charts_numbers():
    shown = json.loads((DOCS / "moments.json").read_text(encoding="utf-8"))["tasks"]
    rows = [f"| {a['name']} | {a['loss']:.4f} | {a['state']:.2f} | {a['bytes']:.2f} | {b['loss']:.4f} | {b['state']:.2f} | {b['bytes']:.2f} |"
            for a, b in zip(*(task["rows"] for task in shown))]
    assert "\n".join(rows) in (DOCS / "formats.md").read_text(encoding="utf-8")


def test_rounds_weights_in_bf16(monkeypatch, tmp_path):
    sample_of("weight_rounding", monkeypatch)("--epochs", 2, "--json", tmp_path / "runs.json")
    made, shown = (json.loads(file.read_text(encoding="utf-8"))["runs"] for file in (tmp_path / "runs.json", DOCS / "weight_rounding.json"))
    assert [(r["name"], r["bytes"]) for r in made] == [(r["name"], r["bytes"]) for r in shown]
    for a, b in zip(made, shown):
        assert a["losses"][0] == pytest.approx(b["losses"][0], rel=0.02), a["name"]


def test_trains_with_state_in_fewer_bytes(monkeypatch, tmp_path, capsys):
    train = sample_of("moments", monkeypatch)
    ways = importlib.import_module("moments").WAYS
    train("--epochs", 2, "--steps", 10, "--seeds", 1, "--json", tmp_path / "moments.json")
    rows = {cells[0].strip(): [float(c) for c in cells[1:7]]
            for cells in (line.strip("|").split("|") for line in capsys.readouterr().out.splitlines()[2:])}
    assert list(rows) == list(ways)
    made, shown = (json.loads(file.read_text(encoding="utf-8"))["tasks"] for file in (tmp_path / "moments.json", DOCS / "moments.json"))
    assert [[(r["name"], r["state"], r["bytes"]) for r in task["rows"]] for task in made] \
        == [[(r["name"], r["state"], r["bytes"]) for r in task["rows"]] for task in shown]
    assert made[0]["f32"] == [made[0]["rows"][0]["loss"]] * 2
    exact, same = rows["f32"], rows["bf16 remainder"]
    assert (exact[1:3], same[1:3]) == ([8, 12], [10, 12])
    for name, (loss, _, whole, text_loss, _, text_whole) in rows.items():
        assert loss == pytest.approx(exact[0], rel=0.3) and text_loss == pytest.approx(exact[3], rel=0.05), name
        most = 13.1 if name.startswith("weights") else 12  # an f32 master beside 8 bits
        assert whole <= most and text_whole <= most
