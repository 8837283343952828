"""Lightning's Trainer and Fabric with our optimizer and GradScaler: the parameters of the loop by hand."""

import pytest
import torch

lightning = pytest.importorskip("lightning")
from conftest import BAD, MAX_NORM, MICRO, STEPS, Net, batches, by_hand, equal, loss_of, optimizer_of, schedule_of
from lightning.fabric.plugins.precision.amp import MixedPrecision as FabricPrecision
from lightning.pytorch.plugins.precision import MixedPrecision

import stepfuse.torch
from stepfuse.torch import GradScaler, LossScaler

NAMES = {torch.float16: "16-mixed", torch.bfloat16: "bf16-mixed"}


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.rates, self.skips = [], []

    def training_step(self, batch, index):
        loss = loss_of(self.net, batch)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        self.real = optimizer_of(self.net)
        stepfuse.torch.patch_clipping(self.real)
        return {"optimizer": self.real, "lr_scheduler": {"scheduler": schedule_of(self.real), "interval": "step"}}

    def on_before_optimizer_step(self, optimizer):
        self.rates.append(optimizer.param_groups[0]["lr"])

    def on_train_batch_end(self, *_):
        skipped = self.real.last_step_skipped
        self.skips.append(bool(skipped) if skipped is not None else False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_trainer(dtype, patched, launches, tmp_path):
    half = dtype == torch.float16
    scaler = GradScaler("cpu", init_scale=1024.0, defer_unscale=True) if half else None
    module = Module()
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=1, accumulate_grad_batches=MICRO, gradient_clip_val=MAX_NORM, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=tmp_path, plugins=[MixedPrecision(NAMES[dtype], "cpu", scaler=scaler)])
    trainer.fit(module, torch.utils.data.DataLoader(batches(half), batch_size=None))
    expected, rates, theirs = by_hand(dtype, held=False)
    assert equal(module.net, expected)
    assert module.rates == rates
    if half:
        assert module.skips[1::MICRO] == [i == BAD for i in range(STEPS)]
        assert scaler.state_dict() == theirs.state_dict()
    assert not launches
    assert trainer.logged_metrics["loss"].isfinite()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_fabric(dtype, patched, launches):
    half = dtype == torch.float16
    scaler = GradScaler("cpu", init_scale=1024.0, defer_unscale=True) if half else None
    fabric = lightning.Fabric(accelerator="cpu", devices=1, plugins=[FabricPrecision(NAMES[dtype], "cpu", scaler=scaler)])
    net = Net()
    real = optimizer_of(net)
    stepfuse.torch.patch_clipping(real)
    schedule = schedule_of(real)
    module, optimizer = fabric.setup(net, real)
    data = batches(half)
    for i in range(STEPS):
        for x in data[i * MICRO:(i + 1) * MICRO]:
            fabric.backward(loss_of(module, x) / MICRO)
        fabric.clip_gradients(module, optimizer, max_norm=MAX_NORM, error_if_nonfinite=False)
        optimizer.step()
        assert not half or real.last_step_skipped.item() == (i == BAD)
        schedule.step()
        optimizer.zero_grad()
    expected, _, theirs = by_hand(dtype, held=False)
    assert equal(net, expected)
    assert not half or scaler.state_dict() == theirs.state_dict()
    assert not launches


def test_a_loss_scaler_of_the_optimizers_own_is_refused(patched, tmp_path):
    class Own(Module):
        def configure_optimizers(self):
            return stepfuse.torch.AdamW(self.net.parameters(), scaler=LossScaler())

        on_before_optimizer_step = on_train_batch_end = lambda self, *_: None

    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path, gradient_clip_val=0.5,
        plugins=[MixedPrecision("16-mixed", "cpu", scaler=torch.amp.GradScaler("cpu"))])
    with pytest.raises(RuntimeError, match="does not allow for gradient clipping"):
        trainer.fit(Own(), torch.utils.data.DataLoader(batches(False), batch_size=None))


def test_the_steps_reports_are_in_the_trainers_loggers(patched, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed")
    from lightning.pytorch.loggers import TensorBoardLogger

    from stepfuse.torch.lightning import LogCallback

    class Logged(Module):
        def configure_optimizers(self):
            self.real = stepfuse.torch.AdamW(self.net.named_parameters(), lr=0.05, max_norm=MAX_NORM, layer_norms=True)
            return self.real

    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=1, accumulate_grad_batches=MICRO, log_every_n_steps=2, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, logger=TensorBoardLogger(tmp_path), callbacks=[LogCallback(layers=True)])
    trainer.fit(Logged(), torch.utils.data.DataLoader(batches(False), batch_size=None))
    reader = events.EventAccumulator(trainer.logger.log_dir)
    reader.Reload()
    assert [event.step for event in reader.Scalars("optimizer/clip_rate")] == list(range(2, STEPS + 1, 2))
    assert all(0 < event.value < 1 for event in reader.Scalars("optimizer/update_ratio/layers.0.weight"))
