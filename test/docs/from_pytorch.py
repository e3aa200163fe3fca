"""Each Python of examples/from_pytorch ends in the parameters that the C++ of its name ends in.

Usage: from_pytorch.py ROOT TESTS, by a Python that has torch. Runs the executable TESTS, which
writes where its trainings end, and each Python beside it.
"""

import os
import pathlib
import runpy
import subprocess
import sys
import tempfile

import torch


def distance(script, ends):
    """The largest difference of two ends, relative to how far ikebana went from their start."""
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
    wrong = [f"{name}: in one language only" for name in topics ^ set(scripts)]
    with tempfile.TemporaryDirectory() as ends:
        environment = os.environ | {"IKEBANA_TRAINED": ends}
        if subprocess.run([tests], env=environment).returncode:
            sys.exit(f"{tests} failed: there is nothing to compare with")
        for name in sorted(topics & set(scripts)):
            apart = distance(scripts[name], pathlib.Path(ends))
            print(f"{name}: {apart:.1e} apart")
            if not apart < 1e-5:
                wrong.append(f"{name}: Python and ikebana end {apart:.1e} apart")
    sys.exit("\n".join(wrong) or 0)


run(pathlib.Path(sys.argv[1]), sys.argv[2])
