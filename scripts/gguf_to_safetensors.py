#!/usr/bin/env python3
"""Writes the weights of a GGUF file of a Llama as FOLDER/model.safetensors and FOLDER/config.json,
with Hugging Face's names, which ikebana's load_weights and examples/llama_weights read.

    gguf_to_safetensors.py SOURCE.gguf FOLDER [--dtype float32|float16|bfloat16]

Quantised tensors are computed back by the package gguf, in float32; what quantising has lost stays
lost. GGUF keeps the rows of a head's queries and keys in pairs, as llama.cpp rotates them; they are
put back in halves, as Hugging Face's Llama and examples/models/llama.hpp rotate them. Needs a
Python with torch, safetensors and gguf (pip install gguf), and memory for all weights in float32.
"""

import argparse
import json
import math
import pathlib
import re
import sys

import numpy
import torch
from safetensors.torch import save_file

try:
    import gguf
except ImportError:
    sys.exit("gguf_to_safetensors: the package gguf is missing: pip install gguf")

WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
SUPPORTED = "llama"  # of its tensors the names and the order of rows are known here
ROTATED = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}


class Refused(Exception):
    """What is wrong, and what to do."""


def decimal(number):
    """The decimal that a float32 was written for: 1e-05, not 9.999999747378752e-06."""
    return float(str(numpy.float32(number)))


class Fields:
    """The metadata of a file."""

    def __init__(self, reader):
        self.reader = reader
        self.architecture = self.get("general.architecture")

    def get(self, key, default=None):
        field = self.reader.get_field(key)
        return default if field is None else field.contents()

    def of_model(self, key, default=None):
        value = self.get(f"{self.architecture}.{key}", default)
        if value is None:
            raise Refused(f"its metadata has no {self.architecture}.{key}: use another copy, or "
                          "convert the model to GGUF again")
        if isinstance(value, list):
            if len(set(value)) != 1:
                raise Refused(f"{self.architecture}.{key} differs from layer to layer, and a "
                              "Llama's does not: convert the files of the original model instead")
            value = value[0]
        return value


def check(fields):
    """Refuses what would become other weights, or a model that computes something else."""
    if fields.architecture != SUPPORTED:
        raise Refused(
            f"its architecture is {fields.architecture}, and the names and the order of rows are "
            f"known for {SUPPORTED} alone (also Mistral, SmolLM and others of that shape): convert "
            "the files of the original model instead"
        )
    if fields.get("split.count", 1) not in (0, 1):
        raise Refused("it is one part of several: join them by llama-gguf-split --merge")
    scaling = fields.of_model("rope.scaling.type", "none")
    if scaling != "none":
        raise Refused(f"it scales the rotation ({scaling}), and modules::Rotary does not: "
                      "write the model's own rotation")


def config_of(fields, shapes):
    heads = fields.of_model("attention.head_count")
    hidden = fields.of_model("embedding_length")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": shapes["token_embd.weight"][0],
        "hidden_size": hidden,
        "intermediate_size": fields.of_model("feed_forward_length"),
        "num_hidden_layers": fields.of_model("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": fields.of_model("attention.head_count_kv", heads),
        "head_dim": fields.of_model("attention.key_length", hidden // heads),
        "max_position_embeddings": fields.of_model("context_length"),
        "rms_norm_eps": decimal(fields.of_model("attention.layer_norm_rms_epsilon")),
        "rope_theta": decimal(fields.of_model("rope.freq_base", 10000.0)),
        "rope_scaling": None,
        "tie_word_embeddings": "output.weight" not in shapes,
        "attention_bias": "blk.0.attn_q.bias" in shapes,
        "mlp_bias": "blk.0.ffn_up.bias" in shapes,
    }
    rotated = fields.of_model("rope.dimension_count", config["head_dim"])
    if rotated != config["head_dim"]:
        raise Refused(f"it rotates {rotated} of the {config['head_dim']} numbers of a head, and "
                      "modules::Rotary all: write the model's own rotation")
    for name in ("bos", "eos"):
        token = fields.get(f"tokenizer.ggml.{name}_token_id")
        if token is not None:
            config[f"{name}_token_id"] = token
    return config


def new_name(name):
    """Hugging Face's name, and what it is in a layer."""
    found = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name)
    number, part, kind = found.groups() if found else (None, name, None)
    table = WHOLE if number is None else LAYER
    if kind is None or part not in table:
        raise Refused(f"`{name}` has no name in a Llama: convert the files of the original "
                      "model instead")
    return f"{'' if number is None else f'model.layers.{number}.'}{table[part]}.{kind}", part


def in_halves(rows, heads):
    """The rows of each head in two halves; GGUF has the first of each half side by side."""
    if rows.shape[0] % (2 * heads):
        raise Refused(f"{rows.shape[0]} rows are no pairs of {heads} heads: use another copy")
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def values(tensor, config):
    """One tensor in float32, by Hugging Face's name."""
    name, part = new_name(tensor.name)
    try:
        found = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    except (NotImplementedError, KeyError) as error:
        raise Refused(f"`{tensor.name}` is {tensor.tensor_type.name}, which gguf cannot "
                      "compute back: install a newer gguf") from error
    shape = tuple(int(n) for n in reversed(tensor.shape))
    found = numpy.asarray(found, numpy.float32).reshape(shape)
    if part in ROTATED:
        found = in_halves(found, config[ROTATED[part]])
    return name, torch.from_numpy(numpy.ascontiguousarray(found).copy())


def expected(config):
    names = {"model.embed_tokens.weight", "model.norm.weight"}
    if not config["tie_word_embeddings"]:
        names.add("lm_head.weight")
    layers = range(config["num_hidden_layers"])
    return names | {f"model.layers.{i}.{part}.weight" for i in layers for part in LAYER.values()}


def convert(source, dtype):
    try:
        reader = gguf.GGUFReader(source)
    except OSError as error:
        raise Refused(error.strerror or str(error)) from error
    except (ValueError, IndexError, KeyError) as error:
        raise Refused(f"it is no intact GGUF file: {error}. Use another copy") from error
    fields = Fields(reader)
    check(fields)
    shapes = {t.name: [int(n) for n in reversed(t.shape)] for t in reader.tensors}
    if "token_embd.weight" not in shapes:
        raise Refused("it has no token_embd.weight: it holds no weights, or a part of them. "
                      "Name a file of a whole model")
    if "rope_freqs.weight" in shapes:
        raise Refused("its rope_freqs.weight scales the rotation, and modules::Rotary "
                      "does not: write the model's own rotation")
    config = config_of(fields, shapes)
    tensors = dict(values(tensor, config) for tensor in reader.tensors)
    missing = sorted(expected(config) - tensors.keys())
    if missing:
        raise Refused(f"`{missing[0]}` and {len(missing) - 1} others are missing of it: "
                      "use another copy")
    config["torch_dtype"] = dtype
    kinds = sorted({t.tensor_type.name for t in reader.tensors})
    return {n: x.to(getattr(torch, dtype)) for n, x in tensors.items()}, config, kinds


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="float32")
    arguments = parser.parse_args()
    try:
        tensors, config, kinds = convert(arguments.source, arguments.dtype)
        arguments.folder.mkdir(parents=True, exist_ok=True)
        save_file(tensors, arguments.folder / "model.safetensors", {"format": "pt"})
        (arguments.folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    except Refused as why:
        sys.exit(f"gguf_to_safetensors: {arguments.source}: {why}.")
    except OSError as error:
        sys.exit(f"gguf_to_safetensors: {arguments.folder} cannot be written: {error}.")
    count = sum(math.prod(x.shape) for x in tensors.values())
    tied = ", embeddings tied" if config["tie_word_embeddings"] else ""
    print(f"{len(tensors)} tensors, {count} parameters from {', '.join(kinds)}{tied}")


if __name__ == "__main__":
    main()
