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
    with pytest.raises(ValueError, match=r"the gradient of \['layers'\]\[0\]\['w'\] is float32\[4,3\], but the parameter is float32\[3,4\]; they must have the same shape"):
        step(stepfuse.jax.adamw(), grads)


def test_gradients_of_another_tree():
    with pytest.raises(ValueError, match=r"grads is not a pytree like params: \['layers'\]\[1\]\['w'\] is only in params"):
        step(stepfuse.jax.adamw(), {"layers": [{"w": jnp.ones((3, 4))}, {"v": jnp.ones(5)}]})


def test_parameters_of_two_dtypes():
    params = {"a": jnp.ones(3), "b": jnp.ones(3, jnp.bfloat16)}
    with pytest.raises(TypeError, match=r"parameter \['b'\] is bf16, but parameter \['a'\] is f32; one optimizer takes parameters of one dtype"):
        stepfuse.jax.adamw().init(params)


def test_a_parameter_that_is_no_float():
    with pytest.raises(TypeError, match=r"parameter \['n'\] is int32\[3\]; stepfuse takes arrays in float32, bfloat16 and float16"):
        stepfuse.jax.adamw().init({"n": jnp.arange(3)})


def test_low_precision_needs_a_choice():
    with pytest.raises(TypeError, match=r"parameter \['w'\] is bf16; pass master=True"):
        stepfuse.jax.adamw().init({"w": jnp.ones(3, jnp.bfloat16)})
    with pytest.raises(TypeError, match="is f32; leave out master"):
        stepfuse.jax.adamw(master=True).init({"w": jnp.ones(3)})


def test_a_stored_form_is_said_once():
    with pytest.raises(TypeError, match="^store and moments were both given; leave out moments$"):
        stepfuse.jax.adamw(moments="fp8", store={"moments": "fp8"})
    with pytest.raises(TypeError, match="^store and master were both given; leave out master$"):
        stepfuse.jax.adamw(master=True, store={"moments": "fp8"})
    with pytest.raises(stepfuse.Error, match="^store: adamw has no moment 'exp'; it has exp_avg, exp_avg_sq$"):
        stepfuse.jax.adamw(store={"exp": "fp8"}).init(PARAMS)
    with pytest.raises(stepfuse.Error, match="^moments: adamw has no moment 'exp'; it has exp_avg, exp_avg_sq$"):
        stepfuse.jax.adamw(moments="exp=fp8").init(PARAMS)
    with pytest.raises(stepfuse.Error, match="^store: 'weight=bf16.ecc16': the missing bits of weights"):
        stepfuse.jax.adamw(store={"weight": "bf16+ecc16"}).init(jax.tree.map(lambda p: p.astype(jnp.bfloat16), PARAMS))
    with pytest.raises(stepfuse.Error, match="fp7"):
        stepfuse.jax.adamw(store={"moments": "fp7"}).init(PARAMS)


def test_the_state_of_another_optimizer():
    state = stepfuse.jax.adamw().init(PARAMS)
    with pytest.raises(ValueError, match=r"state.arrays has 'exp_avg_sq', so an optimizer with different options made it"):
        step(stepfuse.jax.lion(), PARAMS, state=state)
    other = {"layers": [{"w": jnp.ones((3, 4))}, {"w": jnp.ones(6)}]}
    with pytest.raises(ValueError, match=r"state.arrays\['exp_avg'\]\['layers'\]\[1\]\['w'\] is float32\[5\]; this optimizer needs float32\[6\]"):
        step(stepfuse.jax.adamw(), other, params=other, state=state)


def test_names_of_hyperparameters_and_options():
    with pytest.raises(TypeError, match="adamw has no hyperparameter 'b1'; it has lr, beta1, beta2, eps, weight_decay"):
        stepfuse.jax.adamw(b1=0.9).init(PARAMS)
    with pytest.raises(TypeError, match="adamw has no option 'nesterov2'; it has amsgrad, maximize"):
        stepfuse.jax.adamw(nesterov2=True)
    with pytest.raises(TypeError, match=r"^lr: expected a number, an array of shape \(\) or a schedule; got float32\[2\]"):
        step(stepfuse.jax.adamw(), PARAMS, lr=jnp.ones(2))
    with pytest.raises(stepfuse.Error, match="fp9"):
        stepfuse.jax.adamw(moments="fp9").init(PARAMS)
    with pytest.raises(AttributeError, match="stepfuse.jax has no 'adamx'"):
        stepfuse.jax.adamx()
    with pytest.raises(ValueError, match="device: expected one of cpu, interpreter; got 'tpu'"):
        stepfuse.jax.adamw(device="tpu")


def test_options_that_arrays_decide():
    with pytest.raises(TypeError, match="is f32; leave out master, weight_rounding and the entry 'weight' of store, which do not change a parameter's dtype"):
        stepfuse.jax.adamw(options=["store=weight=bf16+ecc24"]).init(PARAMS)
    with pytest.raises(TypeError, match="options: the step is made for gradients in f16, but they are f32; leave out the option"):
        step(stepfuse.jax.adamw(options=["grad=f16"]), PARAMS)
    with pytest.raises(stepfuse.Error, match="leave out 'zero-grad'"):
        stepfuse.jax.adamw(options=["zero-grad"]).init(PARAMS)


def test_a_group_that_is_not_declared():
    with pytest.raises(ValueError, match=r"group_of\(\"\['layers'\]\[0\]\['w'\]\", …\) returned 'x'; groups has y"):
        stepfuse.jax.adamw(groups={"y": {}}, group_of=lambda path, p: "x").init(PARAMS)


def test_a_number_that_the_step_refuses_at_run_time():
    tx = stepfuse.jax.adamw(lr=lambda n: -1.0 - n)
    with pytest.raises(Exception, match="stepfuse: argument 'lr' of step @adamw cannot be -1: it must be at least 0(?! [(])"):
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
