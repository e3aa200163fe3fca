"""examples/ikebana-estimate.cpp: its numbers against those computed here from the shapes.

Usage: estimate_program.py IKEBANA-ESTIMATE
"""

import csv
import io
import json
import resource
import subprocess
import sys

PROGRAM = sys.argv[1]
SMALL = "--layers 3 --width 64 --heads 4 --vocab 96 --rows 2 --length 32".split()


def run(*arguments, status=0):
    done = subprocess.run([PROGRAM, *arguments], text=True, capture_output=True)
    assert done.returncode == status, (arguments, done.returncode, done.stderr)
    return done.stdout if status == 0 else done.stderr


def estimated(*arguments):
    return json.loads(run(*arguments, "--json"))


def of_training(memory):
    return memory["parameters"] + memory["gradients"] + memory["optimizer_state"]


def llama(layers, width, heads, kv_heads, intermediate, vocab):
    attention = 2 * width * width + 2 * width * (width // heads * kv_heads)
    return 2 * vocab * width + width + layers * (attention + 3 * width * intermediate + 2 * width)


def large_models():
    """AdamW in FP32 takes 16 bytes per parameter, and a rank of eight an eighth of that."""
    for preset, shape in (("llama-7b", (32, 4096, 32, 32, 11008, 32000)),
                          ("llama-70b", (80, 8192, 64, 8, 28672, 32000))):
        one = estimated("--preset", preset)
        assert one["elements"] == llama(*shape), (one["elements"], llama(*shape))
        counts = of_training(one) - 16 * one["elements"]  # counts of steps, a few bytes
        assert 0 <= counts < 1024 and one["ranks"] == 1, counts
        of_eight = estimated("--preset", preset, "--ranks", "8")
        assert of_eight["ranks"] == 8 and of_eight["elements"] == one["elements"]
        for kind in ("parameters", "gradients", "optimizer_state"):
            assert 1 <= 8 * of_eight[kind] / one[kind] < 1.001, (preset, kind, of_eight[kind])
    text = run("--preset", "llama-7b")
    assert "parameters, gradients and optimizer state: 16.00 bytes per parameter" in text, text
    assert text.startswith("llama of 32 layers, 4096 wide, 32 heads, 32 of keys and values, interm"
                           "ediate 11008, vocabulary 32000; batch 1 x 4096 on each of 1 rank"), text
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert most < one["parameters"] / 50, f"{most} bytes were really allocated"


def shapes():
    """What a block keeps under Checkpoint<Full> is its input."""
    own = "--layers 5 --width 512 --heads 8 --kv-heads 2 --intermediate 768 --vocab 1000".split()
    full = estimated("llama", *own, "--rows", "3", "--length", "80", "--checkpoint", "full")
    assert full["elements"] == llama(5, 512, 8, 2, 768, 1000)
    blocks = [u for u in full["units"] if u["name"].startswith("llama.model.layers.")]
    assert len(blocks) == 5 and len({u["parameters"] for u in blocks}) == 1
    assert [u["activations"] for u in blocks[1:]] == [3 * 80 * 512 * 4] * 4, blocks
    gpt2 = estimated("--preset", "gpt2")
    assert gpt2["elements"] == 124_439_808, gpt2["elements"]  # the number of GPT-2, whose head is
                                                              # tied
    rows = dict(csv.reader(io.StringIO(run("--preset", "gpt2", "--csv"))))
    assert rows.pop("kind") == "bytes"
    assert {kind: int(n) for kind, n in rows.items()} == {kind: gpt2[kind] for kind in rows}


def recipes():
    """Every recipe of --help, on one rank and on two."""
    help_text = run("--help")
    offered = [line.split() for line in help_text.splitlines() if line.startswith("    ")]
    offered = [line for line in offered if not line[0].startswith("--")]
    state = {"adamw": 8, "adamw8bit": 2}
    assert len(offered) >= 6, help_text
    for precision, optimizer, checkpoint in offered:
        recipe = ["--precision", precision, "--optimizer", optimizer, "--checkpoint", checkpoint]
        for ranks in (1, 2):
            memory = estimated("gpt", *SMALL, *recipe, "--ranks", str(ranks))
            per_element = memory["optimizer_state"] * ranks / memory["elements"]
            assert state[optimizer] <= per_element < 1.3 * state[optimizer], (recipe, per_element)
            assert memory["ranks"] == ranks and memory["peak"] > memory["between_steps"] > 0


def wrong_arguments():
    for arguments, expected in (
            ("", "which model"), ("bert", "`bert` is no argument"), ("--layers 3 gpt", "before it"),
            ("gpt --layers", "needs a value"), ("gpt --layers 3x", "is `3x`; write a whole number"),
            ("gpt --rows 0", "is `0`"), ("gpt --rows 99999999999999999999", "whole number from 1"),
            ("gpt --kv-heads 2", "a GPT has none"), ("gpt --heads 7", "does not divide"),
            ("llama --heads 64 --kv-heads 3", "does not divide"), ("gpt llama", "write one model"),
            ("gpt --csv --json", "not both"), ("--preset gpt3", "gpt2, llama-70b, llama-7b"),
            ("gpt --checkpoint some", "off, full, selective"),
            ("gpt --precision fp32 --optimizer adamw8bit", "is not compiled into this program")):
        text = run(*arguments.split(), status=2)
        assert expected in text and text.count("\n") == 1, (arguments, text)


large_models()
shapes()
recipes()
wrong_arguments()
