"""Checks of what a GPU needs, on the CPU. Usage: suite_device.py PROGRAM

calls: only the calls in other processes that crash or throw fail. rows: so do rows of C++ that
crash or throw, and a row that is far from its reference. references: one of other weights is
refused. missing: a device that is not there is an error that names it.
"""

import contextlib
import io
import os
import pathlib
import sys
import tempfile

import agreement
import parity
import reference
import workers
from safetensors.torch import load_file, save_file

program = sys.argv[1]
wrong = []
CRASHES = """#!/bin/sh
case "$*" in
  "" | *--after*) exec "{0}" "$@" ;;
  *) "{0}" "$1" mlp.fp32 && kill -SEGV $$ ;;
esac
"""


def expect(condition, what):
    if not condition:
        wrong.append(what)


def fragile(name):
    if name == "exit":
        os._exit(3)
    return {"good": 1, "better": 2}[name]


def calls():
    with contextlib.redirect_stderr(io.StringIO()):
        names = "good", "exit", "throw", "better"
        got = {name: rest for name, *rest in workers.each(fragile, names, jobs=1)}
    expect(got["good"] == [1, None] and got["better"] == [2, None], f"good calls gave {got}")
    expect("ended with 3" in got["exit"][1] and "KeyError" in got["throw"][1], f"bad gave {got}")


def changed(path, prefix, factor):
    with_meta = agreement.Row(path).meta
    file = {n: x * factor if n.startswith(prefix) else x for n, x in load_file(path).items()}
    save_file(file, path, with_meta)


def output_of(*words):
    """What parity.py prints, with what it exits with at the end."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            parity.main(parity.arguments([*map(str, words)]))
        except SystemExit as end:
            print(end.code)
    return out.getvalue()


def make_references(folder):
    try:
        reference.main(folder, program, "mlp.fp32", "lstm.fp32")
    except SystemExit as end:
        expect(end.code == 0, f"reference.py: {end.code}")


def rows(folder, references):
    changed(references / "lstm.fp32.safetensors", "final.", 1.001)
    crashes = folder / "crashes"
    crashes.write_text(CRASHES.format(program))
    crashes.chmod(0o755)
    (folder / "mlp.mse.safetensors").mkdir()  # so that C++ cannot write this file
    names = "mlp.fp32", "mlp.tf32", "mlp.mse", "lstm.fp32"
    text = output_of(crashes, folder, "--jobs", 2, "--reference", references, *names)
    for part in (
        "mlp.fp32: same bits, losses 0 apart, weights 0; from FP64",
        f"failed: mlp.tf32: in this row {crashes} ended with -11",
        "failed: mlp.mse: ",
        "failed: lstm.fp32: final weights are ",
        "parity on cpu: 1 rows passed, 2 with the same bits, 3 failed, 0 not run",
        "parity: failed mlp.tf32, mlp.mse, lstm.fp32",
    ):
        expect(part in text, f"expected `{part}` in\n{text}")


def refused(folder, references):
    row = agreement.Row(folder / "mlp.fp32.safetensors", loose=True)
    file = load_file(references / "mlp.fp32.safetensors")
    other_draw = {"initial.0.weight": file["initial.0.weight"] * 1.0001}
    blind = {f"wrong.{name}": x for name, x in agreement.results_of(file).items()}
    for change, error in (
        (other_draw, "another LibTorch draws them"),
        (blind, "nothing is proved"),
    ):
        (line, *more) = reference.disagreements(row, file | change)
        expect(error in line and not more, f"expected only `{error}`, got {line} {more}")


def missing(folder):
    text = output_of(program, folder, "--device", "privateuseone", "mlp.fp32")
    expect("trains no row on privateuseone" in text, f"a device that is not there gave {text}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder, references = pathlib.Path(name), pathlib.Path(name) / "references"
        calls()
        make_references(references)
        rows(folder, references)
        refused(folder, references)
        missing(folder)
    print("\n".join(wrong) or "true")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
