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
SUPPORTED = "llama"  # the architecture for which the names of tensors and the order of rows are
                     # known here
ROTATED = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}


# This metadata of an architecture is repeated by config.json, or changes nothing.
OBEYED = {
    "attention.head_count", "attention.head_count_kv", "attention.key_length",
    "attention.layer_norm_rms_epsilon", "attention.value_length", "block_count", "context_length",
    "embedding_length", "feed_forward_length", "rope.dimension_count", "rope.freq_base",
    "rope.scale_linear", "rope.scaling.factor", "rope.scaling.finetuned",
    "rope.scaling.original_context_length", "rope.scaling.type", "vocab_size",
}
# These have the values by which they change nothing.
WITHOUT_EFFECT = {
    "attention.causal": (True,), "attention.clamp_kqv": (0,), "attention.max_alibi_bias": (0,),
    "attention.sliding_window": (0,), "attn_logit_softcapping": (0,), "embedding_scale": (0, 1),
    "expert_count": (0,), "expert_used_count": (0,), "final_logit_softcapping": (0,),
    "logit_scale": (0, 1), "pooling_type": (0,), "residual_scale": (0, 1),
    "rope.scaling.attn_factor": (1,), "use_parallel_residual": (False,),
}
LLAMA_3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}


class Refused(Exception):
    """What is wrong, and what to do."""


def decimal(number):
    """Returns the decimal that a float32 was written for: 1e-05, not 9.999999747378752e-06."""
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
    if fields.get("general.type", "model") != "model":
        raise Refused(f"it is of the type {fields.get('general.type')}: name a file of a model")
    prefix = fields.architecture + "."
    for key in fields.reader.fields:
        name = key.removeprefix(prefix)
        if not key.startswith(prefix):
            name = key.partition(".")[2]
            if name in OBEYED or name in WITHOUT_EFFECT:
                raise Refused(f"its {key} is of no architecture that it has: use another copy")
            continue
        if name in OBEYED:
            continue
        if fields.of_model(name) not in WITHOUT_EFFECT.get(name, ()):
            raise Refused(f"its {key} is {fields.of_model(name)}, which "
                          "examples/models/llama.hpp does not compute: convert another model")


def check_layout(reader):
    """Tensors follow each other, as in llama.cpp: else one has the bytes of another."""
    at = reader.data_offset
    for tensor in reader.tensors:
        if tensor.data_offset != at:
            raise Refused(f"`{tensor.name}` begins at byte {tensor.data_offset}, and what is "
                          f"before it ends at {at}: use another copy")
        at += -(-int(tensor.n_bytes) // reader.alignment) * reader.alignment
    end = len(reader.data)
    if not at - reader.alignment < end <= at and reader.tensors:
        raise Refused(f"its tensors end at byte {at} of {end}: use another copy")


def scaling_of(fields, reader, config):
    """`rope_scaling` of config.json: linear, which is llama.cpp's when no type is given, or
    Llama 3.1's, of which GGUF has the factors of each frequency."""
    kind = fields.of_model("rope.scaling.type", "linear")
    if kind not in ("none", "linear"):
        raise Refused(f"it scales the rotation ({kind}), and modules::RotaryScaling does not: "
                      "write the model's own rotation")
    factor = fields.of_model("rope.scaling.factor", fields.of_model("rope.scale_linear", 0.0))
    if not math.isfinite(factor) or factor < 0:
        raise Refused(f"its rope.scaling.factor is {factor}: use another copy")
    linear = decimal(factor) if kind == "linear" and factor not in (0, 1) else None
    tensor = next((t for t in reader.tensors if t.name == "rope_freqs.weight"), None)
    if tensor is None:
        return None if linear is None else {"rope_type": "linear", "factor": linear}
    found = numpy.asarray(tensor.data, numpy.float64).reshape(-1)
    for factor in (8.0, 32.0):
        wanted = factors_of_llama_3(factor, config)
        if linear is None and found.shape == wanted.shape and (
                numpy.allclose(found, wanted, rtol=1e-5, atol=0)):
            return {"rope_type": "llama3", "factor": factor} | LLAMA_3
    raise Refused("its rope_freqs.weight scales the rotation, and not as Llama 3.1: write the "
                  "model's own rotation")


def factors_of_llama_3(factor, config):
    """What each frequency is divided by."""
    width, length = config["head_dim"], LLAMA_3["original_max_position_embeddings"]
    speed = config["rope_theta"] ** -(numpy.arange(0, width, 2) / width)
    low, high = LLAMA_3["low_freq_factor"], LLAMA_3["high_freq_factor"]
    share = ((length * speed / (2 * math.pi) - low) / (high - low)).clip(0, 1)
    return 1 / ((1 - share) / factor + share)


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
    for key, wanted in (("attention.value_length", "head_dim"), ("vocab_size", "vocab_size")):
        if fields.of_model(key, config[wanted]) != config[wanted]:
            raise Refused(f"its {fields.architecture}.{key} is {fields.of_model(key)}, and its "
                          f"{wanted} is {config[wanted]}: convert another model")
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
    """Returns the rows of each head in two halves. GGUF has the first of each half side by side."""
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
    """Returns the shape of each tensor."""
    hidden, mlp, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    of_queries = config["num_attention_heads"] * width
    of_keys = config["num_key_value_heads"] * width
    layer = {
        "attn_norm": (hidden,), "ffn_norm": (hidden,), "attn_q": (of_queries, hidden),
        "attn_k": (of_keys, hidden), "attn_v": (of_keys, hidden),
        "attn_output": (hidden, of_queries), "ffn_gate": (mlp, hidden), "ffn_up": (mlp, hidden),
        "ffn_down": (hidden, mlp),
    }
    whole = (config["vocab_size"], hidden)
    shapes = {"model.embed_tokens.weight": whole, "model.norm.weight": (hidden,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = whole
    return shapes | {f"model.layers.{i}.{LAYER[part]}.weight": shape
                     for i in range(config["num_hidden_layers"]) for part, shape in layer.items()}


def check_tensors(tensors, config):
    wanted = expected(config)
    missing = sorted(wanted.keys() - tensors.keys())
    if missing:
        raise Refused(f"`{missing[0]}` and {len(missing) - 1} others are missing of it: "
                      "use another copy")
    for name, x in tensors.items():
        if name not in wanted:
            raise Refused(f"`{name}` is no weight of a model of "
                          f"{config['num_hidden_layers']} layers without biases: convert another "
                          "model")
        if tuple(x.shape) != wanted[name]:
            raise Refused(f"`{name}` is {tuple(x.shape)}, and its metadata makes it "
                          f"{wanted[name]}: use another copy")


def narrowed(name, x, dtype):
    """The tensor in the dtype that is written, which must hold its values."""
    result = x.to(getattr(torch, dtype))
    lost = (x.isfinite() & ~result.isfinite()).sum().item()
    if lost:
        raise Refused(f"`{name}` has {lost} values that {dtype} cannot hold: name a wider --dtype")
    return result


def convert(source, dtype):
    try:
        return converted(source, dtype)
    except OSError as error:
        raise Refused(error.strerror or str(error)) from error
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise Refused(f"it is no intact GGUF file: {error}. Use another copy") from error


def converted(source, dtype):
    reader = gguf.GGUFReader(source)
    fields = Fields(reader)
    check(fields)
    check_layout(reader)
    shapes = {t.name: [int(n) for n in reversed(t.shape)] for t in reader.tensors}
    if "token_embd.weight" not in shapes:
        raise Refused("it has no token_embd.weight: it holds no weights, or a part of them. "
                      "Name a file of a whole model")
    config = config_of(fields, shapes)
    config["rope_scaling"] = scaling_of(fields, reader, config)
    tensors = dict(values(tensor, config) for tensor in reader.tensors
                   if tensor.name != "rope_freqs.weight")
    check_tensors(tensors, config)
    config["torch_dtype"] = dtype
    kinds = sorted({t.tensor_type.name for t in reader.tensors})
    return {n: narrowed(n, x, dtype) for n, x in tensors.items()}, config, kinds


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
        for path in map(arguments.folder.joinpath, ("model.safetensors", "config.json")):
            if path.exists() and not path.is_file():
                raise Refused(f"{path} is no regular file: name another folder")
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
