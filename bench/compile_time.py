#!/usr/bin/env python3
"""What the library adds to the compilation of a user's program: g++ -O2, one file, no precompiled
header. Prints processor seconds and the compiler's memory, each with its limit.

    compile_time.py COMPILER FLAGS [RUNS]    FLAGS is a file of options; the minimum of RUNS counts
"""

import os
import pathlib
import sys
import tempfile

TORCH = "#include <torch/torch.h>\n"
UMBRELLA = TORCH + "#include <ikebana.hpp>\n"
MORE = ("ClipGradNorm", "Accumulate<4>", "Precision<BF16>", "CosineAnnealingLR", "EMA",
        "Observe<Memory>")
ALL = (*MORE, "Checkpoint<Full>")
RECIPE = """
using namespace ikebana;
int main() {
  torch::nn::Sequential model(torch::nn::Linear(2, 32), torch::nn::Linear(32, 2));
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}%s};
  at::Tensor input = at::randn({64, 2}), target = at::randint(2, {64}, at::kLong);
  return trainer.step(std::pair{input, target}).loss() < 0;
}
"""
BY_HAND = TORCH + """
int main() {
  torch::nn::Sequential model(torch::nn::Linear(2, 32), torch::nn::Linear(32, 2));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  at::Tensor input = at::randn({64, 2}), target = at::randint(2, {64}, at::kLong);
  at::Tensor loss = at::cross_entropy_loss(model->forward(input), target);
  loss.backward();
  optimizer.step();
  return loss.item<float>() < 0;
}
"""
VALUES = {"CosineAnnealingLR": "CosineAnnealingLR{.T_max = 10}"}


def recipe(policies):
    return UMBRELLA + RECIPE % "".join(f", {VALUES.get(p, p + '{}')}" for p in policies)


PROGRAMS = {"torch": TORCH, "by_hand": BY_HAND, "umbrella": UMBRELLA, "first": recipe(()),
            "more": recipe(MORE), "all": recipe(ALL)}


def compile_once(command):
    """Processor seconds, and GiB of the largest process."""
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status, used = os.wait4(child, 0)
    if status:
        sys.exit(f"compile_time: {' '.join(command)} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def measure(compiler, flags, runs):
    """The least of each program; in rounds, so that a slow minute meets all programs."""
    found = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in PROGRAMS.items():
            pathlib.Path(folder, f"{name}.cpp").write_text(text)
        for _ in range(runs):
            for name, values in found.items():
                command = [compiler, f"@{flags}", "-O2", "-c", f"{folder}/{name}.cpp"]
                values.append(compile_once([*command, "-o", f"{folder}/out.o"]))
    return {name: tuple(map(min, zip(*values))) for name, values in found.items()}


def main(compiler, flags, runs="3"):
    found = measure(compiler, flags, int(runs))
    seconds = {name: value[0] for name, value in found.items()}
    rows = [
        ("torch/torch.h alone", seconds["torch"], None, "s"),
        ("a step by hand, above that", seconds["by_hand"] - seconds["torch"], None, "s"),
        ("ikebana.hpp, above torch.h", seconds["umbrella"] - seconds["torch"], 5, "s"),
        ("a first recipe, above that", seconds["first"] - seconds["umbrella"], 8, "s"),
        (f"each of {len(MORE)} policies more",
         (seconds["more"] - seconds["first"]) / len(MORE), 0.5, "s"),
        ("Checkpoint<Full> besides", seconds["all"] - seconds["more"], 0.5, "s"),
        ("memory of the compiler", max(value[1] for value in found.values()), 2, "GiB"),
    ]
    print(f"{'compile time':32} {'value':>8} {'limit':>8}")
    for what, value, limit, unit in rows:
        over = "  exceeded" if limit is not None and value > limit else ""
        print(f"{what:32} {value:8.2f} {limit if limit is not None else '':>8} {unit}{over}")


if __name__ == "__main__":
    main(*sys.argv[1:])
