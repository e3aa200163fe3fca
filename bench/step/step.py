"""The benchmark `step`: ikebana beside hand-written LibTorch and Python PyTorch, in turn.

Every contestant is a process of its own that trains the same model from the same weights on the
same batches and waits while another one runs. A round is a few steps of each; the figures are
medians over rounds of time ratios within a round. Writes Markdown, and csv with --csv FILE.
"""

import argparse
import contextlib
import csv
import dataclasses
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rows import BARS, CONTESTANTS, Row, all_rows

HERE = Path(__file__).resolve().parent
# Each has one thread. By default glibc returns freed memory at the end of the heap to the kernel,
# so by chance one loop faults it in again in every step and another does not.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
               "MALLOC_TRIM_THRESHOLD_": str(2**30), "MALLOC_MMAP_THRESHOLD_": str(2**30)}


class Contestant:
    """A process that runs steps on command, and waits otherwise."""

    def __init__(self, command, **environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=os.environ | ENVIRONMENT | environment)

    def run(self, steps):
        """Returns the seconds per step, and the loss of the last one."""
        self.process.stdin.write(f"run {steps}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) < 2:
            raise RuntimeError(f"a contestant ended: {' '.join(self.process.args)}")
        return float(answer[0]) / steps, float(answer[1])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def command(name, row, folder, programs):
    if name == "whole":
        return command("ikebana", dataclasses.replace(row, checkpoint="none"), folder, programs)
    options = row.options(folder) + ["--contestant", name]
    if name in ("ikebana", "captured"):
        return [programs / f"step_{name}", *options]
    if name in ("expert", "libtorch", "same"):
        return [programs / "step_hand", *options]
    return [sys.executable, HERE / "contestants.py", *options]


@dataclasses.dataclass
class Result:
    row: Row
    seconds: dict = dataclasses.field(default_factory=dict)  # contestant -> a list by round
    losses: dict = dataclasses.field(default_factory=dict)

    def time(self, name):
        return statistics.median(self.seconds[name])

    def ratio(self, name, to="ikebana"):
        """Median over the rounds in which both ran of the time of `name` over that of `to`."""
        pairs = zip(self.seconds[name], self.seconds[to])
        return statistics.median(a / b for a, b in pairs)


def measure(row, result, names, args, programs):
    """Makes one launch of every contestant. They take turns, in each round in a new random order,
    because the state of the caches depends on which program ran before.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        subprocess.run([sys.executable, HERE / "contestants.py", *row.options(folder),
                        "--contestant", "data"], check=True)
        running = {}
        for name in names:
            running[name] = Contestant([str(w) for w in command(name, row, folder, programs)])
            stack.callback(running[name].close)
        for contestant in running.values():
            contestant.run(max(2, row.steps))  # warm-up
        draw = random.Random(0)
        for _ in range(args.rounds or row.rounds):
            for name in draw.sample(names, len(names)):
                if row.steps >= 4:
                    running[name].run(row.steps // 4)  # warms up its caches
                seconds, loss = running[name].run(row.steps)
                result.seconds.setdefault(name, []).append(seconds)
                result.losses[name] = loss


def bars(results):
    """Yields the lines of a table: row, contestant compared with, limit, ratio, and whether it
    holds."""
    for result in results:
        row = result.row
        wanted = [("expert", 1 / 1.02)]
        wanted += [(name, bar) for key, name, bar in BARS
                   if key == (row.name, row.precision, row.checkpoint, row.accumulate)]
        for name, bar in wanted:
            if name in result.seconds and "ikebana" in result.seconds:
                ratio = result.ratio(name)
                yield [f"{row.name}, {row.policies()}", name, f"{bar:.3f}", f"{ratio:.3f}",
                       "yes" if ratio >= bar else "NO"]


def check_losses(result):
    """All contestants must have computed the same: the time of a wrong step means nothing."""
    first = result.losses["ikebana"]
    # A rounding that turns a ReLU of an image on or off grows with each step.
    is_close = result.row.precision == "fp32" and result.row.model != "resnet"
    bound = 1e-3 if is_close else 5e-2
    for name, loss in result.losses.items():
        if not abs(loss - first) <= bound * max(abs(first), 1e-2):
            raise SystemExit(f"step: {result.row.name}, {result.row.policies()}: after the same "
                             f"steps the loss of {name} is {loss}, that of ikebana {first}")


def environment(program):
    """Returns the conditions, including the compiler as `program` reports it."""
    import torch  # slow to load, and needed by no contestant
    name = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    compiler = subprocess.run([program, "--environment", "1"], text=True,
                              stdout=subprocess.PIPE).stdout.strip()
    return (f"{name}, {compiler}, Python "
            f"{platform.python_version()} with torch {torch.__version__}, 1 thread, "
            f"load {os.getloadavg()[0]:.1f}")


HEADER = (["work", "recipe"] + [f"{name} ms" for name in CONTESTANTS] +
          [f"over {name}" for name in CONTESTANTS[1:]] + ["last loss", "largest difference"])


def cells(result):
    measured = result.seconds
    times = [f"{1e3 * result.time(n):.3f}" if n in measured else "-" for n in CONTESTANTS]
    ratios = [f"{result.ratio(n):.3f}" if n in measured else "-" for n in CONTESTANTS[1:]]
    loss = result.losses["ikebana"]
    spread = max(abs(other - loss) for other in result.losses.values())
    return [result.row.name, result.row.policies(), *times, *ratios, f"{loss:.6f}", f"{spread:.1e}"]


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, help="the folder of step_ikebana and step_hand")
    parser.add_argument("--rounds", type=int, help="in each launch; else the row's own number")
    parser.add_argument("--only", default="", help="rows whose name or recipe holds this")
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--csv", type=Path)
    return parser.parse_args()


def main():
    args = parse()
    chosen = [name for name in CONTESTANTS if name in args.contestants.split(",")]
    rows = [r for r in all_rows() if args.only in f"{r.name}, {r.policies()}"]
    print(environment(args.programs / "step_hand") + "\n")
    print("| " + " | ".join(HEADER) + " |\n|" + "---|" * len(HEADER), flush=True)
    table, results = [], []
    for row in rows:
        result = Result(row)
        names = [n for n in row.contestants() if n in chosen]
        for _ in range(row.launches):
            measure(row, result, names, args, args.programs)
            names = [n for n in names if n != "compile"]  # launched once: it starts slowly
        check_losses(result)
        results.append(result)
        table.append(cells(result))
        print("| " + " | ".join(table[-1]) + " |", flush=True)
    print("\n| row | time of | over ikebana's, at least | measured | holds |\n" + "|---" * 5 + "|")
    for line in bars(results):
        print("| " + " | ".join(line) + " |")
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *table])


if __name__ == "__main__":
    main()
