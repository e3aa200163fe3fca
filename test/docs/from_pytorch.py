"""Compares the final parameters of each Python script of examples/from_pytorch with the parameters
of the C++ file of the same name.

Usage: from_pytorch.py ROOT TESTS, with a Python that has torch. Runs the executable TESTS, which
writes the final parameters of its trainings, and each script.
"""

import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

import torch


def distance(script, ends):
    """The largest difference, relative to the largest change from the initial parameters."""
    trained = torch.cat([p.detach().flatten() for p in runpy.run_path(str(script))["trained"]])
    ikebana, start = torch.load(ends / f"{script.stem}.pt")
    return ((trained - ikebana).abs().max() / (ikebana - start).abs().max()).item()


def run(root, tests):
    folder = root / "examples/from_pytorch"
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True  # into the source tree
    scripts = {path.stem: path for path in sorted(folder.glob("*.py"))}
    scripts.pop("side_by_side")
    topics = {path.stem for path in folder.glob("*.cpp")}
    wrong = [f"{name}: exists in one language only" for name in topics ^ set(scripts)]
    with tempfile.TemporaryDirectory() as ends:
        environment = os.environ | {"IKEBANA_TRAINED": ends}
        if subprocess.run([tests], env=environment).returncode:
            sys.exit(f"{tests} failed, so there is nothing to compare with")
        for name in sorted(topics & set(scripts)):
            apart = distance(scripts[name], pathlib.Path(ends))
            print(f"{name}: differs by {apart:.1e}")
            if not apart < 1e-5:
                wrong.append(f"{name}: the parameters of Python and ikebana differ by {apart:.1e}")
    sys.exit("\n".join(wrong) or 0)


run(pathlib.Path(sys.argv[1]), sys.argv[2])
