"""Mistakes are named by the pytree path of the parameter, the value, the rule and the fix."""

import jax
import jax.numpy as jnp
import pytest

import stepfuse
import stepfuse.jax

JAX = tuple(int(n) for n in jax.__version__.split(".")[:2])
PARAMS = {"layers": [{"w": jnp.ones((3, 4))}, {"w": jnp.ones(5)}]}


def step(tx, grads, params=PARAMS, state=None, **hyper):
    return jax.jit(lambda p, s, g: tx.step(p, s, g, **hyper))(params, tx.init(params) if state is None else state, grads)


def test_gradients_of_another_shape():
    grads = {"layers": [{"w": jnp.ones((4, 3))}, {"w": jnp.ones(5)}]}
    with pytest.raises(ValueError, match=r"the gradient of \['layers'\]\[0\]\['w'\] is float32\[4,3\], the parameter float32\[3,4\]"):
        step(stepfuse.jax.adamw(), grads)


def test_gradients_of_another_tree():
    with pytest.raises(ValueError, match=r"grads is not a pytree like params: \['layers'\]\[1\]\['w'\] is only in params"):
        step(stepfuse.jax.adamw(), {"layers": [{"w": jnp.ones((3, 4))}, {"v": jnp.ones(5)}]})


def test_parameters_of_two_dtypes():
    params = {"a": jnp.ones(3), "b": jnp.ones(3, jnp.bfloat16)}
    with pytest.raises(TypeError, match=r"parameter \['b'\] is bf16, parameter \['a'\] is f32: one optimizer takes parameters of one dtype"):
        stepfuse.jax.adamw().init(params)


def test_a_parameter_that_is_no_float():
    with pytest.raises(TypeError, match=r"parameter \['n'\] is int32\[3\]; stepfuse takes arrays in float32, bfloat16 and float16"):
        stepfuse.jax.adamw().init({"n": jnp.arange(3)})


def test_low_precision_needs_a_choice():
    with pytest.raises(TypeError, match=r"parameter \['w'\] is bf16: give master=True"):
        stepfuse.jax.adamw().init({"w": jnp.ones(3, jnp.bfloat16)})
    with pytest.raises(TypeError, match="is f32: leave out master"):
        stepfuse.jax.adamw(master=True).init({"w": jnp.ones(3)})


def test_a_stored_form_is_said_once():
    with pytest.raises(TypeError, match="store: moments, master and weight_rounding say the same: leave them out"):
        stepfuse.jax.adamw(moments="fp8", store={"moments": "fp8"})
    with pytest.raises(stepfuse.Error, match="fp7"):
        stepfuse.jax.adamw(store={"moments": "fp7"}).init(PARAMS)


def test_the_state_of_another_optimizer():
    state = stepfuse.jax.adamw().init(PARAMS)
    with pytest.raises(ValueError, match=r"state.arrays has 'exp_avg_sq': it was made by an optimizer with other options"):
        step(stepfuse.jax.lion(), PARAMS, state=state)
    other = {"layers": [{"w": jnp.ones((3, 4))}, {"w": jnp.ones(6)}]}
    with pytest.raises(ValueError, match=r"state.arrays\['exp_avg'\]\['layers'\]\[1\]\['w'\] is float32\[5\]; this optimizer needs float32\[6\]"):
        step(stepfuse.jax.adamw(), other, params=other, state=state)


def test_names_of_hyperparameters_and_options():
    with pytest.raises(TypeError, match="adamw has no hyperparameter 'b1'; it has lr, beta1, beta2, eps, weight_decay"):
        stepfuse.jax.adamw(b1=0.9).init(PARAMS)
    with pytest.raises(TypeError, match="nesterov2: adamw has no option of this name"):
        stepfuse.jax.adamw(nesterov2=True)
    with pytest.raises(TypeError, match=r"lr is float32\[2\]; it must be a number"):
        step(stepfuse.jax.adamw(), PARAMS, lr=jnp.ones(2))
    with pytest.raises(stepfuse.Error, match="fp9"):
        stepfuse.jax.adamw(moments="fp9").init(PARAMS)
    with pytest.raises(AttributeError, match="stepfuse.jax has no 'adamx'"):
        stepfuse.jax.adamx()
    with pytest.raises(ValueError, match="device: expected one of cpu, interpreter; got 'tpu'"):
        stepfuse.jax.adamw(device="tpu")


def test_options_that_arrays_decide():
    with pytest.raises(TypeError, match="is f32: leave out master, weight_rounding and the form of the weight in store"):
        stepfuse.jax.adamw(options=["store=weight=bf16+ecc24"]).init(PARAMS)
    with pytest.raises(TypeError, match="options: the step is made for gradients in f16, and they are f32: leave the option out"):
        step(stepfuse.jax.adamw(options=["grad=f16"]), PARAMS)
    with pytest.raises(stepfuse.Error, match="leave out 'zero-grad'"):
        stepfuse.jax.adamw(options=["zero-grad"]).init(PARAMS)


def test_a_group_that_is_not_declared():
    with pytest.raises(ValueError, match=r"group_of\(\"\['layers'\]\[0\]\['w'\]\", …\) returned 'x'; groups has y"):
        stepfuse.jax.adamw(groups={"y": {}}, group_of=lambda path, p: "x").init(PARAMS)


def test_a_number_that_the_step_refuses_at_run_time():
    tx = stepfuse.jax.adamw(lr=lambda n: -1.0 - n)
    with pytest.raises(Exception, match="stepfuse: .*lr"):
        jax.block_until_ready(step(tx, PARAMS))


@pytest.mark.skipif(JAX < (0, 6), reason="this version of jax.ffi runs calls under vmap one after the other")
def test_vmap_is_refused():
    tx = stepfuse.jax.adamw()
    many = jax.tree.map(lambda p: jnp.stack([p, p]), PARAMS)
    with pytest.raises(Exception, match="vmap"):
        jax.vmap(tx.step, in_axes=(0, None, 0))(many, tx.init(PARAMS), many)


def test_no_parameters():
    with pytest.raises(ValueError, match="params has no leaves"):
        stepfuse.jax.adamw().init({})
