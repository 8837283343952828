"""Transformers' Trainer with our optimizer: the parameters of the loop by hand, its schedule and its logs."""

import math

import pytest
import torch

transformers = pytest.importorskip("transformers")
from conftest import BAD, MAX_NORM, MICRO, RATE, STEPS, Net, batches, by_hand, equal, loss_of

import stepfuse.torch
import stepfuse.torch.transformers


class Wrapped(Net):
    def forward(self, x):
        return {"loss": loss_of(super().forward, x)}


class Data(torch.utils.data.Dataset):
    def __init__(self, overflow):
        self.rows = torch.cat(batches(overflow))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"x": self.rows[i]}


class InOrder(transformers.Trainer):
    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_trainer(dtype, patched, launches, tmp_path, monkeypatch):
    half = dtype == torch.float16
    net = Wrapped()
    arguments = transformers.TrainingArguments(
        str(tmp_path), use_cpu=True, fp16=half, bf16=not half, per_device_train_batch_size=4,
        gradient_accumulation_steps=MICRO, max_grad_norm=MAX_NORM, max_steps=STEPS, logging_steps=1,
        lr_scheduler_type="constant", report_to=[], save_strategy="no", disable_tqdm=True, logging_nan_inf_filter=False,
        weight_decay=0.1)
    trainer = InOrder(net, arguments, train_dataset=Data(half), optimizer_cls_and_kwargs=None)
    if half:  # it makes no scaler on the CPU
        trainer.accelerator.native_amp, trainer.accelerator.scaler = True, torch.amp.GradScaler("cpu")
        trainer.accelerator.scaler_handler = type("Handler", (), {"to_kwargs": lambda self: {"init_scale": 1024.0}})()
    optimizer = stepfuse.torch.AdamW(net.parameters(), lr=RATE, weight_decay=0.1)
    trainer.optimizer = optimizer
    trainer.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: 1 / (1 + i))
    stepfuse.torch.transformers.defer(trainer)
    trainer.train()

    norms = []
    expected, rates, scaler = by_hand(dtype, held=True, norms=norms)
    assert equal(net, expected)
    logged = [line for line in trainer.state.log_history if "grad_norm" in line]
    assert [line["learning_rate"] for line in logged] == rates
    for line, norm in zip(logged, norms, strict=True):
        assert line["grad_norm"] == pytest.approx(norm, nan_ok=True)
    assert not half or not math.isfinite(logged[BAD]["grad_norm"])
    assert not launches
    if half:
        assert trainer.accelerator.scaler.state_dict() == scaler.state_dict()


def test_resumes_to_the_bit(patched, tmp_path):
    def trained(folder, steps, resume):
        net = Wrapped()
        arguments = transformers.TrainingArguments(
            str(folder), use_cpu=True, bf16=True, per_device_train_batch_size=4, gradient_accumulation_steps=MICRO,
            max_grad_norm=MAX_NORM, max_steps=steps, save_steps=4, report_to=[], disable_tqdm=True)
        trainer = InOrder(net, arguments, train_dataset=Data(False),
                          optimizer_cls_and_kwargs=(stepfuse.torch.AdamW, {"lr": RATE}))
        stepfuse.torch.transformers.defer(trainer)
        trainer.train(resume_from_checkpoint=resume)
        return net

    whole = trained(tmp_path / "a", STEPS, None)
    resumed = trained(tmp_path / "b", STEPS, str(tmp_path / "a" / "checkpoint-4"))
    assert equal(whole, resumed)


def trained_by_name(folder, optim, optim_args=None, cls=None, **kw):
    """A Trainer's net and optimizer, made by a name, or by a class beside it."""
    net = Wrapped()
    arguments = transformers.TrainingArguments(
        str(folder), use_cpu=True, bf16=True, per_device_train_batch_size=4, max_steps=4, report_to=[], disable_tqdm=True,
        learning_rate=RATE, weight_decay=0.1, adam_beta2=0.95, save_strategy="no", optim=optim, optim_args=optim_args)
    trainer = InOrder(net, arguments, train_dataset=Data(False), optimizer_cls_and_kwargs=cls and (cls, kw))
    trainer.train()
    return net, trainer.optimizer.optimizer


@pytest.mark.parametrize(("name", "args", "cls", "kw"), [
    ("stepfuse_adamw", None, stepfuse.torch.AdamW, {"betas": (0.9, 0.95)}),
    ("stepfuse_adamw", "moments=dyn8, moments_min=0", stepfuse.torch.AdamW,
     {"betas": (0.9, 0.95), "moments": "dyn8", "moments_min": 0}),
    ("stepfuse_sgd", "momentum=0.9,nesterov=True", stepfuse.torch.SGD, {"momentum": 0.9, "nesterov": True}),
    ("stepfuse_lion", None, stepfuse.torch.Lion, {"betas": (0.9, 0.95)}),
    ("stepfuse_adan", None, stepfuse.torch.Adan, {}),  # whose three betas are its own
], ids=str)
def test_names_of_optim_make_our_classes(name, args, cls, kw, tmp_path):
    net, optimizer = trained_by_name(tmp_path / "a", name, args)
    assert type(optimizer) is cls
    expected, _ = trained_by_name(tmp_path / "b", "sgd", cls=cls, lr=RATE, weight_decay=0.1, **kw)
    assert equal(net, expected)
    if args and "moments" in args:
        assert all("exp_avg.dyn8.code" in state for state in optimizer.state.values())


def test_torchs_names_still_mean_torchs_classes(tmp_path):
    _, optimizer = trained_by_name(tmp_path, "adamw_torch")
    assert type(optimizer) is torch.optim.AdamW


def test_a_name_survives_the_command_line_json_and_pickle(tmp_path):
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    (parsed,) = parser.parse_args_into_dataclasses(
        ["--output_dir", str(tmp_path), "--use_cpu", "--optim", "stepfuse_lamb"])
    assert parsed.optim == "stepfuse_lamb" and parsed.to_dict()["optim"] == "stepfuse_lamb"
    torch.save(parsed, tmp_path / "training_args.bin")
    assert torch.load(tmp_path / "training_args.bin", weights_only=False).optim == "stepfuse_lamb"


def test_a_wrong_name_or_argument_is_refused(tmp_path):
    with pytest.raises(ValueError, match="stepfuse_adam_w is not a valid OptimizerNames"):
        trained_by_name(tmp_path, "stepfuse_adam_w")
    with pytest.raises(ValueError, match="expected key=value, as in moments=dyn8; got 'dyn8'"):
        trained_by_name(tmp_path, "stepfuse_adamw", "dyn8")


def test_the_steps_reports_are_in_the_trainers_logs(tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed")
    net = Wrapped()
    arguments = transformers.TrainingArguments(
        str(tmp_path), use_cpu=True, bf16=True, per_device_train_batch_size=4, max_grad_norm=MAX_NORM, max_steps=STEPS, logging_steps=2,
        report_to=["tensorboard"], save_strategy="no", disable_tqdm=True, optim="stepfuse_adamw",
        optim_args="layer_norms=True,check_updates=True")
    trainer = InOrder(net, arguments, train_dataset=Data(False))
    stepfuse.torch.transformers.defer(trainer)
    stepfuse.torch.transformers.log(trainer, layers=True)
    trainer.train()
    logged = [line for line in trainer.state.log_history if "loss" in line]
    assert len(logged) == STEPS // 2
    for line in logged:
        assert line["optimizer/grad_norm"] == pytest.approx(line["grad_norm"])
        assert 0 < line["optimizer/update_ratio"] < 1 and 0 <= line["optimizer/clip_rate"] <= 1
        assert sum(name.startswith("optimizer/update_norm/") for name in line) == len(list(net.parameters()))
    found = next(iter(tmp_path.rglob("events.out.*"))).parent
    reader = events.EventAccumulator(str(found))
    reader.Reload()
    assert "train/optimizer/update_ratio" in reader.Tags()["scalars"]
