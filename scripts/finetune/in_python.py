#!/usr/bin/env python3
"""The same model and the same training by Hugging Face's transformers, to compare with.

    in_python.py logits FOLDER LOGITS DEVICE         the largest difference from logits in a file,
                                                     and the largest logit
    in_python.py perplexity PROGRAM TOKENS           that of the held-out windows by a .pt2 file
    in_python.py train FOLDER TOKENS DEVICE RECIPE   the training of examples/finetune.cpp, and its
                                                     lines

FOLDER is what scripts/gguf_to_safetensors.py writes, TOKENS what tokens.py writes, RECIPE is fp32
or bf16, which is autocast with selective checkpointing; on a CPU without instructions for BF16 its
products are computed in FP32, as Precision<BF16> does. Needs a Python with torch, safetensors and
transformers; nothing is downloaded.
"""

import contextlib
import functools
import math
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import products  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch.export.pt2_archive._package import load_pt2  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import create_selective_checkpoint_contexts  # noqa: E402
from transformers import LlamaForCausalLM  # noqa: E402
from transformers.utils import logging  # noqa: E402

aten = torch.ops.aten
# Lists what Checkpoint<Selective> keeps: the outputs of matrix products and of attention.
KEPT = [aten.mm.default, aten.addmm.default, aten.bmm.default,
        aten._scaled_dot_product_flash_attention_for_cpu.default,
        aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_efficient_attention.default,
        aten._scaled_dot_product_cudnn_attention.default]


def model_of(folder, device):
    logging.disable_progress_bar()
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, use_cache=False)
    return model.to(device)


def print_difference(folder, path, device):
    found = load_file(path, device)
    with torch.no_grad():
        wanted = model_of(folder, device)(found["tokens"]).logits
    print((found["logits"] - wanted).abs().max().item(), wanted.abs().max().item())


def loss_of(model, windows):
    """The mean over all targets, each the next token of its window."""
    logits = model(windows[:, :-1]).logits.float()
    return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def perplexity(model, windows, rows, autocast):
    model.eval()
    with torch.no_grad(), autocast():
        parts = windows.split(rows)
        total = sum(loss_of(model, part).item() * len(part) for part in parts)
    return math.exp(total / len(windows))


def train(folder, path, device, recipe):
    model, data = model_of(folder, device), load_file(path, device)
    torch.use_deterministic_algorithms(device != "cpu")
    autocast = functools.partial(torch.autocast, device, torch.bfloat16, enabled=recipe == "bf16")
    if recipe == "bf16":
        context = functools.partial(create_selective_checkpoint_contexts, KEPT)
        model.gradient_checkpointing_enable({"use_reentrant": False, "context_fn": context})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    rows = data["train"].shape[1]
    print(f"perplexity before: {perplexity(model, data['held_out'], rows, autocast):.6g}")
    model.train()
    for step, windows in enumerate(data["train"]):
        optimizer.zero_grad()
        with autocast():
            loss = loss_of(model, windows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step}  loss {loss.item():.6g}", flush=True)
    print(f"perplexity after: {perplexity(model, data['held_out'], rows, autocast):.6g}")


def print_perplexity(path, tokens):
    """By the graph of evaluation that a trained program has, without the model's class."""
    data = load_file(tokens)
    module = load_pt2(path).exported_programs["eval"].module()

    def model(windows):
        return module(input_ids=windows)

    model.eval = lambda: None
    print(perplexity(model, data["held_out"], data["train"].shape[1], contextlib.nullcontext))


if __name__ == "__main__":
    in_fp32 = "bf16" in sys.argv and "cpu" in sys.argv and not products.has_instructions()
    with products.InFP32() if in_fp32 else contextlib.nullcontext():
        {"logits": print_difference, "perplexity": print_perplexity,
         "train": train}[sys.argv[1]](*sys.argv[2:])
