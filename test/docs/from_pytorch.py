"""Each Python of examples/from_pytorch ends in the parameters that ikebana ends in, in the C++ of the same name.

Usage: from_pytorch.py ROOT TESTS. Runs the executable TESTS, which writes where its trainings end, and each Python by
IKEBANA_ORACLE or .oracle/bin/python, a Python that has torch.
"""

import os
import pathlib
import runpy
import subprocess
import sys
import tempfile


def distance(script, ends):
    """The largest difference of two ends, relative to how far ikebana went from where both started."""
    trained = torch.cat([p.detach().flatten() for p in runpy.run_path(str(script))["trained"]])
    ikebana, start = torch.load(ends / f"{script.stem}.pt")
    return ((trained - ikebana).abs().max() / (ikebana - start).abs().max()).item()


def run(root, tests):
    folder = root / "examples/from_pytorch"
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = True  # into the source tree
    scripts = {path.stem: path for path in sorted(folder.glob("*.py")) if path.stem != "side_by_side"}
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


if len(sys.argv) == 3:
    python = os.environ.get("IKEBANA_ORACLE") or str(pathlib.Path(sys.argv[1]) / ".oracle/bin/python")
    try:
        os.execv(python, [python, *sys.argv, "with torch"])
    except OSError as error:
        sys.exit(f"from_pytorch: there is no Python with torch to compare with ({python}: {error.strerror}): run "
                 "scripts/setup test, or let IKEBANA_ORACLE name a Python that has torch")
import torch  # noqa: E402

run(pathlib.Path(sys.argv[1]), sys.argv[2])
