"""Observers and loggers cost at most these shares of the instructions of a step.

The step is that of a GPT 4x128 on 8 tokens; callgrind counts eight of each with a heap of constant
cost. The row `plain again` shows how far two counts of the same recipe are apart.
Usage: observed.py PROGRAM HEAP
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = 8
BOUNDS = {
    "plain again": 0.001,
    "Observe<Phases>": 0.01,
    "Observe<Throughput>": 0.01,
    "Observe<EachUnit>": 0.03,
    "CSVLogger": 0.01,
    "JSONLinesLogger": 0.01,
    "TensorBoardLogger": 0.01,
}


def counts(program, heap, folder):
    """Returns the instructions of eight steps of each row, by its name."""
    out = folder / "callgrind"
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no",
         "--toggle-collect=timed_steps", "--dump-after=timed_steps",
         f"--callgrind-out-file={out}", program, folder],
        text=True, capture_output=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "LD_PRELOAD": str(heap),
                          "MKL_ENABLE_INSTRUCTIONS": "AVX"})
    if done.returncode:
        sys.exit(f"observed: {program} ended with {done.returncode}: {done.stderr[-2000:]}")
    texts = [Path(f"{out}.{i + 1}").read_text() for i in range(len(done.stdout.splitlines()))]
    return dict(zip(done.stdout.splitlines(), (
        int(re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE).group(1))
        for text in texts), strict=True))


def main(program, heap):
    with tempfile.TemporaryDirectory() as folder:
        found = counts(program, heap, Path(folder))
    plain, wrong = found.pop("plain"), []
    print(f"a plain step: {plain // STEPS} instructions")
    for name, bound in BOUNDS.items():
        more = found.pop(name) - plain
        print(f"{name}: {more // STEPS:+} instructions per step, {100 * more / plain:+.3f}%")
        if more > bound * plain:
            wrong.append(f"observed: {name} takes {100 * more / plain:.3f}% more instructions, and "
                         f"{100 * bound:g}% are allowed")
    wrong += [f"observed: {name} has no bound" for name in found]
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
