"""On a real GPU, with torch's own tensors, streams, allocator and graphs; skipped where torch sees no GPU.

The other files create their tensors on torch's default device, so STEPFUSE_TEST_DEVICE=cuda runs them on a GPU as well.
"""

import gc

import pytest
import torch

import stepfuse.torch as st

if not torch.cuda.is_available():
    pytest.skip("skipped: PyTorch sees no GPU", allow_module_level=True)

SHAPES = ((3000, 51), (100003,), (0, 4), (), (247,), (40, 30, 3), (128, 256))
A_SECOND = 2_000_000_000  # cycles


def parameters(device, dtype=torch.float32, shapes=SHAPES):
    generator = torch.Generator("cpu").manual_seed(1)
    return [torch.nn.Parameter(torch.randn(s, generator=generator, device="cpu").to(dtype).to(device)) for s in shapes]


def set_gradients(params, k, scale=1.0, in_place=False):
    generator = torch.Generator("cpu").manual_seed(100 + k)
    for p in params:
        grad = (torch.randn(p.shape, generator=generator, device="cpu") * scale).to(p.dtype).to(p.device)
        if in_place and p.grad is not None:
            p.grad.copy_(grad)
        else:
            p.grad = grad


def bits(t):
    return t.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def assert_same_bits(params, optimizer, others, other):
    for i, (p, q) in enumerate(zip(params, others)):
        assert torch.equal(bits(p), bits(q)), f"weights of parameter {i} differ"
    a, b = optimizer.state_dict()["state"], other.state_dict()["state"]
    assert a.keys() == b.keys()
    for i in a:
        assert a[i].keys() == b[i].keys()
        for name in a[i]:
            assert torch.equal(bits(torch.as_tensor(a[i][name])), bits(torch.as_tensor(b[i][name]))), f"{name} of parameter {i} differs"


CASES = [
    (st.AdamW, {}, torch.float32),
    (st.AdamW, {"max_norm": 1.0, "monitor": True, "layer_norms": True}, torch.float32),
    (st.AdamW, {"max_norm": 1.0, "moments": "fp8", "ema_decay": 0.9}, torch.bfloat16),
    (st.AdamW, {"moments": "int8", "caution": True}, torch.float32),
    (st.AdamW, {"master": "remainder", "max_norm": 1.0, "check_updates": True}, torch.bfloat16),
    (st.AdamW, {"master": "f32", "max_norm": 1.0}, torch.float16),
    (st.Lion, {"weight_rounding": "stochastic", "seed": 5}, torch.bfloat16),
    (st.SGD, {"momentum": 0.9, "nesterov": True, "skip_norm": 500.0}, torch.float32),
    (st.Adafactor, {}, torch.float32),
    (st.LAMB, {"max_norm": 1.0}, torch.float32),
    (st.ScheduleFreeAdamW, {}, torch.float32),
]


@pytest.mark.parametrize(("cls", "more", "dtype"), CASES, ids=str)
def test_bits_of_the_cpu(cls, more, dtype):
    sides = []
    for device in ("cuda", "cpu"):
        params = parameters(device, dtype)
        optimizer = cls(params, lr=0.01, **more)
        for k in range(4):
            set_gradients(params, k, scale=float("inf") if k == 2 and "skip_norm" in more else 1.0)
            optimizer.step()
        sides += [params, optimizer]
    assert_same_bits(*sides)


@pytest.mark.parametrize("way", ["native", "deferred", "compatible"])
def test_loss_scales_in_every_order_of_calls(way):
    sides = []
    for device in ("cuda", "cpu"):
        params = parameters(device, torch.float16 if way == "native" else torch.float32)
        if way == "native":
            optimizer = st.AdamW(params, lr=0.01, master="f32", max_norm=1.0, scaler=st.LossScaler(8.0, growth_interval=2))
        else:
            optimizer = st.AdamW(params, lr=0.01)
            kind = st.GradScaler if way == "deferred" else torch.amp.GradScaler
            scaler = kind(device, init_scale=8.0, growth_interval=2, **({"defer_unscale": True} if way == "deferred" else {}))
            scaler.scale(torch.ones((), device=device))
        for k in range(5):
            set_gradients(params, k, scale=float("nan") if k == 3 else 8.0)
            if way == "native":
                optimizer.step()
                continue
            scaler.unscale_(optimizer)
            st.clip_grad_norm_(optimizer, 1.0) if way == "deferred" else torch.nn.utils.clip_grad_norm_(params, 1.0)
            scaler.step(optimizer)
            scaler.update()
        sides += [params, optimizer]
    if way != "compatible":
        assert_same_bits(*sides)
        return
    for p, q in zip(sides[0], sides[2]):  # torch's own clip on a GPU adds up in another order
        torch.testing.assert_close(p.detach().cpu().float(), q.detach().float(), rtol=1e-3, atol=1e-3)


def test_is_torchs_adamw_but_for_rounding():
    a, b = parameters("cuda"), parameters("cuda")
    ours, theirs = st.AdamW(a, lr=0.01), torch.optim.AdamW(b, lr=0.01, fused=True)
    for k in range(10):
        for params, optimizer in ((a, ours), (b, theirs)):
            set_gradients(params, k)
            optimizer.step()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("more", [{}, {"max_norm": 1.0, "scaler": True, "monitor": True}])
def test_a_step_waits_for_nothing(more):
    params = parameters("cuda")
    more = {**more, **({"scaler": st.LossScaler(1.0)} if "scaler" in more else {})}
    optimizer = st.AdamW(params, lr=0.01, **more)
    for k in range(3):
        set_gradients(params, k)
        optimizer.step()
    torch.cuda.synchronize()
    slept = torch.cuda.Event()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(A_SECOND)
        slept.record()
        for _ in range(5):
            optimizer.step()
        assert not slept.query()  # the host is here before the device has begun with the first of them
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()


def test_a_step_runs_on_the_current_stream():
    """The gradients are written late on that stream; a step on another one would read old values."""
    params, others = parameters("cuda"), parameters("cuda")
    stream = torch.cuda.Stream()
    a, b = st.AdamW(params, lr=0.01, max_norm=1.0), st.AdamW(others, lr=0.01, max_norm=1.0)
    set_gradients(params, 0), set_gradients(others, 0)
    for k in range(1, 5):
        for p, q in zip(params, others):
            q.grad.copy_(p.grad * 2 + k)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(A_SECOND // 20)
            for p in params:
                p.grad.mul_(2).add_(k)
            a.step()
        b.step()
        torch.cuda.synchronize()
    assert_same_bits(params, a, others, b)


def test_one_launch_a_step():
    from torch.profiler import ProfilerActivity, profile

    params = parameters("cuda")
    optimizer = st.AdamW(params, lr=0.01, max_norm=1.0, scaler=st.LossScaler(8.0))
    set_gradients(params, 0)
    for _ in range(3):
        optimizer.step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        optimizer.step()
        torch.cuda.synchronize()
    names = [e.name for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    assert [n for n in names if not n.startswith("Optimizer.step")] == ["sf_adamw"]  # torch marks the time of a step() as well


def test_memory_is_torchs():
    params = parameters("cuda")
    optimizer = st.AdamW(params, lr=0.01, max_norm=1.0)
    set_gradients(params, 0)
    optimizer.step()
    torch.cuda.synchronize()
    elements = sum(p.numel() for p in params)
    before = torch.cuda.memory_allocated()
    del optimizer
    gc.collect()
    assert before - torch.cuda.memory_allocated() >= 8 * elements  # both moments, at least
    torch.cuda.empty_cache()


def test_a_graph_replays_with_live_numbers():
    sides = []
    for captured in (True, False):
        params = parameters("cuda", torch.bfloat16)
        optimizer = st.AdamW(params, lr=0.01, master="remainder", max_norm=1.0, moments="fp8", capturable=captured)
        graph = None
        for k in range(8):
            optimizer.param_groups[0]["lr"] = 0.01 * (k + 1)
            set_gradients(params, k, in_place=True)
            if not captured or k < 3:
                optimizer.step()
            else:
                if graph is None:
                    torch.cuda.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph):
                        optimizer.step()
                optimizer.prepare_replay()
                graph.replay()
            torch.cuda.synchronize()
        sides += [params, optimizer]
    assert_same_bits(*sides)


def test_a_graph_of_backward_and_step():
    """What a trainer captures: forward, backward and step of a model, against the same without a graph."""
    sides = []
    batches = [torch.randn(16, 64, generator=torch.Generator("cpu").manual_seed(k), device="cpu").cuda() for k in range(8)]
    for captured in (True, False):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)).cuda()
        optimizer = st.AdamW(model.parameters(), lr=0.01, max_norm=1.0, capturable=captured)
        batch = batches[0].clone()

        def train():
            optimizer.zero_grad(set_to_none=False)
            model(batch).square().mean().backward()
            optimizer.step()

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for k in range(3):
                batch.copy_(batches[k])
                train()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                train()
        for k in range(3, 8):
            batch.copy_(batches[k])
            if captured:
                optimizer.prepare_replay()
                graph.replay()
            else:
                train()
        torch.cuda.synchronize()
        sides += [list(model.parameters()), optimizer]
    assert_same_bits(*sides)


def test_muon_learns():
    torch.manual_seed(0)
    params = parameters("cuda", shapes=((256, 128), (128, 256), (300, 300)))
    optimizer = st.Muon(params, lr=0.01)
    before = [p.detach().clone() for p in params]
    for k in range(3):
        set_gradients(params, k)
        optimizer.step()
    for p, b in zip(params, before):
        change = (b - p).detach().float()
        assert change.isfinite().all()
        singular = torch.linalg.svdvals(change)
        assert singular.max() < 3 * singular.median()  # near a multiple of an orthogonal matrix


def test_autocast_training_lowers_the_loss():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)).cuda()
    x, y = torch.randn(512, 32, device="cuda"), torch.randn(512, 8, device="cuda")
    optimizer = st.AdamW(model.parameters(), lr=3e-3)
    scaler = st.GradScaler("cuda", defer_unscale=True)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = torch.nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        st.clip_grad_norm_(optimizer, 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    dist = torch.distributed
    if not dist.is_nccl_available():
        pytest.skip("skipped: this torch has no NCCL")
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method=f"file://{tmp_path_factory.mktemp('ranks')}/file", rank=0, world_size=1, device_id=torch.device("cuda", 0))
    yield dist.device_mesh.init_device_mesh("cuda", (1,))
    dist.destroy_process_group()


@pytest.mark.parametrize("more", [{"max_norm": 1.0}, {"max_norm": 1.0, "layer_norms": True, "moments": "int8"}], ids=str)
def test_fully_sharded_over_nccl(mesh, more):
    """FSDP2 on NCCL over one rank: the bits of the same model without it."""
    from torch.distributed.fsdp import fully_shard

    sides = []
    for sharded in (True, False):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)).cuda()
        if sharded:
            fully_shard(model, mesh=mesh)
        optimizer = st.AdamW(model.parameters(), lr=0.01, **more)
        for k in range(4):
            x = torch.randn(16, 64, generator=torch.Generator("cpu").manual_seed(k), device="cpu").cuda()
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        sides.append([p.full_tensor() if sharded else p for p in model.parameters()])
    for p, q in zip(*sides):
        assert torch.equal(bits(p), bits(q))


def test_distributed_data_parallel_over_nccl(mesh):
    sides = []
    for wrapped in (True, False):
        torch.manual_seed(0)
        model = torch.nn.Linear(64, 128).cuda()
        trained = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0]) if wrapped else model
        optimizer = st.AdamW(model.parameters(), lr=0.01, max_norm=1.0)
        for k in range(4):
            x = torch.randn(16, 64, generator=torch.Generator("cpu").manual_seed(k), device="cpu").cuda()
            optimizer.zero_grad()
            trained(x).square().mean().backward()
            optimizer.step()
        sides += [list(model.parameters()), optimizer]
    assert_same_bits(*sides)
