"""Runs a program that trains on any number of ranks in each way that starts ranks, and compares the
losses that it prints with the losses of one rank.

Usage: ways.py PROGRAM, by a Python that has torch; or ways.py self.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

VARIABLE = re.compile(r"RANK$|WORLD_SIZE$|^(?:MASTER|TORCHELASTIC|IKEBANA_L|OMPI|PMI|SLURM)_")
LEAST = 20  # losses that a program prints


def environment(**more):
    """This process's, as one that no other program started as a rank."""
    kept = {name: value for name, value in os.environ.items() if not VARIABLE.search(name)}
    return {**kept, "OMP_NUM_THREADS": "1", **more}


def torchrun(ranks):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python",
            "--nproc-per-node", str(ranks)]


def ways(program):
    """Yields the name of each way, how many ranks it starts, its command and its environment."""
    yield "one rank", 1, [program], environment(RANK="0", WORLD_SIZE="1")
    yield "launch", 2, [program], environment()
    yield "torchrun", 2, [*torchrun(2), program], environment()
    yield "torchrun, 3", 3, [*torchrun(3), program], environment()


def losses(output, ranks):
    """The losses that rank 0 printed, after a line that says how many ranks there are. Fails if
    another rank printed as well."""
    heads = re.findall(r"^world size (\d+)$", output, re.M)
    if heads != [str(ranks)]:
        sys.exit(f"it ran with a world size of {heads}, and should with {ranks}:\n{output}")
    return [float(number) for number in re.findall(r"(?:loss|->) +(\S+)", output)]


def differences(first, other):
    """Returns lines on what is not the same: numbers that differ by more than 1e-4 of the first."""
    if len(first) < LEAST or len(first) != len(other):
        return [f"{len(first)} and {len(other)} losses, and there should be at least {LEAST}"]
    pairs = enumerate(zip(first, other))
    return [f"loss {i}: {a} and {b}" for i, (a, b) in pairs if not abs(a - b) <= 1e-4 * abs(a)]


def self_test():
    text = "world size 2\n" + "".join(f"step {i}  loss {5 - i / 10}\n" for i in range(LEAST + 1))
    good = losses(text, 2)
    assert not differences(good, good) and len(good) == LEAST + 1
    assert differences(good, [*good[:7], good[7] * 1.0002, *good[8:]])[0].startswith("loss 7: ")
    assert differences(good, [*good[:-1], float("nan")]) and differences(good, good[1:])
    assert differences([], [])


def main():
    if sys.argv[1] == "self":
        return self_test()
    program = pathlib.Path(sys.argv[1]).resolve()
    first = None
    for name, ranks, command, variables in ways(program):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, env=variables, cwd=folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode != 0:
            sys.exit(f"{name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        found = losses(done.stdout, ranks)
        first = first or found
        if wrong := differences(first, found):
            sys.exit(f"{name} differs from one rank:\n" + "\n".join(wrong))
        print(f"{name}: {len(found)} losses, from {found[0]} to {found[-1]}")


main()
