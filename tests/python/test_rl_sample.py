"""The sample of reinforcement learning in fp16: it learns over FSDP2, ranks agree on scale and skipped steps, and scaling is needed."""

import importlib.util
import pathlib

import torch
from processes import good, run

SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "samples" / "pytorch" / "rl_fp16.py"


def load():
    spec = importlib.util.spec_from_file_location("rl_fp16", SAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trained(rank, world, *arguments):
    sample = load()
    return sample.train(rank, world, sample.parse([*arguments, "--every", "1000"]))


def mean(reports, key="reward"):
    return sum(report[key] for report in reports) / len(reports)


def test_learns_with_a_scale_that_overflowed_at_first():
    first, second = good(run(2, trained, "--steps", "60", "--questions", "8"))
    assert first == second
    assert mean(first[-10:]) > mean(first[:5]) + 0.15
    skipped = [report["skipped"] for report in first]
    assert skipped[0] and sum(skipped[-20:]) <= 2  # it grows every 20 good steps
    assert first[-1]["loss_scale"] < first[0]["loss_scale"]
    # Sampling and training are the same computation here.
    assert max(report["difference"] for report in first) < 1e-2
    assert all(torch.isfinite(torch.tensor(report["reward"])) for report in first)
