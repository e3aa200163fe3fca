"""The benchmark `checkpoint`: what each choice of Checkpoint keeps for backward and takes in time,
beside Python's torch.utils.checkpoint.

Every contestant is a process of its own, as in ../step; they take turns in rounds of one step, each
round in a new random order. Times are medians over rounds of the ratio to the same side without a
checkpoint in that round; bytes are counted by the allocator, the same on both sides. The losses of
one side must be the same to the last digit for every choice. Writes Markdown.
"""

import argparse
import contextlib
import dataclasses
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "step"))
from rows import Row  # noqa: E402
from step import Contestant, environment  # noqa: E402

CHOICES = {"none": "none", "full": "Checkpoint<Full>", "selective": "Checkpoint<Selective>",
           "every": "Checkpoint<Every<2>>", "segments": "Checkpoint<Segments<>>"}
SIDES = ("ikebana", "python")
MODELS = [
    Row("GPT 6x384, 8 x 256", "gpt", 384, 8, steps=1, rounds=7, layers=6, heads=6, context=256),
    Row("GPT 12x512, 4 x 256", "gpt", 512, 4, steps=1, rounds=5, layers=12, heads=8, context=256),
]
# Limits for ikebana on the first model: time over none, and bytes kept over none.
BARS = {"full": (1.28, 0.35), "selective": (1.10, 0.65)}


class Watched(Contestant):
    """A contestant that also reports what its last step kept, and its peak, in bytes."""

    def bytes(self):
        self.process.stdin.write("bytes 1\n")
        self.process.stdin.flush()
        return [int(value) for value in self.process.stdout.readline().split()]


def command(side, row, folder, programs):
    options = row.options(folder) + ["--contestant", side]
    if side == "ikebana":
        return [programs / "checkpoint_ikebana", *options]
    counter = programs / "libcheckpoint_counter.so"
    return [sys.executable, HERE.parent / "step" / "contestants.py", *options, "--counter", counter]


@dataclasses.dataclass
class Result:
    seconds: dict = dataclasses.field(default_factory=dict)  # (side, choice) -> a list by round
    losses: dict = dataclasses.field(default_factory=dict)  # the same -> of each round
    bytes: dict = dataclasses.field(default_factory=dict)

    def over_none(self, side, choice):
        pairs = zip(self.seconds[side, choice], self.seconds[side, "none"])
        return statistics.median(a / b for a, b in pairs)

    def kept(self, side, choice):
        return self.bytes[side, choice][0] / self.bytes[side, "none"][0]


def measure(row, rounds, programs):
    result = Result()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        subprocess.run([sys.executable, HERE.parent / "step" / "contestants.py",
                        *row.options(folder), "--contestant", "data"], check=True)
        running = {}
        for key in ((side, choice) for side in SIDES for choice in CHOICES):
            own = dataclasses.replace(row, checkpoint=key[1])
            running[key] = Watched([str(w) for w in command(key[0], own, folder, programs)])
            stack.callback(running[key].close)
            running[key].run(2)
        draw = random.Random(0)
        for _ in range(rounds or row.rounds):
            for key in draw.sample(list(running), len(running)):
                seconds, loss = running[key].run(1)
                result.seconds.setdefault(key, []).append(seconds)
                result.losses.setdefault(key, []).append(loss)
        result.bytes = {key: contestant.bytes() for key, contestant in running.items()}
    check_losses(row, result)
    return result


def check_losses(row, result):
    for side, choice in result.losses:
        if result.losses[side, choice] != result.losses[side, "none"]:
            raise SystemExit(f"checkpoint: {row.name}, {row.precision}: the losses of {side} under "
                             f"{choice} differ from those without a checkpoint")


def mib(count):
    return f"{count / 2**20:.1f}"


def lines(row, result):
    for choice, policy in CHOICES.items():
        cells = [row.name, row.precision.upper(), f"`{policy}`" if choice != "none" else policy]
        for side in SIDES:
            kept, peak = result.bytes[side, choice]
            seconds = statistics.median(result.seconds[side, choice])
            cells += [mib(kept), f"{result.kept(side, choice):.3f}", mib(peak),
                      f"{1e3 * seconds:.0f}", f"{result.over_none(side, choice):.2f}"]
        yield cells


def bars(row, result):
    for choice, (time, kept) in BARS.items():
        for what, bar, measured in (("time", time, result.over_none("ikebana", choice)),
                                    ("bytes kept", kept, result.kept("ikebana", choice))):
            yield [row.name, row.precision.upper(), f"`{CHOICES[choice]}`", what, f"{bar:.2f}",
                   f"{measured:.3f}", "yes" if measured <= bar else "NO"]


def show(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, help="the folder of checkpoint_ikebana")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", default="", help="models whose name and precision hold this")
    return parser.parse_args()


def main():
    args, held = parse(), []
    print(environment(args.programs.parent / "step" / "step_hand") + "\n")
    show(["model", "precision", "choice"] + [
        f"{what}{'' if side == 'ikebana' else ', Python'}" for side in SIDES
        for what in ("kept MiB", "of none", "peak MiB", "ms", "over none")])
    print("|---|---|---|" + "---:|" * 10)
    for row in (dataclasses.replace(m, precision=p) for m in MODELS for p in ("fp32", "bf16")):
        if args.only not in f"{row.name} {row.precision}":
            continue
        result = measure(row, args.rounds, args.programs)
        for cells in lines(row, result):
            show(cells)
        if row.layers == MODELS[0].layers:
            held += bars(row, result)
    print()
    for cells in [["model", "precision", "choice", "of none", "at most", "measured", "holds"],
                  ["---"] * 7, *held]:
        show(cells)


if __name__ == "__main__":
    main()
