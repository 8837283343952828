"""Accelerate's Accelerator around our optimizers: the parameters of the loop by hand, its schedule and skip flags."""

import pytest
import torch

accelerate = pytest.importorskip("accelerate")
from conftest import BAD, MAX_NORM, MICRO, STEPS, Net, batches, by_hand, equal, loss_of, optimizer_of, schedule_of

import stepfuse.torch.accelerate


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_accelerator(dtype, patched, launches):
    accelerate.state.AcceleratorState._reset_state(True)
    half = dtype == torch.float16
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision="fp16" if half else "bf16",
                                         gradient_accumulation_steps=MICRO,
                                         kwargs_handlers=[accelerate.GradScalerKwargs(init_scale=1024.0)])
    if half:  # it makes none on the CPU
        accelerator.native_amp, accelerator.scaler = True, torch.amp.GradScaler("cpu")
    net = Net()
    optimizer = optimizer_of(net)
    stepfuse.torch.accelerate.defer(accelerator, optimizer)
    wrapped, opt, schedule = accelerator.prepare(net, optimizer, schedule_of(optimizer))
    rates, skips, norms = [], [], []
    for i, x in enumerate(batches(half)):
        with accelerator.accumulate(wrapped):
            accelerator.backward(loss_of(wrapped, x))
            if accelerator.sync_gradients:
                rates.append(opt.param_groups[0]["lr"])
                norms.append(accelerator.clip_grad_norm_(wrapped.parameters(), MAX_NORM).item())
            opt.step()
            if accelerator.sync_gradients:
                skips.append(accelerator.optimizer_step_was_skipped)
            schedule.step()
            opt.zero_grad()
    expected_norms = []
    expected, expected_rates, scaler = by_hand(dtype, held=True, norms=expected_norms)
    assert equal(net, expected)
    assert rates == expected_rates
    assert skips == [half and i == BAD for i in range(STEPS)]
    assert str(norms) == str(expected_norms)
    assert not launches
    if half:
        assert accelerator.scaler.state_dict() == scaler.state_dict()


def test_save_and_load_state(patched, tmp_path):
    """Accelerator.save_state and load_state: the same steps after as without."""
    def trained(again):
        accelerate.state.AcceleratorState._reset_state(True)
        accelerator = accelerate.Accelerator(cpu=True, mixed_precision="no")
        net = Net()
        optimizer = optimizer_of(net)
        stepfuse.torch.accelerate.defer(accelerator, optimizer)
        net, opt = accelerator.prepare(net, optimizer)
        data = batches(False)
        for i, x in enumerate(data):
            if i == 5 and again:
                accelerator.save_state(str(tmp_path))
                for p in net.parameters():
                    p.data.add_(1.0)
                opt.step()
                accelerator.load_state(str(tmp_path))
            accelerator.backward(loss_of(net, x))
            accelerator.clip_grad_norm_(net.parameters(), MAX_NORM)
            opt.step()
            opt.zero_grad()
        return net

    assert equal(trained(True), trained(False))
