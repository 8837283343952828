#!/usr/bin/env python3
"""Writes samples/layouts/*.json: real models' shapes from their hyperparameters, and awkward ones.

    tools/make_layouts.py           write the files
    tools/make_layouts.py --check   only compare, and fail where a file differs
"""

import argparse
import json
import math
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "samples" / "layouts"
DECAY, NO_DECAY = 0, 1  # the two parameter groups that most trainers use


def tensor(name, shape, group=DECAY, **rest):
    """One entry; what equals its default is left out of the file."""
    entry = {"name": name, "shape": shape}
    if group:
        entry["group"] = group
    return entry | rest


def linear(name, inputs, outputs):
    return [tensor(f"{name}.weight", [outputs, inputs]), tensor(f"{name}.bias", [outputs], NO_DECAY)]


def norm(name, width):
    return [tensor(f"{name}.{part}", [width], NO_DECAY) for part in ("weight", "bias")]


def resnet50(classes=1000):
    def conv(name, inputs, outputs, kernel):
        return [tensor(f"{name}.weight", [outputs, inputs, kernel, kernel])]

    tensors = conv("conv1", 3, 64, 7) + norm("bn1", 64)
    inputs = 64
    for layer, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], start=1):
        for block in range(blocks):
            at = f"layer{layer}.{block}"
            tensors += conv(f"{at}.conv1", inputs, width, 1) + norm(f"{at}.bn1", width)
            tensors += conv(f"{at}.conv2", width, width, 3) + norm(f"{at}.bn2", width)
            tensors += conv(f"{at}.conv3", width, 4 * width, 1) + norm(f"{at}.bn3", 4 * width)
            if block == 0:
                tensors += conv(f"{at}.downsample.0", inputs, 4 * width, 1)
                tensors += norm(f"{at}.downsample.1", 4 * width)
            inputs = 4 * width
    return tensors + linear("fc", inputs, classes)


def bert_base(vocabulary=30522, positions=512, width=768, layers=12, inner=3072):
    tensors = [
        tensor("bert.embeddings.word_embeddings.weight", [vocabulary, width]),
        tensor("bert.embeddings.position_embeddings.weight", [positions, width]),
        tensor("bert.embeddings.token_type_embeddings.weight", [2, width]),
        *norm("bert.embeddings.LayerNorm", width),
    ]
    for layer in range(layers):
        at = f"bert.encoder.layer.{layer}"
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            tensors += linear(f"{at}.attention.{part}", width, width)
        tensors += norm(f"{at}.attention.output.LayerNorm", width)
        tensors += linear(f"{at}.intermediate.dense", width, inner)
        tensors += linear(f"{at}.output.dense", inner, width)
        tensors += norm(f"{at}.output.LayerNorm", width)
    tensors += linear("bert.pooler.dense", width, width)
    # The decoder's matrix is the word embedding, so the head adds only a bias for it.
    tensors += [tensor("cls.predictions.bias", [vocabulary], NO_DECAY)]
    tensors += linear("cls.predictions.transform.dense", width, width)
    tensors += norm("cls.predictions.transform.LayerNorm", width)
    return tensors + linear("cls.seq_relationship", width, 2)


def gpt2(vocabulary=50257, positions=1024, width=768, layers=12):
    def conv1d(name, inputs, outputs):  # GPT-2 keeps its matrices as [inputs, outputs]
        return [tensor(f"{name}.weight", [inputs, outputs]), tensor(f"{name}.bias", [outputs], NO_DECAY)]

    tensors = [tensor("wte.weight", [vocabulary, width]), tensor("wpe.weight", [positions, width])]
    for layer in range(layers):
        at = f"h.{layer}"
        tensors += norm(f"{at}.ln_1", width)
        tensors += conv1d(f"{at}.attn.c_attn", width, 3 * width)
        tensors += conv1d(f"{at}.attn.c_proj", width, width)
        tensors += norm(f"{at}.ln_2", width)
        tensors += conv1d(f"{at}.mlp.c_fc", width, 4 * width)
        tensors += conv1d(f"{at}.mlp.c_proj", 4 * width, width)
    return tensors + norm("ln_f", width)


def llama_3_2_1b(vocabulary=128256, width=2048, layers=16, heads=32, kv_heads=8, inner=8192):
    kv_width = width // heads * kv_heads
    tensors = [tensor("model.embed_tokens.weight", [vocabulary, width])]
    for layer in range(layers):
        at = f"model.layers.{layer}"
        for part, outputs in (("q", width), ("k", kv_width), ("v", kv_width), ("o", width)):
            tensors.append(tensor(f"{at}.self_attn.{part}_proj.weight", [outputs, width]))
        tensors.append(tensor(f"{at}.mlp.gate_proj.weight", [inner, width]))
        tensors.append(tensor(f"{at}.mlp.up_proj.weight", [inner, width]))
        tensors.append(tensor(f"{at}.mlp.down_proj.weight", [width, inner]))
        tensors.append(tensor(f"{at}.input_layernorm.weight", [width], NO_DECAY))
        tensors.append(tensor(f"{at}.post_attention_layernorm.weight", [width], NO_DECAY))
    return tensors + [tensor("model.norm.weight", [width], NO_DECAY)]


def tiny_10000():
    return [tensor("tiny", [37], count=10000)]


def sizes():
    piece, lanes = 16384, 2048
    values = [0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 255, 257, 1023]
    values += [lanes - 1, lanes, lanes + 1, 2 * lanes - 1, 2 * lanes + 1, 3 * lanes, 4099]
    values += [piece - 1, piece, piece + 1, piece + lanes, 2 * piece - 1, 2 * piece, 2 * piece + 1]
    values += [3 * piece + 1234, 8 * piece, 0, 1]
    return [tensor(f"n{size}_{at}", [size], at % 2) for at, size in enumerate(values)]


def misaligned():
    """Every offset, in elements, that a base of 2-byte elements can have within 64 bytes."""
    tensors = []
    for elements in range(32):
        tensors.append(tensor(f"small_by_{elements}", [5 + elements], misalign=elements))
        tensors.append(tensor(f"large_by_{elements}", [2048 + 37 * elements], misalign=elements))
    buffers = ("grad", "weight", "master", "exp_avg", "exp_avg_sq")
    for elements in range(1, 16):  # each buffer its own offset, so that no shared head loop fits all
        offsets = {name: (elements * (at + 1)) % 16 for at, name in enumerate(buffers)}
        tensors.append(tensor(f"apart_{elements}", [16384 + elements], misalign=offsets))
    return tensors


def mixed_dtypes():
    kinds = ("f16", "bf16", "f32")
    tensors = []
    for at in range(30):
        size = (1, 37, 2048, 2051, 16384, 40001)[at % 6]
        tensors.append(tensor(f"block.{at}", [size], at % 2, dtypes={"grad": kinds[(at + at // 3) % 3]}))
    for kind in kinds:
        tensors.append(tensor(f"odd_{kind}", [4099], dtypes={"grad": kind}, misalign=3))
    return tensors


def many_groups():
    """64 groups as layer-wise learning rates make them. Group 40 has no tensor, group 41 an empty one."""
    tensors = []
    for group in range(64):
        if group == 40:
            continue
        if group == 41:
            tensors.append(tensor("empty", [0], group))
            continue
        tensors.append(tensor(f"layer.{group}.weight", [32 + group, 48], group))
        if group % 3 == 0:
            tensors.append(tensor(f"layer.{group}.bias", [48], group))
    return tensors[::2] + tensors[1::2]  # groups interleave in bound order


# file name: (maker, source in words, expected number of tensors, expected number of elements)
LAYOUTS = {
    "resnet50": (resnet50, "ResNet-50 (He et al. 2015), ImageNet head", 161, 25_557_032),
    "bert_base": (bert_base, "BERT-base uncased (Devlin et al. 2018) as pre-trained: pooler,"
                  " masked-LM head with tied decoder, next-sentence head", 206, 110_106_428),
    "gpt2": (gpt2, "GPT-2 124M (Radford et al. 2019), tied output head", 148, 124_439_808),
    "llama_3_2_1b": (llama_3_2_1b, "Llama-3.2-1B (Meta 2024), tied output head", 146, 1_235_814_400),
    "tiny_10000": (tiny_10000, "ten thousand tensors of 37 elements", 10_000, 370_000),
    "sizes": (sizes, "sizes around every boundary of lanes and pieces", 38, 373_950),
    "misaligned": (misaligned, "bases at every offset from 64-byte alignment", 79, 330_424),
    "mixed_dtypes": (mixed_dtypes, "gradients of three types in one step", 33, 314_907),
    "many_groups": (many_groups, "64 parameter groups, two of them without elements", 85, 189_168),
}


def totals(tensors):
    counts = [entry.get("count", 1) for entry in tensors]
    elements = sum(n * math.prod(entry["shape"]) for n, entry in zip(counts, tensors))
    return sum(counts), elements


def render(name, source, tensors):
    """Compact, but one tensor a line, so that a change shows as the lines that it changes."""
    lines = ",\n".join("  " + json.dumps(entry) for entry in tensors)
    head = f'{{"name": {json.dumps(name)}, "source": {json.dumps(source)}, "tensors": [\n'
    return head + lines + "\n]}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing")
    check = parser.parse_args().check
    stale = []
    for name, (maker, source, *expected) in LAYOUTS.items():
        tensors = maker()
        found = list(totals(tensors))
        if found != expected:
            sys.exit(f"make_layouts: {name} has [tensors, elements] {found}, expected {expected}")
        path = FOLDER / f"{name}.json"
        text = render(name, source, tensors)
        if check and (not path.exists() or path.read_text() != text):
            stale.append(str(path))
        elif not check:
            path.write_text(text)
    if stale:
        sys.exit("make_layouts: run tools/make_layouts.py; these differ: " + ", ".join(stale))


if __name__ == "__main__":
    main()
