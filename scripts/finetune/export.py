#!/usr/bin/env python3
"""Exports a language model of Hugging Face's transformers for examples/finetune_program.cpp.

    export.py FOLDER TOKENS MODEL.pt2

FOLDER is what scripts/gguf_to_safetensors.py writes, TOKENS what tokens.py writes, whose windows
give the length of a row. The file has both graphs (scripts/export_program.py). Prints the number of
its parameters. Needs a Python with torch, safetensors and transformers; nothing is downloaded.
"""

import os
import pathlib
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
warnings.filterwarnings("ignore")
import torch  # noqa: E402
from export_program import export_program  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402
from transformers.utils import logging  # noqa: E402


def main(folder, tokens, path):
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, use_cache=False)
    windows = load_file(tokens)["train"][0][:, :-1]
    rows = torch.export.Dim("rows", min=1, max=1024)
    export_program(model, kwargs={"input_ids": windows}, path=path,
                   dynamic_shapes={"input_ids": {0: rows}})
    print(sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main(*sys.argv[1:])
