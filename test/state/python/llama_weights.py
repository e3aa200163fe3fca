"""examples/llama_weights.cpp against Python: weights by Hugging Face's names give Python's logits.

Usage: llama_weights.py PROGRAM, by a Python that has torch and safetensors. With the operators that
ikebana computes RMSNorm by (llama.norm_of_rows) the logits are Python's to the bit. Beside
torch.nn.RMSNorm, which sums the squares of a row in another order, they are within 1e-5 of the
largest logit: the bound of the project for sums in another order in FP32.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest.mock

import torch
from safetensors.torch import load_file, save_file

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "parity"))
import llama  # noqa: E402

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "vocab_size": 96, "hidden_size": 32,
    "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "rope_scaling": None,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}
INDEX = "model.safetensors.index.json"
own_norm, same_norm = torch.nn.RMSNorm.forward, llama.norm_of_rows


class Folder:
    """A model in a folder, as transformers saves one."""

    def __init__(self, path, **changes):
        config = CONFIG | changes
        self.path = path
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config, indent=2))
        torch.manual_seed(1)
        self.model = llama.Llama(**config)
        for p in self.model.parameters():
            p.data = torch.randn(p.shape) * (0.3 if p.dim() > 1 else 1)
        self.weights = {n: x.detach() for n, x in self.model.state_dict().items()}

    def save(self, weights, name="model.safetensors"):
        save_file({n: x.contiguous() for n, x in weights.items()}, self.path / name)
        return self.path / name

    def index(self, shards):
        where = {name: shard for shard, names in shards.items() for name in names}
        text = json.dumps({"metadata": {"total_size": 1}, "weight_map": where}, indent=2)
        (self.path / INDEX).write_text(text)

    def run(self, **options):
        words = [f"{name}={value}" for name, value in options.items()]
        return subprocess.run([PROGRAM, self.path, *words], text=True, capture_output=True)

    def logits(self, **options):
        path = self.path / "logits"
        done = self.run(logits=path, **options)
        assert done.returncode == 0, done.stderr
        found = load_file(path)
        return found["tokens"], found["logits"], done.stdout

    def check(self, **options):
        """Checks that C++'s logits are this model's."""
        tokens, found, said = self.logits(**options)
        for norm in (same_norm, own_norm):
            torch.nn.RMSNorm.forward = norm
            with torch.no_grad():
                hidden, head = self.model.outputs(tokens, lambda block, x: block(x))
                wanted = torch.nn.functional.linear(hidden.view(*tokens.shape, -1), head)
            apart = ((found - wanted).abs().max() / wanted.abs().max()).item()
            assert (apart == 0 if norm is same_norm else apart <= 1e-5), (options, norm, apart)
        return said

    def refused(self, *words, **options):
        """All of `words` are in one error."""
        done = self.run(**options)
        assert done.returncode == 1, (words, done.stdout)
        for word in words:
            assert word in done.stderr, (word, done.stderr)


def whole_files(parent):
    one = Folder(parent / "one")
    path = one.save(one.weights)
    one.check(cast=0)
    one.check(weights=path)
    back = one.path / "back"
    one.check(save=back)
    again = load_file(back)
    assert again.keys() == one.weights.keys()
    assert all(torch.equal(x, one.weights[n]) for n, x in again.items())
    one.model.load_state_dict(again)
    bare = {n.removeprefix("model."): x for n, x in one.weights.items()}
    bare_path = one.save(bare, "bare")
    one.refused("`model.norm.weight` is missing", "`norm.weight` belongs to no", weights=bare_path)
    one.check(weights=bare_path, rename="model.")
    more = one.save(one.weights | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)})
    one.refused("rotary_emb.inv_freq` belongs to no weight of the model")
    assert "not in the model: model.layers.0.self_attn.rotary_emb" in one.check(strict=0)
    more.unlink()
    one.refused(INDEX, "neither model.safetensors nor", "Name a file, or a folder")
    other = one.save(one.weights, "weights.safetensors")
    one.refused(INDEX, "but `weights.safetensors`", f'load_weights(model, "{other}")')
    one.check(weights=other)


def narrow_shards(parent):
    """BF16 in two files, tied embeddings: what Python widens gives the same bits."""
    two = Folder(parent / "two", tie_word_embeddings=True)
    narrow = {n: x.bfloat16() for n, x in two.weights.items()}
    two.model.load_state_dict({n: x.float() for n, x in narrow.items()})
    names = sorted(narrow)
    shards = {f"model-0000{i + 1}-of-00002.safetensors": names[i::2] for i in range(2)}
    for shard, own in shards.items():
        two.save({n: narrow[n] for n in own}, shard)
    two.index(shards)
    two.check()
    two.check(weights=two.path / INDEX)
    two.refused("is BFloat16[32], the model has Float[32]", cast=0)
    first, second = shards
    two.save({n: narrow[n] for n in [names[0], *names[1::2]]}, second)
    two.check()  # the index names the first for it
    altered = {n: narrow[n] for n in [names[0], *names[1::2]]} | {names[0]: narrow[names[0]] + 1}
    two.save(altered, second)
    two.check()
    two.index({first: names[2::2], second: names[1::2]})
    two.refused(names[0], "is in two files", "names it in none")
    two.index({first: [*names[::2], "model.extra"], second: names[1::2]})
    two.refused("says that `model.extra` is in", "does not have it")
    two.index(shards)
    (two.path / second).unlink()
    two.refused(second, "No such file")
    for outside in ("../x", "/etc/passwd", "zero\0inside"):
        two.index({first: names[::2], outside: names[1::2]})
        two.refused("is not a file name in the index's folder")
    (two.path / INDEX).write_text('{"weight_map": {}} {')
    two.refused(INDEX, "names no file")


def other_shapes(parent):
    """One error names everything; nothing of the file is in the model then."""
    three = Folder(parent / "three")
    wrong = dict(three.weights)
    keys = "model.layers.1.self_attn.k_proj.weight"
    wrong[keys] = wrong[keys].t()
    wrong["model.norm.weight"] = wrong["model.norm.weight"].double()
    wrong["model.layers.0.mlp.extra"] = wrong.pop("model.layers.0.mlp.up_proj.weight")
    three.save(wrong)
    three.refused(f"`{keys}` is Float[32, 16], the model has Float[16, 32]",
                  "`model.norm.weight` is Double[32], the model has Float[32]",
                  "`model.layers.0.mlp.up_proj.weight` is missing",
                  "`model.layers.0.mlp.extra` belongs to no weight", "Nothing was changed", cast=0)


def scaled_rotation(scaling):
    """Returns llama.rotary with the frequencies of transformers' `rope_parameters`."""
    def rotary(x, base):
        width = x.size(-1)
        speed = 1.0 / (base ** (torch.arange(0, width, 2).float() / width))
        if scaling["rope_type"] == "linear":
            speed = speed / scaling["factor"]
        else:
            low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
            turns = scaling["original_max_position_embeddings"] * speed / (2 * torch.pi)
            share = ((turns - low) / (high - low)).clamp(0, 1)
            speed = (1 - share) * speed / scaling["factor"] + share * speed
        angle = torch.arange(x.size(-2)).float()[:, None] * speed
        angle = torch.cat((angle, angle), dim=-1)
        turned = torch.cat((-x[..., width // 2 :], x[..., : width // 2]), dim=-1)
        return x * angle.cos() + turned * angle.sin()

    return rotary


def other_configs(parent):
    """Tests scaled rotations, and heads without a number of their own for keys."""
    plain = llama.rotary
    for name, scaling in {
        "linear": {"rope_type": "linear", "factor": 4.0},
        "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                   "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
    }.items():
        for field in ("rope_scaling", "rope_parameters"):
            with unittest.mock.patch.dict(CONFIG):
                del CONFIG["rope_scaling"]
                folder = Folder(parent / f"{name}.{field}", **{field: scaling})
            folder.save(folder.weights)
            with unittest.mock.patch.object(llama, "rotary", scaled_rotation(scaling)):
                folder.check()
            assert llama.rotary is plain
    heads = Folder(parent / "heads", num_key_value_heads=CONFIG["num_attention_heads"])
    heads.save(heads.weights)
    config = json.loads((heads.path / "config.json").read_text())
    for value in (None, "left out"):
        config["num_key_value_heads"] = value
        if value is not None:
            del config["num_key_value_heads"]
        (heads.path / "config.json").write_text(json.dumps(config))
        heads.check()
    (heads.path / "config.json").write_text(json.dumps(config | {"sliding_window": 8}))
    heads.refused("`sliding_window` is 8, which llama.hpp does not compute")


with tempfile.TemporaryDirectory() as folder:
    for part in (whole_files, narrow_shards, other_shapes, other_configs):
        part(pathlib.Path(folder))
print("Python's logits, and every error")
