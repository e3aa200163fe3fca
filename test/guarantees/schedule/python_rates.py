"""Prints python_rates.hpp of its folder: what schedules of PyTorch give, at some of 80 steps.

python_rates.py > python_rates.hpp, with a Python that has the torch of the library's version.
"""

import textwrap
import warnings

import torch
from torch.optim import lr_scheduler as lr

STEPS = (0, 1, 2, 3, 5, 8, 12, 13, 20, 21, 34, 40, 41, 55, 79)
ALL = {
    "exponential": lambda o: lr.ExponentialLR(o, 0.97),
    "multi_step": lambda o: lr.MultiStepLR(o, [3, 20, 20, 41], 0.5),
    "polynomial": lambda o: lr.PolynomialLR(o, 50, 1.7),
    "restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 7, 2, 1e-3),
    "equal_restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 9),
    "one_cycle": lambda o: lr.OneCycleLR(o, 0.4, total_steps=80),
    "epochs": lambda o: lr.OneCycleLR(o, 0.4, epochs=8, steps_per_epoch=10, pct_start=0.0),
    "rising": lambda o: lr.OneCycleLR(o, 0.4, 80, pct_start=1.0, cycle_momentum=False),
    "three_phases": lambda o: lr.OneCycleLR(
        o, 0.4, 80, None, None, 0.35, "linear", True, 0.7, 0.9, 10, 100, True
    ),
    "triangular": lambda o: lr.CyclicLR(o, 0.01, 0.3, 6, 9),
    "triangular2": lambda o: lr.CyclicLR(o, 0.01, 0.3, 8, mode="triangular2", base_momentum=0.5),
    "exp_range": lambda o: lr.CyclicLR(o, 0.01, 0.3, 5, 7, "exp_range", 0.98),
    "sawtooth": lambda o: lr.CyclicLR(o, 0.01, 0.3, 4, 0, cycle_momentum=False),
    "by_cycle": lambda o: lr.CyclicLR(o, 0.01, 0.3, 4, scale_fn=lambda x: 1 / x),
    "by_step": lambda o: lr.CyclicLR(
        o, 0.01, 0.3, 4, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations"
    ),
    "sequential": lambda o: lr.SequentialLR(
        o,
        [lr.LinearLR(o, 0.2, 1, 8), lr.CosineAnnealingLR(o, 20, 1e-3), lr.ExponentialLR(o, 0.95)],
        [12, 40],
    ),
    "restarted": lambda o: lr.SequentialLR(
        o,
        [
            lr.MultiStepLR(o, [0, 2, 5], 0.5),
            lr.CosineAnnealingWarmRestarts(o, 6),
            lr.PolynomialLR(o, 30, 2),
        ],
        [13, 34],
    ),
    "chained": lambda o: lr.ChainedScheduler(
        [
            *(lr.ConstantLR(o, 0.5, 5), lr.ExponentialLR(o, 0.97)),
            *(lr.MultiStepLR(o, [10, 30], 0.5), lr.StepLR(o, 25, 0.3), lr.PolynomialLR(o, 100)),
        ]
    ),
    "chained_cosine": lambda o: lr.ChainedScheduler(
        [lr.LinearLR(o, 0.2, 1, 10), lr.CosineAnnealingLR(o, 100)]
    ),
}


def values_of(make):
    """The learning rates at STEPS, and the momenta unless all are the optimizer's."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    schedule, rates, momenta = make(optimizer), [], []
    for step in range(STEPS[-1] + 1):
        if step > 0:
            optimizer.step()
            schedule.step()
        if step in STEPS:
            rates.append(optimizer.param_groups[0]["lr"])
            momenta.append(optimizer.param_groups[0]["momentum"])
    return rates, momenta if set(momenta) != {0.9} else []


def listed(values):
    return "{" + ", ".join(map(repr, values)) + "}"


def main():
    warnings.simplefilter("ignore")
    version = torch.__version__.split("+")[0]
    print(f"""#pragma once
// What python_rates.py prints, with torch {version}: the rates and momenta that PyTorch's
// schedules give an SGD with lr 0.1 and momentum 0.9 at these steps. No momenta: 0.9.
#include <vector>

namespace guarantees::python {{

inline const std::vector<int> steps = {listed(STEPS)};
struct Values {{
  std::vector<double> rates, momenta;
}};""")
    for name, make in ALL.items():
        rates, momenta = values_of(make)
        text = f"inline const Values {name} = {{{listed(rates)}, {listed(momenta)}}};"
        print("\n".join(textwrap.wrap(text, 96, subsequent_indent="    ")))
    print("\n}  // namespace guarantees::python")


main()
