"""The table of docs/reproducibility.md: whether trainings have the same bits in another process,
with other threads and with other kernels of LibTorch and of the libraries that it calls.

Usage: same_bits.py PROGRAM: test_docs. Prints the table. Fails if a work has other bits that
must not: in a second run, and what depends on neither threads nor kernels.
"""

import os
import pathlib
import subprocess
import sys

program = pathlib.Path(sys.argv[1]).resolve()
BASE = {"OMP_NUM_THREADS": "2"}
INTEGERS = {"loader", "uniform"}
DRAWN = INTEGERS | {"normal"}
# Lists changes of the environment, and which works must have the same bits nevertheless.
RUNS = {
    "a second run": ({}, "all"),
    "OMP_NUM_THREADS=1": ({"OMP_NUM_THREADS": "1"}, DRAWN),
    "MKL_CBWR=AUTO": ({"MKL_CBWR": "AUTO"}, DRAWN | {"sum"}),
    "MKL_CBWR=COMPATIBLE": ({"MKL_CBWR": "COMPATIBLE"}, DRAWN | {"sum"}),
    "ATEN_CPU_CAPABILITY=avx2": ({"ATEN_CPU_CAPABILITY": "avx2"}, INTEGERS),
    "ATEN_CPU_CAPABILITY=default": ({"ATEN_CPU_CAPABILITY": "default"}, INTEGERS),
    "ONEDNN_MAX_CPU_ISA=AVX2": ({"ONEDNN_MAX_CPU_ISA": "AVX2"}, DRAWN | {"sum"}),
    "ONEDNN_MAX_CPU_ISA=SSE41": ({"ONEDNN_MAX_CPU_ISA": "SSE41"}, DRAWN | {"sum"}),
}
CASE = "docs/reproducibility.md: the bits of works*"


def bits(change):
    """Returns the number of each work's bits."""
    environment = {**os.environ, **BASE, **change, "IKEBANA_BITS": "1"}
    words = [program, "-tc=" + CASE]
    output = subprocess.run(words, check=True, env=environment, capture_output=True, text=True)
    works = {}
    for line in output.stdout.splitlines():
        if line.startswith("bits "):
            work, number = line.removeprefix("bits ").rsplit(" ", 1)
            works[work] = number
    return works


first, wrong = bits({}), []
assert len(first) == 7, first
print("| changed | " + " | ".join(first) + " |\n|---|" + "---|" * len(first))
for name, (change, must) in RUNS.items():
    works = bits(change)
    same = {work for work in first if works[work] == first[work]}
    print(f"| {name} | " + " | ".join("same" if w in same else "differs" for w in first) + " |")
    wrong += [f"{name}: {w}" for w in (first if must == "all" else must) if w not in same]
print("\n".join(wrong))
sys.exit(1 if wrong else 0)
