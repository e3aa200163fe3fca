"""scripts/gguf_to_safetensors.py: a GGUF file written as llama.cpp's converter does comes back to
the bit, examples/llama_weights computes Python's logits with it, and what cannot be is refused.

Usage: gguf_weights.py PROGRAM, by a Python that has torch, safetensors and gguf; PROGRAM is
llama_weights.
"""

import importlib.util
import json
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
    """A GGUF file of a model; `tensors` are those that it holds, in float32, by Python's names."""

    def __init__(self, path, model, config, stored=STORED, architecture="llama", **changes):
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

    def refused(self, *words):
        error = self.convert(self.path.with_name("none"))[1]
        assert not self.path.with_name("none").exists()
        for word in (str(self.path), *words):
            assert word in error, (word, error)


def check(folder, model, tied):
    """Names, bits, config.json, and C++'s logits by them."""
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
    refusals(pathlib.Path(name), made(CONFIG))
print("a GGUF file becomes safetensors to the bit")
