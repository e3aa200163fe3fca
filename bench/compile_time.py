#!/usr/bin/env python3
"""Measures what one compilation of a user's file costs, in times of <torch/torch.h> alone: one
file, no precompiled header, in both forms of the library. Prints processor seconds and their
ratios, the compiler's memory, and the text of the object, and marks what exceeds its limit.

    compile_time.py FLAGS ROOT [--compilers C...] [--levels 2 0] [--rounds 3] [--program P]...
                    [--add=OPTION]...

FLAGS is a file of options. The programs are compiled in turn, so that a slow minute meets all of
them, and the least of the rounds counts.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TORCH = "#include <torch/torch.h>\n"
UMBRELLA = TORCH + "#include <ikebana.hpp>\n"
BY_HAND = TORCH + """
int main() {
  torch::nn::Linear model(4, 1);
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  at::Tensor loss = at::mse_loss(model->forward(at::ones({2, 4})), at::ones({2, 1}));
  loss.backward();
  optimizer.step();
  return loss.item<float>() < 0;
}
"""
FEW_HEADERS = """#include <torch/nn/modules/linear.h>
#include <ikebana/objective/mse.hpp>
#include <ikebana/optimizer/adamw.hpp>
#include <ikebana/trainer.hpp>
"""
PROGRAMS = ("torch", "umbrella", "by_hand", "smallest", "few", "first", "rich", "fsdp")
# The bounds of the ratio to `torch`, by g++ -O2: header-only, compiled.
LIMITS = {"umbrella": (1.35, 1.2), "smallest": (2.0, 1.65), "first": (2.5, 1.85),
          "rich": (2.9, 2.1), "fsdp": (3.5, 2.6)}
TEXT = {"smallest": (370, 200)}  # kB
FORMS = {"headers": (), "compiled": ("-DIKEBANA_COMPILED",)}


def body(file):
    """Returns a program without its includes."""
    return re.sub("#include .*\n", "", file.read_text())


def programs(root):
    """Returns the text of each, by name. The tests have the rich recipe and the smallest one."""
    smallest = body(root / "test/build/weight/smallest.cpp")
    rich = UMBRELLA + body(root / "test/build/few_headers.cpp")
    last = "CosineAnnealingLR{.T_max = 10}"
    if last not in rich:
        sys.exit(f"compile_time: test/build/few_headers.cpp has no {last}")
    fsdp = "#include <ikebana/shard.hpp>\n" + rich.replace(last, last + ", Shard<FSDP>{}")
    return dict(zip(PROGRAMS, (TORCH, UMBRELLA, BY_HAND, UMBRELLA + smallest,
                               FEW_HEADERS + smallest, (root / "examples/first.cpp").read_text(),
                               rich, fsdp)))


def compile_once(command):
    """Processor seconds, and GiB of the largest process."""
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status, used = os.wait4(child, 0)
    if status:
        sys.exit(f"compile_time: {' '.join(command)} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def text_of(file):
    """kB of code, as `size` counts it."""
    line = subprocess.run(["size", file], capture_output=True, text=True, check=True).stdout
    return int(line.splitlines()[1].split()[0]) / 1000


def cells(names):
    """Each program in each form that it has; without the library there is one."""
    for name in names:
        for form in FORMS if name not in ("torch", "by_hand") else ("headers",):
            yield name, form


def measure(compiler, level, options):
    """Returns {(program, form): (seconds, GiB, kB of text)}."""
    seconds, memory, text = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name, program in programs(options.root).items():
            pathlib.Path(folder, f"{name}.cpp").write_text(program)
        for _ in range(options.rounds):
            for cell in cells(options.program or PROGRAMS):
                out = f"{folder}/out.o"
                used = compile_once([compiler, f"@{options.flags}", f"-O{level}", *options.add,
                                     *FORMS[cell[1]], "-c", f"{folder}/{cell[0]}.cpp", "-o", out])
                seconds[cell] = min(seconds.get(cell, used[0]), used[0])
                memory[cell], text[cell] = used[1], text_of(out)
    return {cell: (seconds[cell], memory[cell], text[cell]) for cell in seconds}


def show(compiler, level, found):
    print(f"\n{compiler} -O{level}\n{'program':10} {'form':9} {'over torch.h':>12} {'limit':>6} "
          f"{'s':>6} {'GiB':>5} {'text kB':>8} {'limit':>6}")
    torch = found["torch", "headers"][0]
    for (name, form), (seconds, memory, text) in found.items():
        which = list(FORMS).index(form)
        bars = compiler == "g++" and level == "2"
        limit = LIMITS[name][which] if bars and name in LIMITS else None
        most = TEXT[name][which] if bars and name in TEXT else None
        ratio = seconds / torch
        over = (limit and ratio > limit) or (most and text > most)
        print(f"{name:10} {form:9} {ratio:12.2f} {limit or '':>6} {seconds:6.1f} {memory:5.2f} "
              f"{text:8.1f} {most or '':>6}{'  exceeded' if over else ''}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("flags")
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--compilers", nargs="+", default=["g++"])
    parser.add_argument("--levels", nargs="+", default=["2"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", action="append", choices=PROGRAMS,
                        help="these alone; torch is always measured")
    parser.add_argument("--add", action="append", default=[],
                        help="one more option of the compiler, such as -fno-devirtualize")
    options = parser.parse_args()
    if options.program:
        options.program = ["torch", *(p for p in options.program if p != "torch")]
    for compiler in options.compilers:
        for level in options.levels:
            show(compiler, level, measure(compiler, level, options))


if __name__ == "__main__":
    main()
