"""layer_stats() and StepLogger: each parameter's norms and lost updates compared with PyTorch's, whole over ranks, and in TensorBoard."""

import math

import pytest
import torch
from processes import good, run
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from stepfuse.torch import LAMB, SGD, AdamW, Formula, LossScaler, Muon, StableAdamW, StepLogger, ZeroRedundancyOptimizer

SHAPES = [(24, 16), (16,), (5, 3, 7)]
NAMES = ["layers.0.weight", "layers.0.bias", "layers.1.weight"]
BOTH = {"layer_norms": True, "check_updates": True}


def tensors(seed, dtype=torch.float32):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw).to(dtype) for shape in SHAPES]


def named(dtype=torch.float32):
    return list(zip(NAMES, [torch.nn.Parameter(w) for w in tensors(0, dtype)]))


def close(reports, name, grad, before, after):
    report = reports[name]
    change = (after.double() - before.double()).norm().item()
    expected = {"grad_norm": grad.double().norm().item(), "weight_norm": before.double().norm().item(), "update_norm": change}
    for key, value in expected.items():
        assert report[key] == pytest.approx(value, rel=1e-5), (name, key)
    assert report["update_ratio"] == pytest.approx(change / expected["weight_norm"], rel=1e-5)


@pytest.mark.parametrize("kw", [{}, {"max_norm": 0.1}, {"moments": "dyn8", "moments_min": 0}, {"monitor": True}], ids=str)
def test_norms_are_torchs(kw):
    params = named()
    optimizer = AdamW(params, lr=0.01, weight_decay=0.1, **BOTH, **kw)
    assert optimizer.layer_stats() is None
    for step in range(3):
        before = [p.detach().clone() for _, p in params]
        for (_, p), g in zip(params, tensors(step + 1)):
            p.grad = g
        optimizer.step()
        reports = optimizer.layer_stats()
        assert list(reports) == NAMES
        for (name, p), old in zip(params, before):
            close(reports, name, p.grad, old, p.detach())
            assert reports[name]["updates"] == p.numel() and reports[name]["lost_updates"] == 0


def test_of_unscaled_gradients_and_nothing_of_a_skipped_step():
    params = named()
    optimizer = AdamW(params, scaler=LossScaler(init_scale=8.0), **BOTH)
    for _, p in params:
        p.grad = torch.full_like(p, 8.0)
    optimizer.step()
    assert optimizer.layer_stats()["layers.0.bias"]["grad_norm"] == 4
    params[0][1].grad[0, 0] = math.inf
    optimizer.step()
    reports = optimizer.layer_stats()
    assert reports["layers.0.weight"]["grad_norm"] == math.inf and reports["layers.0.bias"]["grad_norm"] == 4
    assert all(reports[name]["update_norm"] == reports[name]["updates"] == reports[name]["lost_updates"] == 0 for name in NAMES)


@pytest.mark.parametrize(("kw", "dtype", "lost"), [
    ({}, torch.float32, 0), ({"weight_rounding": "nearest"}, torch.bfloat16, 1), ({}, torch.bfloat16, 0),
    ({"weight_rounding": "kahan"}, torch.bfloat16, 0), ({"master": "remainder"}, torch.bfloat16, 0)], ids=str)
def test_updates_that_round_to_nothing(kw, dtype, lost):
    """Weights of 1 and steps of 1e-4: below half of bfloat16's last place, and far above float32's."""
    p = torch.nn.Parameter(torch.ones(8, 16, dtype=dtype))
    optimizer = SGD([("w", p)], lr=1e-4, check_updates=True, **kw)
    p.grad = torch.ones_like(p)
    p.grad[0] = 0
    optimizer.step()
    report = optimizer.layer_stats()["w"]
    assert report == {"updates": 112.0, "lost_updates": float(lost)}


def test_f32_loses_updates_too():
    p = torch.nn.Parameter(torch.tensor([1.0, 1e-3, 1.0, 0.0]))
    optimizer = SGD([("w", p)], lr=1e-9, check_updates=True)
    p.grad = torch.ones_like(p)
    optimizer.step()
    assert optimizer.layer_stats()["w"]["lost_updates"] == 0.5


def test_what_a_formula_reports_by_parameter_is_there_too():
    params = named()
    optimizer = LAMB(params, layer_norms=True)
    for _, p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert all(report["trust_ratio"] > 0 for report in optimizer.layer_stats().values())


@pytest.mark.parametrize("make", [LAMB, StableAdamW, lambda params: AdamW(params, max_norm=1.0, clip="adagc")], ids=["lamb", "stable", "adagc"])
def test_what_a_formula_reports_by_parameter_needs_no_option(make):
    params = named()
    optimizer = make(params)
    assert optimizer.layer_stats() is None
    for _, p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    reports = optimizer.layer_stats()
    assert list(reports) == NAMES
    names = {"LAMB": {"trust_ratio"}, "StableAdamW": {"rms"}, "AdamW": {"clip_coef"}}[type(optimizer).__name__]
    assert all(report.keys() == names and all(value > 0 for value in report.values()) for report in reports.values())
    assert StepLogger(optimizer, every=1, layers=True).log().keys() <= {"optimizer/grad_norm", "optimizer/skipped_steps"}


def test_a_formulas_reports_are_told_apart_by_what_they_are_for():
    """A report per tensor, per group and per step, where there are as many groups as tensors."""
    text = """optimizer mine {
      hyper lr = 0.5
      report of_tensor = sum(g, tensor)
      report of_group = 2 * sum(g, group)
      report of_step = 3 * sum(g, step)
      w = w - lr * g
    }"""
    a, b = (torch.nn.Parameter(torch.ones(8)) for _ in "ab")
    optimizer = Formula([{"params": [("a", a)]}, {"params": [("b", b)]}], formula=text)
    a.grad, b.grad = torch.ones(8), torch.full((8,), 2.0)
    optimizer.step()
    assert optimizer.layer_stats() == {"a": {"of_tensor": 8.0}, "b": {"of_tensor": 16.0}}
    assert optimizer.stats() == {"of_step": 72.0}


def test_without_reports_it_says_which_options_to_pass():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = AdamW([p], max_norm=1.0)
    p.grad = torch.ones(3)
    optimizer.step()
    with pytest.raises(ValueError, match="^layer_stats\\(\\) of AdamW: its steps report nothing per parameter; pass layer_norms=True or check_updates=True"):
        optimizer.layer_stats()


def test_muons_halves():
    p = torch.nn.Parameter(torch.randn(8, 4, generator=torch.Generator().manual_seed(1)))
    optimizer = Muon([("w", p)], lr=0.02, **BOTH)
    before = p.detach().clone()
    p.grad = torch.randn(8, 4, generator=torch.Generator().manual_seed(2))
    optimizer.step()
    close(optimizer.layer_stats(), "w", p.grad, before, p.detach())
    optimizer = Muon([("w", p)], max_norm=1.0, clip="adagc")
    optimizer.step()
    assert optimizer.layer_stats()["w"].keys() == {"clip_coef"}


def sharded(rank, world, placements):
    mesh = init_device_mesh("cpu", (world,) if len(placements) == 1 else (2, world // 2))
    params = [(name, torch.nn.Parameter(distribute_tensor(w, mesh, placements))) for name, w in zip(NAMES, tensors(0))]
    optimizer = AdamW(params, lr=0.01, max_norm=1.0, **BOTH)
    for (_, p), g in zip(params, tensors(1)):
        p.grad = distribute_tensor(g, mesh, placements)
    optimizer.step()
    return optimizer.layer_stats(), StepLogger(optimizer, every=1, layers=True).log()


def several_meshes(rank, world):
    """Parameters on all ranks, and on two of them; nothing else needs the meshes."""
    everybody, pairs = init_device_mesh("cpu", (world,)), init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("pair", "within"))["within"]
    meshes = [everybody, pairs, everybody]
    params = [(name, torch.nn.Parameter(distribute_tensor(w, mesh, [Shard(0)]))) for name, w, mesh in zip(NAMES, tensors(0), meshes)]
    optimizer = AdamW(params, lr=0.01, **BOTH)
    for (_, p), g, mesh in zip(params, tensors(1), meshes):
        p.grad = distribute_tensor(g, mesh, [Shard(0)])
    optimizer.step()
    return optimizer.layer_stats()


def test_of_parameters_on_several_meshes():
    params = named()
    optimizer = AdamW(params, lr=0.01, **BOTH)
    for (_, p), g in zip(params, tensors(1)):
        p.grad = g
    optimizer.step()
    expected = optimizer.layer_stats()
    for reports in good(run(4, several_meshes)):
        assert reports.keys() == expected.keys()
        for name in NAMES:
            assert reports[name] == pytest.approx(expected[name], rel=1e-4)


def shards_of_a_formula(rank, world, options):
    """The last parameter is whole on each rank."""
    mesh = init_device_mesh("cpu", (world,))
    placements = [Shard(0), Shard(0), Replicate()]
    params = [(name, torch.nn.Parameter(distribute_tensor(w, mesh, [place]))) for name, w, place in zip(NAMES, tensors(0), placements)]
    optimizer = LAMB(params, **options)
    for (_, p), g, place in zip(params, tensors(1), placements):
        p.grad = distribute_tensor(g, mesh, [place])
    optimizer.step()
    return optimizer.layer_stats()


def test_what_a_formula_reports_is_left_out_of_shards():
    """Only the rank that had the whole parameter knows it."""
    for reports in good(run(2, shards_of_a_formula, {"layer_norms": True})):
        assert [name for name, report in reports.items() if "trust_ratio" in report] == NAMES[2:]
        assert list(reports) == NAMES and all(report["update_norm"] > 0 for report in reports.values())
    for reports in good(run(2, shards_of_a_formula, {})):
        assert list(reports) == NAMES[2:] and reports[NAMES[2]].keys() == {"trust_ratio"}


def zero(rank, world):
    params = [p for _, p in named()]
    optimizer = ZeroRedundancyOptimizer(params, AdamW, lr=0.01, max_norm=1.0, **BOTH)
    sum((p * g).sum() for p, g in zip(params, tensors(1))).backward()
    optimizer.step()
    return list(optimizer.layer_stats().values())


def alone():
    params = named()
    optimizer = AdamW(params, lr=0.01, max_norm=1.0, **BOTH)
    for (_, p), g in zip(params, tensors(1)):
        p.grad = g
    optimizer.step()
    return optimizer.layer_stats()


@pytest.mark.parametrize("placements", [[Shard(0)], [Replicate(), Shard(0)]], ids=str)
def test_of_whole_parameters_over_shards(placements):
    expected = alone()
    for reports, logged in good(run(2 if len(placements) == 1 else 4, sharded, placements)):
        assert list(reports) == NAMES
        for name in NAMES:
            assert reports[name] == pytest.approx(expected[name], rel=1e-4)
            assert logged[f"optimizer/grad_norm/{name}"] == pytest.approx(expected[name]["grad_norm"], rel=1e-4)


def test_of_whole_parameters_under_zero():
    expected = list(alone().values())
    for reports in good(run(2, zero)):
        for mine, whole in zip(reports, expected, strict=True):
            assert mine == pytest.approx(whole, rel=1e-4)


def trained(steps, bad, **kw):
    params = named()
    optimizer = AdamW(params, lr=0.01, scaler=LossScaler(init_scale=4.0, growth_interval=1000), **kw)
    for step in range(steps):
        for (_, p), g in zip(params, tensors(step + 1)):
            p.grad = g * optimizer.scaler.get_scale() * (0.01 if step % 2 else 1.0)
            if step in bad:
                p.grad.view(-1)[0] = math.nan
        optimizer.step()
        yield optimizer


def test_a_logger_counts_all_steps_between_two_writes():
    written, logger = [], None
    for optimizer in trained(20, (3, 4, 11), max_norm=1.0, **BOTH):
        logger = logger or StepLogger(optimizer, lambda metrics, step: written.append((step, metrics)), every=10)
        logger.log()
    assert [step for step, _ in written] == [10, 20]
    first, second = (metrics for _, metrics in written)
    # The even steps are clipped; 4 is one of the bad ones in the first ten, and 11 is odd.
    assert first["optimizer/skipped_steps"] == 2 and first["optimizer/clip_rate"] == 4 / 8
    assert second["optimizer/skipped_steps"] == 1 and second["optimizer/clip_rate"] == 5 / 9
    assert first["optimizer/loss_scale"] == 1.0 and second["optimizer/loss_scale"] == 0.5
    total = math.sqrt(sum(g.double().square().sum().item() for g in tensors(20))) * 0.01
    assert second["optimizer/grad_norm"] == pytest.approx(total, rel=1e-5)
    assert 0 < second["optimizer/update_ratio"] < 1 and second["optimizer/lost_updates"] == 0
    assert not any("/layers." in name for name in second)


def test_layers_may_be_named_by_a_function():
    for optimizer in trained(1, (), layer_norms=True):
        metrics = StepLogger(optimizer, every=1, layers=lambda name: ".".join(name.split(".")[:2])).log()
        whole = StepLogger(optimizer, every=1, layers=True).log()
    norms = [whole[f"optimizer/grad_norm/{name}"] for name in NAMES]
    assert metrics["optimizer/grad_norm/layers.0"] == pytest.approx(math.hypot(*norms[:2]))
    assert metrics["optimizer/grad_norm/layers.1"] == pytest.approx(norms[2])


def test_several_optimizers_and_a_wrong_one():
    first, second = (next(trained(1, (), layer_norms=True)) for _ in range(2))
    metrics = StepLogger({"a": first, "b": second}, every=1).log()
    assert metrics["optimizer/a/update_ratio"] == metrics["optimizer/b/update_ratio"]
    with pytest.raises(TypeError, match="expected optimizers of stepfuse.torch; got AdamW"):
        StepLogger(torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))]))
    with pytest.raises(ValueError, match="several by name; got none"):
        StepLogger({})
    with pytest.raises(TypeError, match="expected a SummaryWriter"):
        StepLogger(first, 3)


def test_counts_go_on_after_a_binding_of_its_own():
    """Other parts have steps of their own, whose numbers begin at 0 again."""
    params = named()
    optimizer = AdamW(params, lr=0.01, max_norm=1e9)
    logger = StepLogger(optimizer, every=1000)
    for step in range(6):
        if step == 3:
            optimizer.param_groups[0]["maximize"] = True
        for _, p in params:
            p.grad = torch.ones_like(p)
        optimizer.step()
        logger.log()
    assert next(iter(logger._counters.values())).steps == 6


def test_into_tensorboard(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard", reason="tensorboard is not installed")
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is not installed")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        logger = None
        for optimizer in trained(6, (), max_norm=1.0, layer_norms=True):
            logger = logger or StepLogger(optimizer, writer, every=2, layers=True)
            logger.log()
    found = events.EventAccumulator(str(tmp_path))
    found.Reload()
    assert {"optimizer/clip_rate", "optimizer/update_ratio", "optimizer/update_ratio/layers.1.weight"} <= set(found.Tags()["scalars"])
    assert [event.step for event in found.Scalars("optimizer/grad_norm")] == [2, 4, 6]
    assert [event.value for event in found.Scalars("optimizer/clip_rate")] == [0.5, 0.5, 0.5]
