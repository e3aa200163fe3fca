"""The benchmark `program`: a model that Python has exported beside the same model written in C++,
and beside eager Python, in turn, as step.py does.

Usage: program.py PROGRAM [--only WORD] [--rounds N] [--launches N]; PROGRAM is program_worker.
Writes Markdown. Exits 1 if the losses of the contestants differ; a bar that does not hold is only
printed.
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
STEP = HERE.parent / "step"
sys.path.append(str(STEP))
import step  # noqa: E402
from rows import Row  # noqa: E402

ROWS = [
    Row("MLP 3x16", "mlp", 16, 32, steps=100, rounds=25, launches=4, clip=0),
    Row("GPT 4x128", "gpt", 128, 12, steps=4, rounds=10, layers=4, heads=4, context=64, clip=0),
    Row("ResNet-18 of width 16", "resnet", 16, 32, steps=2, rounds=15, context=32, symbols=10,
        clip=0),
]
NAMES = ["program", "model", "python"]
MOST_TIME = {"MLP 3x16": 1.15, "GPT 4x128": 1.02, "ResNet-18 of width 16": 1.02}
MOST_MEMORY, LEAST_OF_PYTHON = 1.01, 1.0
BOUND = {"resnet": 5e-2}  # the bound of a loss: a rounding that turns a ReLU on or off grows


def command(name, row, folder, worker, *more):
    words = [*row.options(folder), "--contestant", name, *more]
    if name == "python":
        return [sys.executable, str(STEP / "contestants.py"), *words]
    return [str(worker), *words]


@contextlib.contextmanager
def data_of(row):
    """Makes the weights and batches of all contestants, and the exported model."""
    with tempfile.TemporaryDirectory() as folder:
        for script, name in ((STEP / "contestants.py", "data"), (HERE / "export.py", "export")):
            subprocess.run([sys.executable, script, *row.options(folder), "--contestant", name],
                           check=True)
        yield folder


def measure(row, result, worker, rounds):
    """Makes one launch of every contestant, in each round in another order."""
    with data_of(row) as folder, contextlib.ExitStack() as stack:
        running = {}
        for name in NAMES:
            running[name] = step.Contestant(command(name, row, folder, worker))
            stack.callback(running[name].close)
            running[name].run(max(2, row.steps))  # warm-up
        draw = random.Random(0)
        for _ in range(rounds or row.rounds):
            for name in draw.sample(NAMES, len(NAMES)):
                running[name].run(max(1, row.steps // 4))  # warms up its caches
                seconds, loss = running[name].run(row.steps)
                result.seconds.setdefault(name, []).append(seconds)
                result.losses[name] = loss


def peaks(row, worker):
    """Returns the most bytes that a step adds to the bytes before it."""
    found = {}
    with data_of(row) as folder:
        for name in ("program", "model"):
            commands = f"run {max(3, row.steps)}\nbytes 1\n"
            said = subprocess.run(command(name, row, folder, worker, "--counter", "1"), text=True,
                                  input=commands, stdout=subprocess.PIPE, check=True).stdout
            found[name] = int(said.splitlines()[-1].split()[1])
    return found


def check_losses(result):
    first = result.losses["program"]
    bound = BOUND.get(result.row.model, 1e-3)
    for name, loss in result.losses.items():
        if not abs(loss - first) <= bound * max(abs(first), 1e-2):
            sys.exit(f"program: {result.row.name}: after the same steps the loss of {name} is "
                     f"{loss}, that of program {first}")


def bars(row, result, bytes_of):
    """Rows of the second table: what is compared, its bar, the figure, whether the bar holds."""
    over_model = statistics.median(
        a / b for a, b in zip(result.seconds["program"], result.seconds["model"]))
    memory = bytes_of["program"] / bytes_of["model"]
    python = result.ratio("python", "program")
    most = MOST_TIME[row.name]
    for what, limit, figure, holds in (
            ("time over the C++ model's", f"at most {most}", over_model, over_model <= most),
            ("Python's time over it", f"at least {LEAST_OF_PYTHON}", python,
             python >= LEAST_OF_PYTHON),
            ("peak memory over the C++ model's", f"at most {MOST_MEMORY}", memory,
             memory <= MOST_MEMORY)):
        yield [row.name, what, limit, f"{figure:.3f}", "yes" if holds else "NO"]


def line(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worker", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--launches", type=int)
    given = parser.parse_args()
    print(step.environment(given.worker.resolve()) + "\n")
    line(["work", *(f"{name} ms" for name in NAMES), "peak MiB", "last loss",
          "largest difference"])
    line(["---"] * 7)
    second = []
    for row in (r for r in ROWS if given.only in r.name):
        row = dataclasses.replace(row, launches=given.launches or row.launches)
        result = step.Result(row)
        for _ in range(row.launches):
            measure(row, result, given.worker.resolve(), given.rounds)
        check_losses(result)
        bytes_of = peaks(row, given.worker.resolve())
        loss = result.losses["program"]
        spread = max(abs(other - loss) for other in result.losses.values())
        line([row.name, *(f"{1e3 * result.time(name):.3f}" for name in NAMES),
              f"{bytes_of['program'] / 2**20:.2f}", f"{loss:.6f}", f"{spread:.1e}"])
        second += bars(row, result, bytes_of)
    print()
    line(["row", "what", "bar", "measured", "holds"])
    line(["---"] * 5)
    for cells in second:
        line(cells)


if __name__ == "__main__":
    main()
