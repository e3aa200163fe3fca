"""The benchmark `memory`, its table of policies: recipes of which each has one policy more than the
last, their peak of memory and their time, beside what Python has.

Every contestant is a process of its own; they take turns in rounds of one step, each round in a new
random order. With --largest GIB the model is the widest GPT that AdamW is estimated to train in so
many GiB, and contestants run one after the other. The peak is the resident memory that the kernel
counts in a step, without that of the same recipe with the smallest model; pages of files that are
mapped count. It is of a process of its own, in which glibc returns memory when it is freed, which
takes time. Losses are compared: an offloaded recipe's must be equal
to the last digit to the same without. Writes Markdown.
"""

import argparse
import contextlib
import dataclasses
import importlib.util
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEP = HERE.parent / "step"
sys.path.append(str(STEP))
from rows import Row  # noqa: E402
from step import Contestant, environment  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Recipe:
    side: str
    name: str
    title: str
    bound: float  # the bound of the loss's relative distance from the first recipe's
    same_as: str = ""  # the recipe of the same side whose loss has the same digits


RECIPES = [
    Recipe("ikebana", "optimizer", "`AdamW`, `ClipGradNorm`", 0),
    Recipe("ikebana", "accumulate", "+ `Accumulate<4>`", 1e-3),
    Recipe("ikebana", "checkpoint", "+ `Checkpoint<Full>`", 1e-3, "accumulate"),
    Recipe("ikebana", "8bit", "+ `AdamW8bit` for `AdamW`", 2e-2),
    Recipe("ikebana", "bf16", "+ `Precision<BF16Weights>`", 5e-2),
    Recipe("ikebana", "state", "+ `Offload<Disk, OptimizerState>`", 5e-2, "bf16"),
    Recipe("ikebana", "activations", "+ `Activations`", 5e-2, "bf16"),
    Recipe("ikebana", "parameters", "`Offload<Disk, Activations, Parameters>`", 5e-2, "bf16"),
    Recipe("python", "optimizer", "`AdamW(fused=True)`, `clip_grad_norm_`", 1e-3),
    Recipe("python", "accumulate", "+ 4 microbatches", 1e-3),
    Recipe("python", "activations", "+ `save_on_cpu`", 1e-3, "accumulate"),
    Recipe("python", "checkpoint", "+ `checkpoint`, without `save_on_cpu`", 1e-3),
    Recipe("python", "8bit", "+ torchao's `AdamW8bit`", 2e-2),
]
CHECKPOINTED = ("checkpoint", "8bit")  # the words in names of Python's recipes


class Watched(Contestant):
    """A contestant whose resident memory is read."""

    def status(self, name):
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name + ":"))

    def restart_peak(self):
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


def command(recipe, row, folder, programs):
    own = dataclasses.replace(row, accumulate=1 if recipe.name == "optimizer" else 4,
                              checkpoint="full" if recipe.name in CHECKPOINTED else "none",
                              recipe=recipe.name)
    options = [*own.options(folder), "--contestant", recipe.side]
    if recipe.side == "ikebana":
        return [programs / "memory_policies", *options]
    return [sys.executable, STEP / "contestants.py", *options]


def make_data(row, folder):
    subprocess.run([sys.executable, STEP / "contestants.py", *row.options(folder),
                    "--contestant", "data"], check=True)


def start(recipe, row, folder, programs, **environment):
    words = [str(word) for word in command(recipe, row, folder, programs)]
    return Watched(words, **environment)


def peak(recipe, row, folder, programs):
    """MiB resident in the second step of a process whose memory goes back when it is freed."""
    contestant = start(recipe, row, folder, programs, MALLOC_MMAP_THRESHOLD_=str(2**16))
    contestant.run(1)
    contestant.restart_peak()
    contestant.run(1)
    most = contestant.status("VmHWM")
    contestant.close()
    return most


def empty(recipe, row, programs):
    """The same of the smallest model."""
    small = dataclasses.replace(row, width=64, layers=1, heads=1, context=8, rows=4)
    with tempfile.TemporaryDirectory(dir=programs) as folder:
        make_data(small, folder)
        return peak(recipe, small, folder, programs)


def one_by_one(recipes, row, folder, programs):
    for recipe in recipes:
        contestant = start(recipe, row, folder, programs)
        contestant.run(1)
        yield recipe, [contestant.run(1) for _ in range(row.rounds)]
        contestant.close()


def in_turn(recipes, row, folder, programs):
    with contextlib.ExitStack() as stack:
        running = {recipe: start(recipe, row, folder, programs) for recipe in recipes}
        for contestant in running.values():
            stack.callback(contestant.close)
            contestant.run(2)
        results, draw = {recipe: [] for recipe in recipes}, random.Random(0)
        for _ in range(row.rounds):
            for recipe in draw.sample(recipes, len(recipes)):
                results[recipe].append(running[recipe].run(1))
    yield from results.items()


def measure(recipes, row, args):
    """Returns the seconds of each round, the peak in MiB and the last loss, by recipe."""
    seconds, peaks, losses = {}, {}, {}
    how = one_by_one if args.largest else in_turn
    # Files are to lie on a disk, as the programs.
    with tempfile.TemporaryDirectory(dir=args.programs) as folder:
        make_data(row, folder)
        for recipe, rounds in how(recipes, row, folder, args.programs):
            seconds[recipe] = [time for time, _ in rounds]
            losses[recipe] = rounds[-1][1]
        for recipe in recipes:
            peaks[recipe] = peak(recipe, row, folder, args.programs)
            peaks[recipe] -= empty(recipe, row, args.programs)
    return seconds, peaks, losses


def check_losses(losses):
    by_name = {(r.side, r.name): loss for r, loss in losses.items()}
    first = by_name["ikebana", "optimizer"]
    for recipe, loss in losses.items():
        if not abs(loss - first) <= recipe.bound * abs(first):
            raise SystemExit(f"memory: the loss of {recipe.side}, {recipe.title} is {loss}, "
                             f"that of the first recipe {first}")
        if recipe.same_as and loss != by_name[recipe.side, recipe.same_as]:
            raise SystemExit(f"memory: the loss of {recipe.side}, {recipe.title} is {loss}, "
                             f"without its last policy {by_name[recipe.side, recipe.same_as]}")


def show(recipes, seconds, peaks):
    first = recipes[0]
    for recipe in recipes:
        ratio = statistics.median(a / b for a, b in zip(seconds[recipe], seconds[first]))
        peak, whole = peaks[recipe], peaks[first]
        cells = [recipe.side, recipe.title, f"{peak:.0f}", f"{peak / whole:.2f}",
                 f"{statistics.median(seconds[recipe]):.2f}", f"{ratio:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


def largest(args):
    bytes = int(args.largest * 2**30)
    command = [args.programs / "memory_policies", "--fits", str(bytes)]
    width = int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return Row(f"GPT 12x{width}, 4 x 64", "gpt", width, 4, steps=1, rounds=2, layers=12,
               heads=width // 64, context=64, batches=1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, help="the folder of memory_policies")
    parser.add_argument("--largest", type=float, metavar="GIB", default=0)
    parser.add_argument("--only", default="", help="recipes whose side and name hold this")
    return parser.parse_args()


def main():
    args = parse()
    row = largest(args) if args.largest else Row("GPT 6x384, 8 x 256", "gpt", 384, 8, steps=1,
                                                  rounds=5, layers=6, heads=6, context=256)
    recipes = [r for r in RECIPES if r is RECIPES[0] or args.only in f"{r.side} {r.name}"]
    if importlib.util.find_spec("torchao") is None:
        print("torchao's AdamW8bit: not run, since torchao is not installed.\n")
        recipes = [r for r in recipes if (r.side, r.name) != ("python", "8bit")]
    print(f"{row.name}. {environment(args.programs / 'memory_policies')}\n")
    print("| | recipe | peak MiB | of the first | s per step | over the first |")
    print("|---|---|---:|---:|---:|---:|")
    seconds, peaks, losses = measure(recipes, row, args)
    show(recipes, seconds, peaks)
    check_losses(losses)


if __name__ == "__main__":
    main()
