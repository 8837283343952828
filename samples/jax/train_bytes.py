#!/usr/bin/env python3
"""Trains a small transformer on the bytes of a text with stepfuse.jax.adamw, alone or next to optax. Knows jax and the package.

    train_bytes.py [--steps 200] [--dtype bf16|f32] [--moments fp8]
    train_bytes.py --compare           also trains with optax from the same start: losses and step times of both
    train_bytes.py --save FOLDER --stop 100, then --resume FOLDER: bit-identical losses
"""

import argparse
import functools
import pathlib
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

import stepfuse.jax

TEXT = pathlib.Path(__file__).resolve().parents[1] / "data" / "harbour.txt"
CONTEXT, WIDTH, HEADS, LAYERS, BATCH, BYTES = 32, 64, 4, 2, 16, 256
DECAY, MAX_NORM = 0.1, 1.0
GAINS = ("before", "between", "last")  # parameters without weight decay
DTYPES = {"bf16": jnp.bfloat16, "f32": jnp.float32}


def make_params(seed, dtype):
    """The parameters of equal layers are stacked, so that the step has few arrays and jax.lax.scan runs over the layers."""
    keys = iter(jax.random.split(jax.random.key(seed), 6))

    def normal(*shape):
        return (jax.random.normal(next(keys), shape) * 0.02).astype(dtype)

    return {
        "byte": normal(BYTES, WIDTH),
        "place": normal(CONTEXT, WIDTH),
        "layers": {"qkv": normal(LAYERS, WIDTH, 3 * WIDTH), "out": normal(LAYERS, WIDTH, WIDTH),
                   "wide": normal(LAYERS, WIDTH, 4 * WIDTH), "narrow": normal(LAYERS, 4 * WIDTH, WIDTH),
                   "before": jnp.ones((LAYERS, WIDTH), dtype), "between": jnp.ones((LAYERS, WIDTH), dtype)},
        "last": jnp.ones(WIDTH, dtype),
    }


def normalise(x, gain):
    x = x.astype(jnp.float32)
    return (x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)).astype(gain.dtype) * gain


def apply_layer(x, layer):
    batch, length, _ = x.shape
    q, k, v = jnp.split((normalise(x, layer["before"]) @ layer["qkv"]).reshape(batch, length, HEADS, -1), 3, axis=-1)
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.reshape(x.shape) @ layer["out"]
    return x + jax.nn.gelu(normalise(x, layer["between"]) @ layer["wide"]) @ layer["narrow"], None


def loss_of(params, batch):
    x = params["byte"][batch[:, :-1]] + params["place"]
    x, _ = jax.lax.scan(apply_layer, x, params["layers"])
    logits = (normalise(x, params["last"]) @ params["byte"].T).astype(jnp.float32)
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()


def schedule_of(steps):
    return optax.warmup_cosine_decay_schedule(0.0, 3e-3, min(20, steps // 2), steps, 3e-4)


class Ours:
    """One custom call clips and updates. With bf16 parameters, the 16 bits that they lack of an f32 master are state."""

    name = "stepfuse"

    def __init__(self, options, params):
        self.tx = stepfuse.jax.adamw(
            lr=schedule_of(options.steps), weight_decay=DECAY, max_norm=MAX_NORM, moments=options.moments,
            master="remainder" if options.dtype == "bf16" else False, groups={"gains": {"weight_decay": 0.0}},
            group_of=lambda path, p: "gains" if any(name in path for name in GAINS) else None)
        self.state = self.tx.init(params)

    def step(self, params, state, grads):
        return self.tx.step(params, state, grads)


class Optax:
    """clip_by_global_norm and optax's AdamW."""

    name = "optax"

    def __init__(self, options, params):
        def decays(params):
            return jax.tree_util.tree_map_with_path(lambda path, p: path[-1].key not in GAINS, params)

        rate = schedule_of(options.steps)
        self.tx = optax.chain(optax.clip_by_global_norm(MAX_NORM), optax.adamw(rate, weight_decay=DECAY, mask=decays))
        self.state = self.tx.init(params)

    def step(self, params, state, grads):
        updates, state = self.tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state


class Training:
    def __init__(self, kind, options):
        self.options = options
        self.params = make_params(options.seed, DTYPES[options.dtype])
        self.way = kind(options, self.params)
        self.state = self.way.state
        self.losses = []
        self.seconds = []

        @functools.partial(jax.jit, donate_argnums=(0, 1))  # donated: the step writes where the arrays are
        def train(params, state, batch):
            loss, grads = jax.value_and_grad(loss_of)(params, batch)
            return *self.way.step(params, state, grads), loss

        self.train = train

    def step(self, text):
        starts = np.random.default_rng([self.options.seed, len(self.losses)]).integers(len(text) - CONTEXT - 1, size=BATCH)
        batch = np.stack([text[s:s + CONTEXT + 1] for s in starts]).astype(np.int32)
        began = time.perf_counter()
        self.params, self.state, loss = self.train(self.params, self.state, batch)
        self.losses.append(float(loss))
        self.seconds.append(time.perf_counter() - began)

    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        stepfuse.jax.save_checkpoint(folder / "state.safetensors", self.way.tx, self.params, self.state)
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.params)]
        np.savez(folder / "rest.npz", losses=self.losses, **{f"p{i}": leaf.view(f"u{leaf.itemsize}") for i, leaf in enumerate(leaves)})

    def load(self, folder):
        rest = np.load(folder / "rest.npz")
        leaves, tree = jax.tree.flatten(self.params)
        self.params = tree.unflatten([jnp.asarray(rest[f"p{i}"].view(leaf.dtype)) for i, leaf in enumerate(leaves)])
        self.state = stepfuse.jax.load_checkpoint(folder / "state.safetensors", self.way.tx, self.params)
        self.losses = rest["losses"].tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--stop", type=int, help="number of steps after which to stop")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--moments", help="format of the moments, as in fp8 or int8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", type=pathlib.Path)
    parser.add_argument("--resume", type=pathlib.Path)
    parser.add_argument("--compare", action="store_true")
    options = parser.parse_args()
    if options.compare and options.resume:
        parser.error("--compare: expected a training from the start; got --resume too, whose file has the state of one optimizer")

    text = np.frombuffer(TEXT.read_bytes(), np.uint8)
    trainings = [Training(kind, options) for kind in ((Ours, Optax) if options.compare else (Ours,))]
    if options.resume:
        trainings[0].load(options.resume)
    count = sum(leaf.size for leaf in jax.tree.leaves(trainings[0].params))
    print(f"{count:,} parameters in {options.dtype}, text of {len(text):,} bytes, jax {jax.__version__}")
    while len(trainings[0].losses) < (options.stop or options.steps):
        for training in trainings:
            training.step(text)
        done = len(trainings[0].losses)
        if done % 20 == 0 or done == (options.stop or options.steps):
            shown = ", ".join(f"{t.way.name} {t.losses[-1]:.4f}" for t in trainings)
            print(f"step {done}: loss {shown}, gradient norm {float(trainings[0].state.values['grad_norm']):.3f}")
    for training in trainings:
        print(f"{training.way.name}: {1e3 * statistics.median(training.seconds):.2f} ms per step with forward and backward pass")
    if options.save:
        trainings[0].save(options.save)


if __name__ == "__main__":
    main()
