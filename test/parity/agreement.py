"""What a row's file from C++ holds, and how well Python's results agree with it."""

import json

import bounds
import place
import torch
import twin
from safetensors import safe_open
from safetensors.torch import load_file

NUMBERS = ("losses", "rates", "norms", "skips")
WEIGHTS = ("final.", "averaged.")


def part(file, prefix):
    return {name[len(prefix) :]: x for name, x in file.items() if name.startswith(prefix)}


def results_of(file):
    return {n: x for n, x in file.items() if n in NUMBERS or n.startswith(WEIGHTS)}


def batches_of(file):
    """Returns for each step its microbatches, and each microbatch's fields by name: input and
    target, for most."""
    steps = {}
    for name, x in part(file, "batch.").items():
        step, index, field = name.split(".")
        steps.setdefault(int(step), {}).setdefault(int(index), {})[field] = x
    return [
        [tuple(parts[i][name] for name in sorted(parts[i])) for i in sorted(parts)]
        for _, parts in sorted(steps.items())
    ]


def same_bits(mine, theirs):
    """Also compares values that are not finite, and the signs of zeros."""
    alike = mine.shape == theirs.shape and mine.dtype == theirs.dtype
    return alike and torch.equal(*(x.flatten().view(torch.uint8) for x in (mine, theirs)))


def relative(mine, theirs):
    """Returns the largest difference, relative to the largest of `theirs`. It is infinite if one
    is NaN."""
    if torch.equal(mine, theirs):
        return 0.0
    apart = (mine - theirs).abs().max() / theirs.abs().max()
    return apart.item() if apart.isfinite() else float("inf")


class Row:
    """The file of a row, from C++: what Python needs, and the results that it must reach.

    With `loose`, the bounds are for a device, on which hardly any bits must be the same.
    """

    def __init__(self, path, loose=False):
        with safe_open(path, "pt") as file:
            self.meta = file.metadata()
        self.file = load_file(path)
        self.results = results_of(self.file)
        self.bounds = bounds.Bounds(float(self.meta["losses"]), float(self.meta["weights"]))
        if loose:
            self.bounds = bounds.on_device(*self.recipe())

    def recipe(self):
        return json.loads(self.meta["net"]), json.loads(self.meta["recipe"])

    def twin(self, where=place.CPU, rate=1.0):
        """Returns the results of Python, with `rate` times the recipe's learning rates."""
        same = "" if where.double else self.meta["twin"]
        one = twin.Twin(*self.recipe(), part(self.file, "initial."), same, rate, where)
        try:
            return one.train(batches_of(self.file))
        finally:
            one.close()

    def weights_apart(self, theirs, when="final."):
        """Relative to their change by training."""
        mine = {n: x for n, x in part(self.results, when).items() if x.is_floating_point()}
        if not mine:
            return 0.0
        first, mine, other = (
            torch.cat([file[name].double().flatten() for name in mine])
            for file in (part(self.file, "initial."), mine, part(theirs, when))
        )
        return ((mine - other).norm() / (mine - first).norm()).item()

    def apart(self, theirs):
        """Returns the differences of losses and of weights."""
        return relative(self.results["losses"], theirs["losses"]), self.weights_apart(theirs)

    def other_bits(self, theirs):
        """Returns the results that have other bits, except rates: PyTorch's schedules compute
        each rate from the last one and sometimes lose a bit of a double."""
        return [
            n for n, x in self.results.items() if n != "rates" and not same_bits(x, theirs[n])
        ]

    def disagreements(self, theirs):
        """Returns a line for each result in which Python does not agree as the row requires."""
        if odd := theirs.keys() ^ self.results.keys():
            return [f"only one side has {name}" for name in sorted(odd)]
        apart = {"rates": (relative(self.results["rates"], theirs["rates"]), 1e-15)}
        others = self.other_bits(theirs)
        if self.bounds.losses:
            apart |= self.bounded(theirs)
            others = [n for n in others if n not in apart and not self.is_weight(n)]
        lines = [f"{n} are {x:.3g} apart" for n, (x, bound) in apart.items() if not x <= bound]
        return lines + [f"{n} has other bits" for n in others]

    def bounded(self, theirs):
        """Returns for each result with a bound the difference and the bound."""
        losses, weights, first = self.bounds
        mine, other = self.results["losses"], theirs["losses"]
        apart = {n: (relative(self.results[n], theirs[n]), losses) for n in ("losses", "norms")}
        apart["the first losses"] = relative(mine[: bounds.FIRST], other[: bounds.FIRST]), first
        for when in WEIGHTS:
            apart[f"{when[:-1]} weights"] = self.weights_apart(theirs, when), weights
        return apart

    def is_weight(self, name):
        return name.startswith(WEIGHTS) and self.results[name].is_floating_point()
