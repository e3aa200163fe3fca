"""A policy that is absent costs nothing: ikebana's step against a loop by hand, same operators.

Each case runs both as separate programs on the same weights and batches, and compares the order of
operators, the loss to the last digit, the allocations on the heap, and the instructions of eight
steps, counted by callgrind with a heap of constant cost.
Usage: free.py PROGRAMS HEAP [CASE]...
"""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

BENCH = Path(__file__).resolve().parents[2] / "bench" / "step"
sys.path.append(str(BENCH))
import contestants  # noqa: E402
from rows import Row  # noqa: E402
from step import command  # noqa: E402

SMALL, LARGE = dict(model="mlp", width=16, rows=32), dict(model="mlp", width=256, rows=16)
GPT = dict(model="gpt", width=64, rows=4, layers=2, heads=2, context=16)
ALL_WORDS = dict(precision="bf16", checkpoint="full", accumulate=4, clip=1)


class Case(NamedTuple):
    row: Row
    opponent: str  # the loop by hand
    bound: float  # on additional instructions, relative
    same_operators: bool


# A step itself takes some 6,000 instructions, 50 per node of the graph and 250 per parameter, so
# the smallest model has a bound of its own. 450 of them copy the state of the CPU's generator,
# which a step that throws puts back. Checkpointing by hand calls other operators, so in that case
# only the loss and the instructions are compared.
CASES = {
    "mlp16": Case(Row("MLP 3x16", steps=1, clip=0, **SMALL), "same", 0.01, True),
    "mlp256": Case(Row("MLP 3x256", steps=1, clip=1, **LARGE), "same", 0.002, True),
    "gpt": Case(Row("GPT 2x64", steps=1, clip=0, **GPT), "same", 0.002, True),
    "gpt_all_words": Case(Row("GPT 2x64", steps=1, **GPT | ALL_WORDS), "expert", 0.02, False),
}


class Figures(NamedTuple):
    """The figures of a case in one of the programs."""
    loss: str
    allocations: int
    operators: list
    instructions: int


class Program:
    """It runs a row per case, one after the other: under valgrind LibTorch takes 6 s to start."""

    def __init__(self, rows, folder, programs, heap):
        """`rows` has the contestant, the row and the folder of its data, for each case."""
        words, self.count = [], len(rows)
        for row in rows:
            program, *options = (str(word) for word in command(*row, programs))
            words += ["next", *options] if words else [program, *options]
        self.command, self.out = words, folder / Path(words[0]).name
        self.environment = os.environ | {"OMP_NUM_THREADS": "1", "LD_PRELOAD": str(heap),
                                         "MKL_ENABLE_INSTRUCTIONS": "AVX"}

    def ask(self, of_each_row, before="", prefix=()):
        """The program's answers, a list of lines for each row."""
        text = before + "next 1\n".join(self.count * [of_each_row])
        done = subprocess.run([*prefix, *self.command], input=text, text=True, capture_output=True,
                              env=self.environment)
        lines, each = done.stdout.splitlines(), of_each_row.count("\n")
        if done.returncode or len(lines) != each * self.count:
            sys.exit(f"free: {self.command[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
        return [lines[i:i + each] for i in range(0, len(lines), each)]

    def instructions(self):
        """Counts the instructions of eight steps of each row, after two that warm up memory and
        caches. From the third step on all have the same count up to some 100 instructions. Eight
        also contain what a step does every second, fourth or eighth time. MKL must not use fused
        multiply-adds, which valgrind computes in software and which took half of its time; on
        processors that are not Intel's, MKL may ignore the setting."""
        self.ask("run 2\nrun 8\n", "count 1\n", [
            "valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no",
            "--toggle-collect=timed_steps", "--dump-after=timed_steps",
            f"--callgrind-out-file={self.out}"])
        texts = [Path(f"{self.out}.{2 * i + 2}").read_text() for i in range(self.count)]
        return [int(re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE).group(1))
                for text in texts]

    def figures(self):
        """For each row the loss and the allocations of ten steps after ten, and the operators of
        the next step."""
        answers = self.ask("run 10\nrun 10\noperators 1\n")
        for (_, ten, names), count in zip(answers, self.instructions()):
            _, loss, allocations = ten.split()
            yield Figures(loss, int(allocations), names.split(","), count)


def first_difference(mine, other):
    differ = (i for i, (a, b) in enumerate(zip(mine, other)) if a != b)
    at = next(differ, min(len(mine), len(other)))
    return f"operator {at}: {mine[at:at + 3]} against {other[at:at + 3]}"


def compare(case, mine, hand):
    """Yields a message for each difference that is not allowed."""
    if case.same_operators:
        if mine.operators != hand.operators:
            yield first_difference(mine.operators, hand.operators)
        if mine.loss != hand.loss:
            yield f"the losses differ: {mine.loss} against {hand.loss}"
        if mine.allocations > hand.allocations:
            yield f"{mine.allocations} allocations against {hand.allocations}"
    elif abs(float(mine.loss) / float(hand.loss) - 1) > 1e-2:
        yield f"the losses differ: {mine.loss} against {hand.loss}"
    share = mine.instructions / hand.instructions - 1
    if share > case.bound:
        yield f"{100 * share:.3f}% more instructions, and {100 * case.bound}% are allowed"


def show(name, mine, hand):
    share = mine.instructions / hand.instructions - 1
    print(f"{name}: loss {mine.loss} against {hand.loss}, "
          f"allocations {mine.allocations} against {hand.allocations}, "
          f"operators {len(mine.operators)} against {len(hand.operators)}, instructions of "
          f"eight steps {mine.instructions} against {hand.instructions}, {100 * share:+.3f}%")


def figures_of_both(cases, folder, programs, heap):
    """Returns for each case the figures of ikebana and of its opponent. Both programs run at
    once."""
    data = []
    for name, case in cases.items():
        data.append(folder / name)
        data[-1].mkdir()
        contestants.write_data(contestants.parse(case.row.options(data[-1])))
    mine = [("ikebana", case.row, at) for case, at in zip(cases.values(), data)]
    hand = [(case.opponent, case.row, at) for case, at in zip(cases.values(), data)]
    with ThreadPoolExecutor() as pool:
        both = [Program(rows, folder, programs, heap) for rows in (mine, hand)]
        return zip(*pool.map(lambda program: list(program.figures()), both))


def main(programs, heap, *names):
    cases = {name: CASES[name] for name in names or CASES}
    with tempfile.TemporaryDirectory() as folder:
        figures = figures_of_both(cases, Path(folder), Path(programs), Path(heap))
    wrong = []
    for (name, case), (mine, hand) in zip(cases.items(), figures, strict=True):
        show(name, mine, hand)
        wrong += [f"free: {name}: {sentence}" for sentence in compare(case, mine, hand)]
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
