"""Optimizers from formulas: AdamW's own text must be AdamW in everything, and states of all kinds must survive."""

import copy
import importlib.util
import inspect
import io
import pathlib
import pickle
import re

import pytest
import torch
from pairs import Pair, same_state

import stepfuse
import stepfuse.torch
from stepfuse import _core
from stepfuse.torch import LAMB, AdamW, Formula, GradScaler, LossScaler, ScheduleFreeAdamW, ScheduleFreeSGD, Sophia, built_in, clip_grad_norm_

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Same(Formula):
    formula = _core.formula_text("adamw").replace("optimizer adamw", "optimizer same")


class Keeper(Formula):
    """Something of every granularity and type."""

    formula = """
    optimizer keeper "keeps" {
      hyper lr = 0.01, beta = 0.9
      option slow
      moment average
      moment start : f32 = w
      state best : tensor = 1e30, last : tensor f32, signs : tensor i64, begun : tensor bool
      state total : step = 1, largest : group f32

      average = lerp(average, g, 1 - beta)
      start = start
      let size = norm(g, tensor)
      best = min(best, size)
      last = begun ? size : 0
      signs = size > 1 ? signs + 1 : signs - 1
      begun = true
      total = total + norm(w, step)
      largest = max(largest, max(abs(g), group))
      if slow { let rate = lr / 10 } else { let rate = lr }
      w = w - rate * average * (best + last + signs) / total / (1 + largest) + 1e-3 * (start - w)
    }
    """


MODES = {
    "plain": ({}, torch.float32), "amsgrad": ({"amsgrad": True, "maximize": True}, torch.float32),
    "clipped": ({"max_norm": 0.5}, torch.float32), "masters": ({"max_norm": 0.5, "norm_type": 1}, torch.bfloat16)}


@pytest.mark.parametrize("mode", MODES)
def test_the_text_of_adamw_is_adamw(mode):
    kw, dtype = MODES[mode]
    pair = Pair(Same, AdamW, dtype=dtype, lr=0.05, weight_decay=0.1, betas=(0.8, 0.95), **kw)
    schedules = [torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=100) for o in (pair.ours, pair.theirs)]
    for i in range(12):
        pair.steps(1, missing=(1,) if i < 3 else ())
        for schedule in schedules:
            schedule.step()
    assert pair.equal()
    assert pair.ours.param_groups[0]["betas"] == pair.theirs.param_groups[0]["betas"] != (0.8, 0.95)  # cycled
    assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())
    pair.ours.load_state_dict(copy.deepcopy(pair.theirs.state_dict()))
    pair.steps(2)
    assert pair.equal()


def test_the_text_of_adamw_scales_as_adamw():
    scalers = []

    def made(cls):
        def with_scaler(params, **kw):
            scalers.append(LossScaler(init_scale=8.0, growth_interval=3))
            return cls(params, scaler=scalers[-1], max_norm=1.0, **kw)
        return with_scaler

    pair = Pair(made(Same), made(AdamW), lr=0.05)
    for i in range(8):
        pair.steps(1, scale=float("inf") if i == 4 else 1.0)
        assert pair.ours.last_step_skipped == (i == 4)
    assert pair.equal()
    assert scalers[0].state_dict() == scalers[1].state_dict()
    assert pair.ours.stats() == pair.theirs.stats()


@pytest.mark.parametrize("how", [{}, {"defer_unscale": True}, {"defer_unscale": True, "exact_skips": True}], ids=str)
def test_the_text_of_adamw_in_torchs_order(how):
    pair = Pair(Same, AdamW, lr=0.05)
    for optimizer, params in ((pair.ours, pair.a), (pair.theirs, pair.b)):
        scaler = GradScaler("cpu", init_scale=8.0, **how)
        torch.manual_seed(4)
        for i in range(6):
            for p in params:
                p.grad = torch.randn(p.shape) * (float("nan") if i == 2 else 1)
            scaler.scale(torch.ones(()))
            scaler.unscale_(optimizer)
            clip_grad_norm_(params, 1.0)
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 4.0
    assert pair.equal()


def copied(pair, how):
    if how == "deepcopy":
        pair.a, pair.ours = copy.deepcopy((pair.a, pair.ours))
    elif how == "pickle":
        pair.a, pair.ours = pickle.loads(pickle.dumps((pair.a, pair.ours)))
    else:
        file = io.BytesIO()
        torch.save(pair.ours.state_dict(), file)
        file.seek(0)
        groups = [{"params": g["params"]} for g in pair.ours.param_groups]
        pair.ours = type(pair.ours)(groups, formula=pair.ours.formula, slow=True)
        pair.ours.load_state_dict(torch.load(file, weights_only=True))


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "state_dict"])
@pytest.mark.parametrize("cls", [Keeper, lambda params, **kw: Formula(params, formula=Keeper.formula, **kw)],
                         ids=["class", "argument"])
def test_what_is_kept_survives(cls, how):
    pair = Pair(cls, Keeper, lr=0.05, slow=True)
    pair.steps(3, missing=(2,))
    copied(pair, how)
    pair.steps(3)  # the third parameter begins
    copied(pair, how)
    for optimizer, params in ((pair.ours, pair.a), (pair.theirs, pair.b)):
        params.append(torch.nn.Parameter(torch.full((24,), 0.5)))
        optimizer.add_param_group({"params": params[-1], "lr": 0.3})
    pair.steps(3)
    copied(pair, how)
    pair.steps(1)
    assert pair.equal()
    assert same_state(pair.ours.state_dict(), pair.theirs.state_dict())
    state, groups = pair.theirs.state[pair.b[0]], pair.theirs.state_dict()["param_groups"]
    assert state["step"] == 10 and state["begun"] and state["best"].dtype == torch.float64
    assert state["signs"].dtype == torch.int64 and abs(state["signs"]) <= 10 and state["last"] > 0
    assert groups[0]["total"] == groups[1]["total"] > 10 and groups[0]["largest"] > groups[1]["largest"] > 0
    assert torch.equal(state["start"], Pair(Keeper, Keeper).a[0])
    assert [g["slow"] for g in groups] == [True, True]


def test_states_are_those_of_the_formula():
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = Keeper([p])
    for size in (3.0, 1.0, 2.0):
        p.grad = torch.full((4,), size)
        optimizer.step()
    optimizer.state_dict()
    assert optimizer.state[p]["best"] == 2.0 and optimizer.state[p]["last"] == 4.0 and optimizer.state[p]["signs"] == 3
    assert optimizer.param_groups[0]["largest"] == 3.0


def test_one_norm_for_parts_whose_formula_reduces():
    """Two dtypes are two launches, with one norm of all gradients and LAMB's own norms beside it."""
    def params():
        torch.manual_seed(5)
        return [torch.nn.Parameter(torch.randn(64)), torch.nn.Parameter(torch.randn(40).bfloat16())]

    a, b = params(), params()
    ours = LAMB(a, lr=0.1, max_norm=0.5)
    theirs = [LAMB([p], lr=0.1, max_norm=0.5, external_norm=True) for p in b]
    for _ in range(3):
        for p, q in zip(a, b):
            p.grad = torch.randn(p.shape).to(p.dtype)
            q.grad = p.grad.clone()
        squares = sum(p.grad.double().square().sum() for p in a)
        ours.step()
        for optimizer in theirs:
            optimizer.step(norm=float(squares.sqrt()))
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)


def test_a_formulas_own_sum_is_not_taken_for_the_norm():
    """Two parts share one inf norm, by maximum; a sum of the formula's own stays that of its parameter, whatever its name."""
    formula = 'optimizer x "" { hyper lr = 1\nlet sum = sum(w, tensor)\nlet norm = norm(w, tensor)\nw = w - lr * (sum + norm + 0 * g) }'
    params = [torch.nn.Parameter(torch.ones(4)), torch.nn.Parameter(torch.ones(16).bfloat16())]
    optimizer = Formula(params, formula=formula, max_norm=1.0, norm_type=float("inf"))
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    assert params[0].tolist() == [-5.0] * 4 and params[1].tolist() == [-19.0] * 16


def test_refused():
    params = [torch.nn.Parameter(torch.ones(8)), torch.nn.Parameter(torch.ones(8).bfloat16())]
    with pytest.raises(TypeError, match="^Keeper has no argument 'max_nrm'; did you mean 'max_norm'[?] The formula's own arguments are lr, beta, slow, maximize$"):
        Keeper(params, max_nrm=1)
    with pytest.raises(TypeError, match="^Keeper has no argument 'xyz'; the formula's own arguments are lr, beta, slow, maximize$"):
        Keeper(params, xyz=1)
    with pytest.raises(TypeError, match="^Keeper has no argument 'lrr'; did you mean 'lr'[?] The formula's own arguments are lr, beta, slow"):
        Keeper(params, lrr=1)
    with pytest.raises(ValueError, match=r"^betas: expected a sequence of 2 numbers; got \("):
        LAMB(params, betas=(0.1, 0.2, 0.3))
    with pytest.raises(ValueError, match="^betas: expected a sequence of 2 numbers; got 0.9$"):
        LAMB(params, betas=0.9)
    with pytest.raises(TypeError, match="Formula needs a formula"):
        Formula(params)
    with pytest.raises(stepfuse.Error, match=r"there is no 'h'.*\n.*h \* g.*\n *\^"):
        Formula(params, formula='optimizer x "" { w = w - h * g }')
    for p in params:
        p.grad = torch.ones_like(p)
    with pytest.raises(stepfuse.Error, match=r"Keeper has one value for several parameters.*grad=bf16 .* on cpu; grad=f32 .* on cpu"):
        Keeper(params).step()


def test_a_value_of_all_steps_goes_on_when_the_first_group_begins():
    text = 'optimizer x "" { hyper lr = 1.0\nstate n : step\nn = n + 1\nw = w - lr * f32(n) }'
    late, early = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
    optimizer = Formula([{"params": [late]}, {"params": [early]}], formula=text)
    for step in range(4):
        early.grad, late.grad = torch.ones(1), torch.ones(1) if step == 3 else None
        optimizer.step()
    assert (late.item(), early.item()) == (-4, -10) and [g["n"] for g in optimizer.state_dict()["param_groups"]] == [4, 4]


@pytest.mark.parametrize("declaration", [
    "state updated : tensor", "state counted : group", "state copy_amax : row", "state copy_scale : tensor", "state master : row",
    "state kahan : tensor", "state master : group", "state copy_scale : group", "state seed : group", "state params : group",
    "state param_names : step", "state lr_scales : group", "moment weight_scale"])
def test_names_that_the_package_uses_itself_are_refused(declaration):
    what, name = declaration.split()[:2]
    text = f'optimizer x "" {{ hyper lr = 1\n{declaration}\n{name} = {name} + 1\nw = w - lr * g * f32({name}) }}'
    with pytest.raises(stepfuse.Error, match=f"formula: '{what} {name}' declares a name that stepfuse.torch itself uses; choose a different name"):
        Formula([torch.nn.Parameter(torch.ones(4))], formula=text)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"])
def test_state_of_the_program_with_any_name_is_copied(again):
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = LAMB([p], lr=0.1)
    p.grad = torch.ones(4)
    optimizer.step()
    optimizer.state[p]["my.note"] = "x"
    other = again(optimizer)
    assert other.state[other.param_groups[0]["params"][0]]["my.note"] == "x"


def test_inputs_are_the_callers():
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = Sophia([p], lr=0.1, beta1=0.5, gamma=0.01, weight_decay=0.0)
    p.grad = torch.full((4,), 2.0)
    optimizer.step()  # no estimate yet: clipped to 1
    torch.testing.assert_close(p.detach(), torch.full((4,), 0.9))
    optimizer.state[p]["hessian"].fill_(1000.0)
    optimizer = pickle.loads(pickle.dumps(optimizer))
    p = optimizer.param_groups[0]["params"][0]
    p.grad = torch.full((4,), 2.0)
    optimizer.step()
    torch.testing.assert_close(p.detach(), torch.full((4,), 0.9 - 0.1 * 1.5 / 10))
    assert torch.equal(optimizer.state[p]["hessian"], torch.full((4,), 1000.0))


def test_eval_weights_of_schedule_free():
    if importlib.util.find_spec("schedulefree") is None:
        pytest.skip("schedulefree is not installed")
    import schedulefree
    pair = Pair(ScheduleFreeAdamW, schedulefree.AdamWScheduleFree, lr=0.05, theirs_kw={"lr": 0.05, "foreach": False})
    pair.theirs.train()
    for _ in range(3):
        pair.steps(5)
        pair.ours.eval()
        pair.theirs.eval()
        for p, q in zip(pair.a, pair.b):
            torch.testing.assert_close(p, q)
        with pytest.raises(RuntimeError, match="call train"):
            pair.ours.step()
        pair.ours = pickle.loads(pickle.dumps(pair.ours))
        pair.a = pair.ours.param_groups[0]["params"]
        pair.ours.train()
        pair.theirs.train()


def some_steps(optimizer, params, steps):
    for step in steps:
        torch.manual_seed(step)
        for p in params:
            p.grad = torch.randn(p.shape).to(p.dtype)
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("cls", [ScheduleFreeAdamW, ScheduleFreeSGD])
@pytest.mark.parametrize("saved_in", ["eval", "train"])
@pytest.mark.parametrize("loaded_in", ["eval", "train"])
def test_schedule_free_resumes_from_a_checkpoint_of_either_mode(cls, dtype, saved_in, loaded_in):
    """As torch's checkpoints: a run that is saved and loaded is bit-identical to one that never stopped."""
    torch.manual_seed(1)
    start = [torch.randn(16, 8), torch.randn(5)]
    params = [torch.nn.Parameter(t.to(dtype)) for t in start]
    optimizer = cls([{"params": params[:1]}, {"params": params[1:], "lr": 0.02}], lr=0.05)
    some_steps(optimizer, params, range(4))
    getattr(optimizer, saved_in)()
    file = io.BytesIO()
    torch.save(([p.detach() for p in params], optimizer.state_dict()), file)
    file.seek(0)
    weights, state = torch.load(file, weights_only=True)
    again = [torch.nn.Parameter(torch.zeros_like(p)) for p in params]
    other = cls([{"params": again[:1]}, {"params": again[1:]}])
    if loaded_in == "eval":
        some_steps(other, again, range(2))
        other.eval()
    with torch.no_grad():
        for p, w in zip(again, weights):
            p.copy_(w)
    other.load_state_dict(state)
    if saved_in == "eval":
        with pytest.raises(RuntimeError, match="call train"):
            other.step()
    for mine, mine_of in ((optimizer, params), (other, again)):
        mine.train()
        some_steps(mine, mine_of, range(4, 6))
    assert all(torch.equal(p, q) for p, q in zip(params, again))
    assert same_state(optimizer.state_dict(), other.state_dict())


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_schedule_free_takes_the_mode_of_the_optimizer_for_older_checkpoints(mode):
    """Checkpoints and pickles had no `train_mode`. A group that is added has the mode of the others."""
    p, q = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    optimizer = ScheduleFreeSGD([p], lr=0.1)
    some_steps(optimizer, [p], range(3))
    saved = optimizer.state_dict()
    del saved["param_groups"][0]["train_mode"]
    getattr(optimizer, mode)()
    optimizer.load_state_dict(saved)
    optimizer.add_param_group({"params": [q]})
    assert [group["train_mode"] for group in optimizer.param_groups] == [mode == "train"] * 2
    state = optimizer.__getstate__()
    for group in state["param_groups"]:
        del group["train_mode"]
    older = ScheduleFreeSGD.__new__(ScheduleFreeSGD)
    older.__setstate__({**state, "_evaluates": mode == "eval"})
    before = p.detach().clone()
    older.train()
    assert torch.equal(before, p) == (mode == "train")


@pytest.mark.parametrize(("warmup_steps", "r", "weight_lr_power"), [(5, 0, 2), (0, 1.5, 2), (0, 0, 0.5), (3, 0.5, 1)])
def test_schedule_free_warms_up_and_weighs_steps(warmup_steps, r, weight_lr_power):
    ours, beta, lr = torch.nn.Parameter(torch.randn(50)), 0.9, 0.1
    y, z, sum_, largest = ours.detach().clone(), ours.detach().clone(), 0.0, 0.0
    optimizer = ScheduleFreeSGD([ours], lr=lr, momentum=beta, warmup_steps=warmup_steps, r=r, weight_lr_power=weight_lr_power)
    for k in range(12):  # as the package schedulefree does
        g = torch.randn(50)
        rate = lr * ((k + 1) / warmup_steps if k < warmup_steps else 1.0)
        largest = max(largest, rate)
        weight = (k + 1) ** r * largest ** weight_lr_power
        sum_ += weight
        y.lerp_(z, weight / sum_).add_(g, alpha=rate * (beta * (1 - weight / sum_) - 1))
        z.sub_(g, alpha=rate)
        ours.grad = g
        optimizer.step()
    assert torch.equal(ours, y) and torch.equal(optimizer.state[ours]["z"], z)


def test_schedule_free_notices_another_weight():
    a, b = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    first, second = ScheduleFreeAdamW([a]), ScheduleFreeAdamW([b], r=1.0)
    for step in range(4):
        first.param_groups[0]["r"] = second.param_groups[0]["r"] = float(step > 1)
        for optimizer, p in ((first, a), (second, b)):
            p.grad = torch.ones(3)
            optimizer.step()
    assert torch.equal(a, b) and "weighted" not in first.param_groups[0]
    with pytest.raises(TypeError, match="no argument 'weighted'"):
        ScheduleFreeAdamW([a], weighted=True)


@pytest.mark.parametrize("name", built_in.__all__)
def test_built_in_classes(name):
    cls = getattr(stepfuse.torch, name)
    assert cls.formula.replace("_", "") == name.lower()
    torch.manual_seed(6)
    p = torch.nn.Parameter(torch.randn(300).bfloat16())
    optimizer = cls([p], scaler=LossScaler(init_scale=4.0), max_norm=10.0)
    defaults = {n: d.default for n, d in inspect.signature(cls).parameters.items()}
    assert optimizer.param_groups[0]["lr"] == defaults["lr"] > 0
    begun = p.detach().float().square().sum()
    optimizer.param_groups[0]["lr"] = 0.05
    for _ in range(60):
        optimizer.zero_grad()
        optimizer.scale(p.float().square().mean()).backward()
        optimizer.step()
    assert optimizer.stats()["skipped"] == 0
    assert p.detach().float().square().sum() < begun


def test_stubs_are_current():
    spec = importlib.util.spec_from_file_location("python_stubs", ROOT / "tools" / "python_stubs.py")
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    assert stubs.FILE.read_text(encoding="utf-8") == stubs.text(), "run tools/python_stubs.py"


@pytest.mark.parametrize("page", ["your_optimizer.md", "pytorch.md"])
def test_examples_of_the_page(page):
    """Programs on the pages that define an optimizer run, and train."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    programs = [code for code in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M) if "Formula" in code]
    assert programs
    for code in programs:
        torch.manual_seed(7)
        x = torch.randn(32, 8)
        y = x.sum(1, keepdim=True)
        names = {"torch": torch, "stepfuse": stepfuse, "model": torch.nn.Linear(8, 1), "batches": [(x, y)] * 50, "x": x, "y": y}
        first = (names["model"](names["x"]) - names["y"]).square().mean()
        exec(code, names)
        assert names["loss"] < 0.5 * first


class Noisy(Formula):
    formula = """
    optimizer noisy "the gradient with uniform noise" {
      hyper lr = 0.1
      w = w - lr * (g + random() - random())
    }
    """


def test_random_numbers_follow_from_the_seed():
    def train(seed, steps, state=None):
        p = torch.nn.Parameter(torch.zeros(5000))
        optimizer = Noisy([p], seed=seed)
        if state is not None:
            p.data.copy_(state[0])
            optimizer.load_state_dict(state[1])
        moved = []
        for _ in range(steps):
            before = p.detach().clone()
            p.grad = torch.zeros(5000)
            optimizer.step()
            moved.append(p.detach() - before)
        return p.detach().clone(), optimizer.state_dict(), moved

    weights, _, (first, second) = train(3, 2)
    assert torch.equal(weights, train(3, 2)[0])
    assert not torch.equal(weights, train(4, 2)[0])
    assert not torch.equal(first, second)
    # A difference of two uniform numbers has mean 0 and variance 1/6.
    assert first.abs().max() <= 0.1 and abs(first.mean()) < 0.005 and abs(first.var() - 0.01 / 6) < 1e-4
    half = train(3, 1)
    assert torch.equal(train(3, 1, half[:2])[0], weights)
