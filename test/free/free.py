"""A policy that is absent costs nothing: ikebana's step against a loop by hand, same operators.

Each case runs both as separate programs on the same weights and batches, and compares the order of
operators, the loss to the last digit, the allocations on the heap, and the instructions of ten
steps, counted by callgrind with a heap of constant cost.
Usage: free.py CASE PROGRAMS HEAP
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench" / "step"
sys.path.append(str(BENCH))
from rows import Row  # noqa: E402
from step import command  # noqa: E402

SMALL, LARGE = dict(model="mlp", width=16, rows=32), dict(model="mlp", width=256, rows=16)
GPT = dict(model="gpt", width=64, rows=4, layers=2, heads=2, context=16)
ALL_WORDS = dict(precision="bf16", checkpoint="full", accumulate=4, clip=1)

# Recipe, the loop by hand, the bound on additional instructions (relative), whether the operators
# are the same. A step itself takes some 6,000 instructions and 50 per node of the graph, so the
# smallest model has a bound of its own. Checkpointing by hand calls other operators, so in that
# case only the loss and the instructions are compared.
CASES = {
    "mlp16": (Row("MLP 3x16", steps=1, clip=0, **SMALL), "same", 0.01, True),
    "mlp256": (Row("MLP 3x256", steps=1, clip=1, **LARGE), "same", 0.002, True),
    "gpt": (Row("GPT 2x64", steps=1, clip=0, **GPT), "same", 0.002, True),
    "gpt_all_words": (Row("GPT 2x64", steps=1, **GPT | ALL_WORDS), "expert", 0.02, False),
}


class Program:
    def __init__(self, name, row, folder, programs, heap):
        self.command = [str(word) for word in command(name, row, folder, programs)]
        self.environment = os.environ | {"OMP_NUM_THREADS": "1", "LD_PRELOAD": str(heap),
                                         "MKL_ENABLE_INSTRUCTIONS": "AVX"}
        self.folder, self.name = folder, name

    def ask(self, text, prefix=()):
        done = subprocess.run([*prefix, *self.command], input=text, text=True, capture_output=True,
                              env=self.environment)
        if done.returncode:
            sys.exit(f"free: {self.name} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done

    def ten_steps(self):
        """Their instructions, after five steps that warm up memory and caches. MKL must not use
        fused multiply-adds, which valgrind computes in software and which took half of its time;
        on processors that are not Intel's, MKL may ignore the setting."""
        out = f"{self.folder}/{self.name}"
        self.ask("run 5\ncount 1\nrun 10\n", [
            "valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no",
            "--toggle-collect=timed_steps", "--dump-after=timed_steps",
            f"--callgrind-out-file={out}"])
        return int(re.search(r"^(?:totals|summary): (\d+)", Path(f"{out}.1").read_text(),
                             re.MULTILINE).group(1))

    def run(self):
        """The loss and the allocations of ten steps after ten."""
        _, loss, allocations = self.ask("run 10\nrun 10\n").stdout.splitlines()[-1].split()
        return loss, int(allocations)

    def operators(self):
        """The operators of the third step."""
        return self.ask("run 2\noperators 1\n").stdout.splitlines()[-1].split(",")


def first_difference(mine, other):
    differ = (i for i, (a, b) in enumerate(zip(mine, other)) if a != b)
    at = next(differ, min(len(mine), len(other)))
    return f"operator {at}: {mine[at:at + 3]} against {other[at:at + 3]}"


def compare(mine, hand, bound, same_operators):
    """Yields a message for each difference that is not allowed."""
    (loss, allocations), (hand_loss, hand_allocations) = mine.run(), hand.run()
    print(f"loss {loss} against {hand_loss}, allocations {allocations} against {hand_allocations}")
    if same_operators:
        names, hand_names = mine.operators(), hand.operators()
        print(f"{len(names)} operators against {len(hand_names)}")
        if names != hand_names:
            yield first_difference(names, hand_names)
        if loss != hand_loss:
            yield f"the losses differ: {loss} against {hand_loss}"
        if allocations > hand_allocations:
            yield f"{allocations} allocations against {hand_allocations}"
    elif abs(float(loss) / float(hand_loss) - 1) > 1e-2:
        yield f"the losses differ: {loss} against {hand_loss}"
    count, hand_count = mine.ten_steps(), hand.ten_steps()
    share = count / hand_count - 1
    print(f"instructions of ten steps: {count} against {hand_count}, {100 * share:+.3f}%")
    if share > bound:
        yield f"{100 * share:.3f}% more instructions, and {100 * bound}% are allowed"


def main():
    name, programs, heap = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    row, opponent, bound, same_operators = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, BENCH / "contestants.py", *row.options(folder),
                        "--contestant", "data"], check=True)
        pair = [Program(who, row, folder, programs, heap) for who in ("ikebana", opponent)]
        wrong = list(compare(*pair, bound, same_operators))
    for sentence in wrong:
        print(f"free: {row.name}: {sentence}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
