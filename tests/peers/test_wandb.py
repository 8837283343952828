"""W&B without its server: what a StepLogger sends to a run."""

import pytest
import torch

wandb = pytest.importorskip("wandb")

from stepfuse.torch import AdamW, StepLogger


def test_a_run_has_the_newest_reports(tmp_path):
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = AdamW([("w", p)], lr=0.01, max_norm=1.0, layer_norms=True)
    with wandb.init(mode="offline", project="stepfuse", dir=tmp_path) as run:
        logger = StepLogger(optimizer, run, every=2, layers=True)
        for _ in range(4):
            p.grad = torch.ones(4)
            optimizer.step()
            logger.log()
        summary = dict(run.summary)
        assert run.step >= 4
    assert summary["optimizer/clip_rate"] == 1.0 and summary["optimizer/grad_norm"] == pytest.approx(2.0)
    assert summary["optimizer/update_norm/w"] > 0
