"""Cases of Hugging Face's transformers: a Llama and a BERT with small configurations, and
SmolLM2-135M if a folder of scripts/gguf_to_safetensors.py is given. Needs the Python of
`scripts/setup finetune`; nothing is downloaded."""

import functools
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import cases  # noqa: E402
import torch  # noqa: E402
from torch.export import Dim  # noqa: E402
from transformers import BertConfig, BertForMaskedLM, LlamaConfig, LlamaForCausalLM  # noqa: E402

SYMBOLS = 96
SMALL = {"vocab_size": SYMBOLS, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 64}


def windows(symbols, rows, length):
    text = torch.randint(symbols, (rows, length + 1))
    return {"input_ids": text[:, :-1].clone(), "target": text[:, 1:].clone()}


def padded(rows, length):
    """Sequences of unequal length, with a mask of the positions that are filled."""
    filled = torch.arange(length) < torch.randint(length // 2, length + 1, (rows, 1))
    text = torch.randint(SYMBOLS, (rows, length))
    return {"input_ids": text, "attention_mask": filled.long(),
            "target": text.roll(1, 1).masked_fill(~filled, -100)}


def llama():
    return LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2, use_cache=False))


def bert():
    return BertForMaskedLM(BertConfig(**SMALL))


def pretrained(folder):
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, use_cache=False)


def found(folder=None):
    """The cases by name. With grouped heads torch cannot prove what a dynamic length needs. If
    nothing is masked, Llama's attention has no mask, but in a graph it has."""
    length = Dim("length", min=2, max=64)
    both = {0: cases.ROWS, 1: length}
    given = {
        "llama": cases.Case(
            llama, lambda: windows(SYMBOLS, 8, 12), "cross_entropy.last",
            {"input_ids": {0: cases.ROWS}}, output="logits", kwargs=("input_ids",), half=False,
            by_graph=True),
        "bert": cases.Case(
            bert, lambda: padded(8, 12), "cross_entropy.last",
            {"input_ids": both, "attention_mask": both}, output="logits",
            kwargs=("input_ids", "attention_mask")),
    }
    if folder:
        given["smollm2"] = cases.Case(
            functools.partial(pretrained, folder), lambda: windows(49152, 8, 16),
            "cross_entropy.last", {"input_ids": {0: cases.ROWS}}, output="logits",
            kwargs=("input_ids",), half=False, steps=6, by_graph=True)
    return given
