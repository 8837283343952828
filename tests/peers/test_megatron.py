"""Megatron-Core's optimizers around our FusedAdam, on two gloo processes.

Megatron-Core asks for CUDA tensors by name, so the test answers with the CPU: `device="cuda"` makes a CPU tensor, and
`Tensor.type()` says torch.cuda. All else is Megatron-Core's own code: buffers, shards, reduce-scatter, clipping, all-gather
and checkpoints.
"""

import copy
import os
import sys
import tempfile
import types

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.overrides import TorchFunctionMode

pytest.importorskip("megatron.core", reason="Megatron-Core is not installed")

import stepfuse.torch

WORLD, STEPS = 2, 4


class CudaIsTheCpu(TorchFunctionMode):
    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "cuda" in str(kwargs.get("device")):
            kwargs["device"] = "cpu"
        if function is torch.Tensor.cuda:
            return args[0]
        result = function(*args, **kwargs)
        if function is torch.Tensor.type and len(args) == 1 and not kwargs:
            return result.replace("torch.", "torch.cuda.")
        return result


def pretend(precise):
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.default_stream = torch.cuda.current_stream = lambda *_: None
    if precise:  # Megatron asks TransformerEngine's class for its arguments
        for name in ("transformer_engine", "transformer_engine.pytorch", "transformer_engine.pytorch.optimizers"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules[name].FusedAdam = stepfuse.torch.FusedAdam
        sys.modules["transformer_engine"].__version__ = "2.9.0"


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        torch.manual_seed(4)
        self.layers = nn.Sequential(nn.Linear(8, 33), nn.Tanh(), nn.Linear(33, 5))

    def forward(self, x):
        return self.layers(x)


def batch(step, rank, dtype):
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * step + rank)).to(dtype)


def made(dtype, precise, distributed=True):
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.transformer import TransformerConfig

    config = TransformerConfig(num_layers=1, hidden_size=8, num_attention_heads=1, bf16=dtype == torch.bfloat16,
                               pipeline_dtype=dtype)
    ddp = DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=distributed)
    model = DistributedDataParallel(config, ddp, Net(config).to(dtype))
    settings = OptimizerConfig(optimizer="adam", lr=0.01, min_lr=0.0, weight_decay=0.1, bf16=dtype == torch.bfloat16,
                               params_dtype=dtype, use_distributed_optimizer=distributed, clip_grad=0.5,
                               use_precision_aware_optimizer=precise, store_param_remainders=precise)
    return model, get_megatron_optimizer(settings, [model], use_gloo_process_groups=True)


def train(model, optimizer, steps, rank, dtype):
    norms = []
    for step in steps:
        optimizer.zero_grad()
        model.zero_grad_buffer()
        (model(batch(step, rank, dtype)).float().square().mean()).backward()
        model.finish_grad_sync()
        updated, norm, _ = optimizer.step()
        assert updated
        norms.append(float(norm))
    return norms


def weights(model):
    return [p.detach().clone() for p in model.module.parameters()]


def alone(dtype, precise):
    """One process that has both ranks' batches, with gradients in f32, and a clip as Megatron's."""
    net = Net(None).to(dtype)
    masters = [nn.Parameter(p.detach().float()) for p in net.parameters()]
    optimizer = stepfuse.torch.FusedAdam(masters, lr=0.01, weight_decay=0.1)  # vectors, too: Megatron's scheduler exempts them
    norms = []
    for step in range(STEPS):
        gradients = []
        for rank in range(WORLD):
            net.zero_grad()
            net(batch(step, rank, dtype)).float().square().mean().backward()
            gradients.append([p.grad.float() / WORLD for p in net.parameters()])
        for p, *parts in zip(masters, *gradients):
            p.grad = sum(parts[1:], parts[0])
        norm = torch.nn.utils.get_total_norm([p.grad for p in masters])
        norms.append(norm.item())
        for p in masters:
            p.grad *= min(1.0, 0.5 / (norm.item() + 1e-6))
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(net.parameters(), masters):
                p.copy_(q)
    return [p.detach().clone() for p in net.parameters()], norms


def start(rank, store):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, WORLD), rank=rank, world_size=WORLD)
    from megatron.core import parallel_state, tensor_parallel

    tensor_parallel.model_parallel_cuda_manual_seed = lambda *_: None
    parallel_state.initialize_model_parallel()


def check(rank, store, dtype, precise, distributed):
    pretend(precise)
    with CudaIsTheCpu():
        start(rank, store)
        import stepfuse.torch.megatron

        stepfuse.torch.megatron.install()
        model, optimizer = made(dtype, precise, distributed)
        inner = optimizer.chained_optimizers[0].optimizer
        assert type(inner) is stepfuse.torch.FusedAdam
        norms = train(model, optimizer, range(STEPS), rank, dtype)
        got = weights(model)
        for state in inner.state.values():
            assert list(state) == ["exp_avg", "exp_avg_sq", *["master_param"] * precise]
        want, expected = alone(dtype, precise)
        assert norms == pytest.approx(expected, rel=1e-5 if dtype == torch.float32 else 1e-2)
        close = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 1e-2}
        for p, q in zip(got, want):
            torch.testing.assert_close(p, q, **close)
        if distributed:
            goes_on(model, optimizer, rank, dtype, precise)
    dist.barrier()
    os._exit(0)


def goes_on(model, optimizer, rank, dtype, precise):
    """Megatron's checkpoint of the distributed optimizer, loaded into another one, which takes the same steps."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/state.pt" if rank == 0 else f"{folder}/none.pt"
        kept, saved = weights(model), copy.deepcopy(optimizer.state_dict())
        optimizer.save_parameter_state(path)
        again, other = made(dtype, precise)
        with torch.no_grad():
            for p, q in zip(again.module.parameters(), kept):
                p.copy_(q)
        other.load_state_dict(saved)
        with torch.no_grad():
            other.load_parameter_state(path)
        for m, o in ((model, optimizer), (again, other)):
            train(m, o, range(STEPS, STEPS + 3), rank, dtype)
        assert all(torch.equal(p, q) for p, q in zip(weights(model), weights(again)))


@pytest.mark.parametrize(("dtype", "precise", "distributed"), [
    (torch.float32, False, True), (torch.bfloat16, False, True), (torch.bfloat16, False, False), (torch.bfloat16, True, True),
], ids=str)
def test_megatron_steps_with_our_class(dtype, precise, distributed, tmp_path):
    torch.multiprocessing.spawn(check, (str(tmp_path / "store"), dtype, precise, distributed), nprocs=WORLD)
