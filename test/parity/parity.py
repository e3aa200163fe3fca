"""Trains rows of the suite in C++ and in Python and compares losses and final weights.

Usage: parity.py PROGRAM FOLDER [WORD]... for all rows, or for those whose names begin with a word.
Exits 1 with a line for each difference. To show that a row can fail, a reference with a wrong
learning rate is trained as well; it must not agree.
"""

import json
import multiprocessing
import pathlib
import subprocess
import sys

try:
    import torch
    import torch._dynamo  # which an optimizer's first step loads, and else each row again
    from safetensors import safe_open
    from safetensors.torch import load_file
except ImportError as missing:
    sys.exit(
        f"parity: {sys.executable} has no {missing.name}: run `scripts/setup test`, or let "
        "IKEBANA_ORACLE name a Python that has torch, numpy and safetensors"
    )

import twin

NUMBERS = ("losses", "rates", "norms", "skips")


def part(file, prefix):
    return {name[len(prefix) :]: x for name, x in file.items() if name.startswith(prefix)}


def batches_of(file):
    """For each step its microbatches, each a pair of input and target."""
    steps = {}
    for name, x in part(file, "batch.").items():
        step, index, field = name.split(".")
        steps.setdefault(int(step), {}).setdefault(int(index), {})[field] = x
    return [
        [(parts[i]["input"], parts[i]["target"]) for i in sorted(parts)]
        for _, parts in sorted(steps.items())
    ]


def same_bits(mine, theirs):
    """Also compares values that are not finite, and the signs of zeros."""
    alike = mine.shape == theirs.shape and mine.dtype == theirs.dtype
    return alike and torch.equal(*(x.flatten().view(torch.uint8) for x in (mine, theirs)))


def relative(mine, theirs):
    """The largest difference, relative to the largest of `theirs`; infinite where one is NaN."""
    if torch.equal(mine, theirs):
        return 0.0
    apart = (mine - theirs).abs().max() / theirs.abs().max()
    return apart.item() if apart.isfinite() else float("inf")


class Row:
    """The file of a row, from C++: what Python needs, and the results that it must reach."""

    def __init__(self, path):
        with safe_open(path, "pt") as file:
            self.meta = file.metadata()
        self.file = load_file(path)
        self.bounds = float(self.meta["losses"]), float(self.meta["weights"])
        ends = ("final.", "averaged.")
        self.results = {n: x for n, x in self.file.items() if n in NUMBERS or n.startswith(ends)}

    def twin(self, rate=1.0):
        """The results of Python, with `rate` times the recipe's learning rates."""
        net, words = json.loads(self.meta["net"]), json.loads(self.meta["recipe"])
        weights, same = part(self.file, "initial."), self.meta["twin"]
        return twin.Twin(net, words, weights, same, rate).train(batches_of(self.file))

    def apart(self, theirs):
        """The differences of losses, and of weights relative to their change by training."""
        floats = [n for n, x in self.results.items() if x.is_floating_point()]
        names = [name[6:] for name in floats if name[:6] == "final."]
        first, mine, other = (
            torch.cat([file[f"{when}.{name}"].double().flatten() for name in names])
            for file, when in ((self.file, "initial"), (self.results, "final"), (theirs, "final"))
        )
        weights = (mine - other).norm() / (mine - first).norm()
        return relative(self.results["losses"], theirs["losses"]), weights.item()

    def disagreements(self, theirs):
        """A line for each result in which Python does not agree as the row requires."""
        if odd := theirs.keys() ^ self.results.keys():
            return [f"only one side has {name}" for name in sorted(odd)]
        losses, weights = self.bounds
        # PyTorch's schedules compute each rate from the last and sometimes lose a bit of a double.
        bounds = {"rates": 1e-15} | ({"losses": losses, "norms": losses} if losses else {})
        exact = [n for n in self.results if n not in bounds and not (losses and n[:6] == "final.")]
        apart = {n: relative(self.results[n], theirs[n]) for n in bounds}
        lines = [f"{n} are {x:.3g} apart" for n, x in apart.items() if x > bounds[n]]
        lines += [f"{n} has other bits" for n in exact if not same_bits(self.results[n], theirs[n])]
        far = self.apart(theirs)[1]
        return lines + ([f"weights are {far:.3g} apart"] if losses and not far <= weights else [])


def train(program, folder, words):
    """The C++ side, in one process: LibTorch takes longer to start than most rows take. Returns the
    names of its rows."""
    run = subprocess.run([program, folder, *words], stdout=subprocess.PIPE, text=True)
    if run.returncode:
        sys.exit(f"parity: {program} failed, after it had trained {run.stdout.split()[-1:]}")
    return run.stdout.split()


def check(name, path):
    row = Row(path)
    version = torch.__version__.split("+")[0]
    if version != row.meta["torch"]:
        sys.exit(
            f"parity: the tests link LibTorch {row.meta['torch']}, and {sys.executable} has torch "
            f"{version}: let IKEBANA_ORACLE name a Python with the same"
        )
    theirs = row.twin()
    losses, weights = row.apart(theirs)
    print(f"{name}: losses {losses:.2g} apart, weights {weights:.2g}")
    wrong = row.disagreements(theirs)
    astray = row.twin(rate=1 + max(1e-4, 3 * row.bounds[1])) | {"rates": row.results["rates"]}
    if not row.disagreements(astray):
        wrong.append("a reference with a wrong learning rate agrees as well: nothing is proved")
    sys.exit("\n".join(f"{name}: {line}" for line in wrong) or 0)


def main(program, folder, *words):
    """Each row in a fork of this process, which has loaded torch; a row may patch its classes."""
    copies, failed = multiprocessing.get_context("fork"), []
    names = train(program, folder, words)
    for name in names:
        path = pathlib.Path(folder) / f"{name}.safetensors"
        child = copies.Process(target=check, args=(name, path))
        child.start()
        child.join()
        failed += [name] if child.exitcode else []
    sys.exit(f"parity: of {len(names)} rows failed {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
