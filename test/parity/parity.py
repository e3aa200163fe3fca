"""Trains rows of the suite in C++ and in Python and compares losses and final weights.

Usage: parity.py PROGRAM FOLDER [--device D] [--reference R] [WORD]... for all rows, or for rows
whose names begin with a word. Exits 1 with a line for each difference. To show that a row can
fail, a training in Python with a wrong learning rate is compared as well; it must not agree.
"""

import argparse
import functools
import multiprocessing
import os
import pathlib
import sys

try:
    import torch
    import torch._dynamo  # which an optimizer's first step loads
    from safetensors import safe_open
except ImportError as missing:
    sys.exit(
        f"parity: {sys.executable} has no {missing.name}: run `scripts/setup test`, or let "
        "IKEBANA_ORACLE name a Python that has torch, numpy and safetensors"
    )

import agreement
import place
import program as cpp
import reference
import workers


def arguments(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--reference", type=pathlib.Path, help="a folder of reference.py")
    parser.add_argument("--jobs", type=int, help="processes of Python")
    parser.add_argument("--loose", action="store_true", help="a device's bounds, on the CPU too")
    given = parser.parse_intermixed_args(words)
    given.jobs = given.jobs or (1 if given.device == "cpu" else min(8, os.cpu_count()))
    given.loose |= given.device != "cpu"
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.reference and not any(given.reference.glob("*.safetensors")):
        parser.error(f"{given.reference} holds no reference; reference.py makes them")
    return given


def check(given, name):
    """A line about the row, and a list of what is wrong with it."""
    where, path = place.Place(given.device), given.folder / f"{name}.safetensors"
    where.prepare()
    row = agreement.Row(path, given.loose)
    theirs = row.twin(where)
    wrong = row.disagreements(theirs)
    astray = row.twin(where, row.bounds.rate()) | {"rates": row.results["rates"]}
    if not row.disagreements(astray):
        wrong.append("a reference with a wrong learning rate agrees as well: nothing is proved")
    losses, weights = row.apart(theirs)
    bits = "other bits" if row.other_bits(theirs) else "same bits"
    line = f"{bits}, losses {losses:.2g} apart, weights {weights:.2g}"
    if given.reference and (given.reference / path.name).exists():
        more, from_exact = reference.check(path, given.reference / path.name)
        line, wrong = f"{line}; {more}", wrong + from_exact
    return line, wrong


def check_version(path):
    with safe_open(path, "pt") as file:
        linked = file.metadata()["torch"]
    version = torch.__version__.split("+")[0]
    if version != linked:
        sys.exit(
            f"parity: the tests link LibTorch {linked}, and {sys.executable} has torch "
            f"{version}: let IKEBANA_ORACLE name a Python with the same"
        )


def lacks_fp8(device):
    """Asked in another process: in this one, CUDA must not start before its forks."""
    with multiprocessing.get_context("spawn").Pool(1) as one:
        return one.apply(torch.cuda.get_device_capability, (device,)) < (8, 9)


def not_run(given, reports):
    """Returns the rows that this device cannot train, with the reason."""
    lstm = "could not create a primitive descriptor for the LSTM"  # an LSTM of 16 bits, by oneDNN
    if given.device == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return {name: error for name, error in reports.items() if error and lstm in error}
    fp8 = {name for name, error in reports.items() if error and "has no FP8 products" in error}
    if not fp8 or not given.device.startswith("cuda") or not lacks_fp8(given.device):
        return {}
    return {name: reports[name] for name in fp8}


def main(given):
    reports = cpp.train(given.program, given.folder, given.device, given.words)
    left_out = not_run(given, reports)
    failed = {name: [error] for name, error in reports.items() if error and name not in left_out}
    trained = [name for name, error in reports.items() if not error]
    if trained:
        check_version(given.folder / f"{trained[0]}.safetensors")
    same = 0
    for name, verdict, error in workers.each(functools.partial(check, given), trained, given.jobs):
        line, wrong = verdict or ("", [error])
        print(f"{name}: {line or error}", flush=True)
        same += line.startswith("same bits")
        failed |= {name: wrong} if wrong else {}
    for name, why in left_out.items():
        print(f"not run: {name}: {why}")
    for name, wrong in failed.items():
        print(*(f"failed: {name}: {line}" for line in wrong), sep="\n")
    passed = len(reports) - len(failed) - len(left_out)
    print(
        f"parity on {given.device}: {passed} rows passed, {same} with the same bits, "
        f"{len(failed)} failed, {len(left_out)} not run"
    )
    sys.exit(f"parity: failed {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main(arguments(sys.argv[1:]))
