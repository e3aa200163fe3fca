#!/usr/bin/env python3
"""The grammar, compiled without LibTorch in the include path.

    grammar.py guarantees COMPILER FLAGS    the guarantees compile; no header of LibTorch is
                                            among the includes
    grammar.py time COMPILER FLAGS          three recipes against Boost.Hana alone, in
                                            processor time
"""
import pathlib
import re
import resource
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parents[1] / "include" / "ikebana" / "grammar"
MOST_TIMES = 4  # times the time of boost/hana.hpp alone
ROUNDS = 5
GUARANTEES = "guarantees.cpp", "ranks.cpp", "offload.cpp"


def compile_with(compiler, flags, *arguments):
    done = subprocess.run([compiler, f"@{flags}", *map(str, arguments)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def guarantees(compiler, flags):
    for header in sorted(HEADERS.glob("*.hpp")):
        includes = compile_with(compiler, flags, "-M", "-include", header, "-x", "c++", "/dev/null")
        of_torch = re.findall(r"\S*/(?:ATen|c10|caffe2|torch)/\S+", includes)
        if of_torch:
            sys.exit(f"{header.name} includes LibTorch: {' '.join(of_torch[:3])}")
        print(f"{header.name}: no header of LibTorch among {len(includes.split())} includes")
    for file in GUARANTEES:
        compile_with(compiler, flags, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror",
                     "-fsyntax-only", HERE / file)
    print("all guarantees hold")


def seconds(compiler, flags, program):
    """Processor time, so that other programs on the machine have no influence."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    compile_with(compiler, flags, "-fsyntax-only", HERE / program)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def time(compiler, flags):
    programs = "three_recipes.cpp", "hana_alone.cpp"
    rounds = [[seconds(compiler, flags, p) for p in programs] for _ in range(ROUNDS)]
    ours, hana = map(statistics.median, zip(*rounds))
    print(f"grammar {ours:.2f} s, Boost.Hana {hana:.2f} s: {ours / hana:.2f} times")
    if ours > MOST_TIMES * hana:
        sys.exit(f"the grammar may take at most {MOST_TIMES} times what Boost.Hana takes")


{"guarantees": guarantees, "time": time}[sys.argv[1]](*sys.argv[2:])
