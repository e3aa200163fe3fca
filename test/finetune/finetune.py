"""scripts/finetune and examples/finetune.cpp on a tiny Llama: each recipe trains, generates, and is
killed and resumed to the bit; what does not hold, and bad input, are errors.

Usage: finetune.py PROGRAM, by a Python that has torch, numpy and safetensors.
"""

import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts/finetune"), str(ROOT / "test/parity")]
import llama  # noqa: E402
import main  # noqa: E402
import program  # noqa: E402
import tokens  # noqa: E402

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
CONFIG = {
    "model_type": "llama", "vocab_size": 300, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
    "rope_theta": 100000.0, "tie_word_embeddings": True,
}
STEPS, ROWS, LENGTH = 8, 2, 16


class SpelledVocabulary:
    """Tokens of one to three bytes; the text is cut into single ones."""

    spelled = [bytes([i]) for i in range(256)] + [b"<%d>" % i for i in range(44)]

    def encode(self, text):
        return list(text.encode())


def make(folder):
    """Makes a model and a file of tokens, as scripts/ write them."""
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text(json.dumps(CONFIG))
    torch.manual_seed(1)
    model = llama.Llama(**CONFIG)
    weights = {n: torch.randn(x.shape) * 0.3 for n, x in model.state_dict().items()}
    model.load_state_dict(weights)
    weights.pop("lm_head.weight", None)
    save_file(weights, folder / "model/model.safetensors")
    text = "It reads a text, and writes the same one.\n" * 40
    data, count = tokens.tensors_of(text, SpelledVocabulary(), STEPS, ROWS, LENGTH)
    assert count == len(text)
    assert data["train"].shape == (STEPS, ROWS, LENGTH + 1)
    assert data["held_out"][0, -1] == data["held_out"][1, 0]
    assert bytes(data["held_out"][:, :-1].reshape(-1).tolist()).decode() in text
    save_file({n: torch.from_numpy(x.copy()) for n, x in data.items()}, folder / "tokens")
    return model


def fails(error, words, call, *arguments):
    try:
        call(*arguments)
    except error as why:
        assert all(word in str(why) for word in words), (words, str(why))
    else:
        raise AssertionError(f"{call} did not fail: {words}")


def check_loss(model, whole, folder):
    """The first loss and the perplexity before are Python's."""
    data = load_file(folder / "tokens")
    for windows, found in ((data["train"][0], float(whole.losses[0])),
                           (data["held_out"], math.log(whole.perplexity["before"]))):
        with torch.no_grad():
            hidden, head = model.outputs(windows[:, :-1], lambda block, x: block(x))
            logits = torch.nn.functional.linear(hidden, head).view(-1, CONFIG["vocab_size"])
            wanted = torch.nn.functional.cross_entropy(logits, windows[:, 1:].flatten()).item()
        assert abs(found - wanted) < 1e-4, (found, wanted)


def check_recipes(model, folder):
    words = [PROGRAM, folder / "model", folder / "tokens"]
    runs = {}
    for recipe in main.RECIPES:
        end = folder / f"end-{recipe}"
        whole = program.run([*words, f"recipe={recipe}", f"end={end}"])
        assert whole.numbers == list(range(STEPS)) and whole.peak is not None and whole.mib > 10
        assert whole.perplexity["after"] < whole.perplexity["before"]
        for when in ("before", "after"):
            assert whole.text[when].startswith("It reads a text,"[:tokens.PROMPT]), whole.text
        killed, resumed = program.resumed([*words, f"recipe={recipe}"], folder, whole, end)
        assert 0 < resumed <= killed + 1 == STEPS * 5 // 8 + 1
        runs[recipe] = whole, whole
    check_loss(model, runs["fp32"][0], folder)
    assert runs["fp32"][0].losses != runs["bf16"][0].losses
    assert len(list(main.table_of_losses(runs))) == STEPS + 1
    assert len(list(main.table_of_costs(runs))) == 5
    return words, runs["fp32"][0], folder / "end-fp32"


def check_comparison(words, whole, end):
    """Tests that a resumed training that ends otherwise is found: by its losses, and by its
    state."""
    folder, bit = end.parent, end.parent / "another-bit"
    content = bytearray(end.read_bytes())
    content[-1] ^= 1
    bit.write_bytes(content)
    same = folder / "same"
    shutil.copy(end, same)
    program.check_same(end, same)
    fails(program.Failed, ["differ from byte"], program.check_same, end, bit)
    same.write_bytes(end.read_bytes() + b"0")
    fails(program.Failed, ["differ from byte"], program.check_same, end, same)
    fails(program.Failed, ["differ from byte"], program.resumed, words, folder, whole, bit)
    whole.losses[-1] += "1"
    fails(program.Failed, ["losses after the resume"], program.resumed, words, folder, whole, end)
    fails(program.Failed, ["ended before it was killed"], program.kill_after,
          [*words, "show=0"], STEPS, 0.5)


def check_refusals(words, folder):
    def refused(arguments, *expected):
        done = subprocess.run(arguments, text=True, capture_output=True)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done
        assert all(word in done.stderr for word in expected), (expected, done.stderr)

    refused([*words, "recipe=fp64"], "there is no `fp64`. Name one of: bf16, fp32")
    refused([*words, "device=gpu"], "at start of device string: gpu")
    refused([*words, "recipes=fp32"], "`recipes=fp32` is none of", "recipe=")
    refused([*words[:2], folder / "model/model.safetensors"], "has no `held_out` of 2 dimensions")
    refused([words[0], folder / "nothing", words[2]], "nothing/config.json cannot be read")
    (folder / "latin").write_bytes("Zürich".encode("latin-1"))
    (folder / "folder").mkdir()
    (folder / "folder/.hidden").write_text("hidden")
    (folder / "folder/b").write_text("second")
    (folder / "folder/a").write_text("first ")
    assert tokens.read_text(folder / "folder") == "first second"
    assert len(tokens.read_text(ROOT / "docs")) > 100_000  # what `make finetune` reads by default
    for name, expected in (("none", "there is no"), ("latin", "is not UTF-8: its byte 1 is 0xfc")):
        fails(tokens.Refused, [expected], tokens.read_text, folder / name)
    fails(tokens.Refused, ["too short", "its last tenth has 2 tokens", "17"], tokens.tensors_of,
          "a text of few words", SpelledVocabulary(), STEPS, ROWS, LENGTH)


def check_tokens():
    table = tokens.bytes_by_character()
    assert sorted(table.values()) == list(range(256)) and table["Ġ"] == 32 and table["a"] == 97
    assert tokens.in_two("a\nb\n\nc") == ("a\nb\n\n", "c") and tokens.in_two("ab" * 5)[1] == "b"
    every = numpy.arange(100)
    first = tokens.windows(every, 50, 9, "all")
    assert (first == tokens.windows(every, 50, 9, "all")).all() and len(set(first[:, 0])) > 20
    assert (first == first[:, :1] + numpy.arange(10)).all() and first.max() <= 99


with tempfile.TemporaryDirectory() as name:
    place = pathlib.Path(name)
    check_tokens()
    trained = check_recipes(make(place), place)
    check_refusals(trained[0], place)
    check_comparison(*trained)
print("trained, killed, resumed, compared and refused")
