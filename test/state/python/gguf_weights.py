"""scripts/gguf_to_safetensors.py: a GGUF file written as llama.cpp's converter does comes back to
the bit, examples/llama_weights computes Python's logits with it, and what cannot be is refused.

Usage: gguf_weights.py PROGRAM, by a Python that has torch, safetensors and gguf; PROGRAM is
llama_weights.
"""

import importlib.util
import json
import math
import pathlib
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from unittest import mock

import gguf
import numpy
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "scripts/gguf_to_safetensors.py"
spec = importlib.util.spec_from_file_location("gguf_to_safetensors", SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import llama  # noqa: E402

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
CONFIG = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0, "tie_word_embeddings": False,
}
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
STORED = {  # every kind of tensor in some place
    "attn_q": Type.Q8_0, "attn_k": Type.F16, "attn_v": Type.Q4_0, "attn_output": Type.Q4_1,
    "ffn_gate": Type.BF16, "ffn_up": Type.Q5_0, "ffn_down": Type.Q5_1, "token_embd": Type.Q8_0,
}


def permuted(rows, heads):
    """As llama.cpp's converter keeps queries and keys: halves become pairs."""
    shape = (heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return rows.reshape(shape).swapaxes(1, 2).reshape(rows.shape)


def gguf_name(name):
    module, _, kind = name.rpartition(".")
    if module.startswith("model.layers."):
        _, _, number, module = module.split(".", 3)
        return f"blk.{number}.{NAMES[module]}.{kind}"
    return f"{NAMES[module]}.{kind}"


def made(config):
    torch.manual_seed(1)
    model = llama.Llama(**config)
    for p in model.parameters():
        p.data = torch.randn(p.shape) * (0.3 if p.dim() > 1 else 1)
    return model


class File:
    """A GGUF file of a model. `tensors` are the ones that it holds, in float32, by Python's
    names."""

    def __init__(self, path, model, config, stored=STORED, architecture="llama", extra=(),
                 tensors=(), **changes):
        self.path, self.tensors = path, {}
        writer = gguf.GGUFWriter(path, architecture)
        fields = {
            "context_length": 128, "embedding_length": config["hidden_size"],
            "block_count": config["num_hidden_layers"],
            "feed_forward_length": config["intermediate_size"],
            "head_count": config["num_attention_heads"],
            "head_count_kv": config["num_key_value_heads"],
            "layer_norm_rms_eps": config["rms_norm_eps"], "rope_freq_base": config["rope_theta"],
            "rope_dimension_count": config["hidden_size"] // config["num_attention_heads"],
        } | changes
        for name, value in fields.items():
            if value is not None:
                getattr(writer, f"add_{name}")(value)
        for name, value in dict(extra).items():
            {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32,
             str: writer.add_string}[type(value)](name, value)
        for name, x in dict(tensors).items():
            writer.add_tensor(name, x)
        for name, x in model.state_dict().items():
            self.add(writer, name, x.numpy(), stored, config)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def add(self, writer, name, x, stored, config):
        new = gguf_name(name)
        part = new.split(".")[-2]
        kind = stored.get(part, Type.F32)
        heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(part)
        rows = gguf.quants.quantize(permuted(x, config[heads]) if heads else x, kind)
        writer.add_tensor(new, rows, raw_dtype=kind)
        # Quantising works along a row, so the order of rows does not matter to it.
        kept = gguf.quants.dequantize(gguf.quants.quantize(x, kind), kind)
        self.tensors[name] = torch.from_numpy(numpy.array(kept, numpy.float32)).view(x.shape)

    def convert(self, folder, *words):
        """The script's words on stdout, and its error, if any."""
        out = StringIO()
        with mock.patch.object(sys, "argv", ["script", str(self.path), str(folder), *words]):
            with redirect_stdout(out):
                try:
                    script.main()
                except SystemExit as end:
                    return out.getvalue(), str(end.code)
        return out.getvalue(), ""

    def refused(self, *words, arguments=()):
        error = self.convert(self.path.with_name("none"), *arguments)[1]
        assert not self.path.with_name("none").exists()
        for word in (str(self.path), *words):
            assert word in error, (word, error)


def check(folder, model, tied):
    """Checks names, bits, config.json, and C++'s logits by them."""
    config = CONFIG | {"tie_word_embeddings": tied}
    file = File(folder / "model.gguf", model, config)
    said, error = file.convert(folder / "out")
    assert not error, error
    assert ("embeddings tied" in said) == tied
    found = load_file(folder / "out/model.safetensors")
    assert found.keys() == file.tensors.keys(), found.keys() ^ file.tensors.keys()
    for name, x in file.tensors.items():
        assert found[name].dtype == torch.float32 and torch.equal(found[name], x), name
    written = json.loads((folder / "out/config.json").read_text())
    assert {key: written[key] for key in config} == config, written
    assert (written["head_dim"], written["max_position_embeddings"]) == (16, 128)
    assert not file.convert(folder / "narrow", "--dtype", "bfloat16")[1]
    for name, x in load_file(folder / "narrow/model.safetensors").items():
        assert torch.equal(x, file.tensors[name].bfloat16()), name
    model.load_state_dict(found)
    logits = folder / "logits"
    subprocess.run([PROGRAM, folder / "out", f"logits={logits}", "cast=0"], check=True,
                   stdout=subprocess.DEVNULL)
    theirs = load_file(logits)
    with torch.no_grad():
        hidden, head = model.outputs(theirs["tokens"], lambda block, x: block(x))
        wanted = torch.nn.functional.linear(hidden.view(*theirs["tokens"].shape, -1), head)
    apart = ((theirs["logits"] - wanted).abs().max() / wanted.abs().max()).item()
    assert apart <= 1e-5, apart


def scaled(folder, model):
    """Tests linear scaling, with a type or without, and Llama 3.1's by its factors."""
    def scaling(**changes):
        file = File(folder / "scaled.gguf", model, CONFIG, **changes)
        error = file.convert(folder / "scaled")[1]
        assert not error, error
        return json.loads((folder / "scaled/config.json").read_text())["rope_scaling"]

    linear = {"rope_type": "linear", "factor": 4.0}
    assert scaling(extra={"llama.rope.scaling.factor": 4.0}) == linear
    assert scaling(extra={"llama.rope.scale_linear": 4.0}) == linear
    typed = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    assert scaling(extra=typed) == linear
    assert scaling(extra=typed | {"llama.rope.scaling.type": "none"}) is None
    assert scaling(extra={"llama.rope.scaling.factor": 1.0}) is None
    assert scaling(extra={"llama.expert_count": 0, "llama.logit_scale": 1.0}) is None
    for factor in (8.0, 32.0):
        divided = []  # as convert_hf_to_gguf.py computes them
        for i in range(8):
            length = 2 * math.pi * CONFIG["rope_theta"] ** (i / 8)
            smooth = (8192 / length - 1) / 3
            divided.append(1 if length < 8192 / 4 else factor if length > 8192
                           else 1 / ((1 - smooth) / factor + smooth))
        freqs = numpy.array(divided, numpy.float32)
        assert scaling(tensors={"rope_freqs.weight": freqs}) == {
            "rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    subprocess.run([PROGRAM, folder / "scaled"], check=True, stdout=subprocess.DEVNULL)


def other_metadata(folder, model):
    """What llama.hpp does not compute, shapes that differ, and bytes of another tensor."""
    path = folder / "refused.gguf"

    def file(**changes):
        return File(path, model, CONFIG, **changes)

    values = {"logit_scale": 0.5, "embedding_scale": 12.0, "attention.sliding_window": 4096,
              "expert_count": 8, "attention.causal": False, "rope.dimension_sections": 3,
              "attn_logit_softcapping": 30.0}
    for key, value in values.items():
        file(extra={f"llama.{key}": value}).refused(f"llama.{key} is {value}")
    file(extra={"llama.vocab_size": 97}).refused("llama.vocab_size is 97")
    file(extra={"llama.attention.value_length": 8}).refused("attention.value_length is 8")
    file(extra={"llbma.rope.scaling.factor": 4.0}).refused("llbma.rope.scaling.factor is of no")
    file(extra={"general.type": "adapter"}).refused("of the type adapter")
    file(feed_forward_length=64).refused("mlp.gate_proj.weight` is (96, 64)", "(64, 64)")
    file(block_count=1).refused("`model.layers.1.", "no weight of a model of 1 layers")
    freqs = numpy.linspace(1, 8, 8, dtype=numpy.float32)
    file(tensors={"rope_freqs.weight": freqs}).refused("rope_freqs.weight", "not as Llama 3.1")
    file(extra={"llama.rope.scaling.factor": float("nan")}).refused("rope.scaling.factor is nan")
    large = made(CONFIG)
    large.lm_head.weight.data[0, 0] = 1e5
    File(path, large, CONFIG).refused("`lm_head.weight` has 1 values that float16 cannot hold",
                                      arguments=("--dtype", "float16"))
    moved = file()
    data = bytearray(path.read_bytes())
    name = b"output_norm.weight"
    at = data.index(name) + len(name) + 4 + 8 + 4  # after its dimensions and its type
    data[at:at + 8] = (int.from_bytes(data[at:at + 8], "little") ^ 256).to_bytes(8, "little")
    path.write_bytes(data)
    moved.refused("`output_norm.weight` begins at byte")


def refusals(folder, model):
    path = folder / "refused.gguf"

    def file(**changes):
        return File(path, model, CONFIG, **changes)

    file(architecture="qwen2").refused("architecture is qwen2")
    file(block_count=3).refused("`model.layers.2.", "are missing")
    file(head_count=None).refused("has no llama.attention.head_count")
    file(rope_dimension_count=8).refused("rotates 8 of the 16 numbers of a head")
    file(rope_scaling_type=gguf.RopeScalingType.YARN).refused("scales the rotation (yarn)")
    NAMES["mlp.up_proj"] = "ffn_up_exps"
    file().refused("`blk.0.ffn_up_exps.weight` has no name in a Llama")
    NAMES["mlp.up_proj"] = "ffn_up"
    whole = file()
    path.write_bytes(path.read_bytes()[:40])
    whole.refused("no intact GGUF file")
    path.write_bytes(b"hello world, this is no GGUF file")
    whole.refused("no intact GGUF file")
    path.unlink()
    whole.refused("No such file")


with tempfile.TemporaryDirectory() as name:
    for tied in (False, True):
        place = pathlib.Path(name) / str(tied)
        place.mkdir()
        check(place, made(CONFIG | {"tie_word_embeddings": tied}), tied)
    scaled(pathlib.Path(name), made(CONFIG))
    other_metadata(pathlib.Path(name), made(CONFIG))
    refusals(pathlib.Path(name), made(CONFIG))
print("a GGUF file becomes safetensors to the bit")
