"""Runs examples/program.py, and examples/program.cpp on what it wrote: once as it is, and once
killed and resumed. Both end with the same bits, which Python reads.

Usage: program.py ROOT PROGRAM, by a Python that has torch and safetensors.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import torch
from torch.export.pt2_archive._package import load_pt2

root, program = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
PATIENCE = 120  # seconds


def in_python(word, folder):
    done = subprocess.run([sys.executable, root / "examples/program.py", word, folder], check=True,
                          stdout=subprocess.PIPE, text=True)
    return done.stdout


def kill_after_a_state(folder):
    """Ends the program and its ranks by SIGKILL once it has saved a state."""
    running = subprocess.Popen([program, folder], start_new_session=True)
    end = time.monotonic() + PATIENCE
    while not list(folder.glob("states/step-*")):
        assert running.poll() is None, "the training ended before it was killed"
        assert time.monotonic() < end, "no state was saved"
        time.sleep(0.005)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert not (folder / "trained.pt2").exists(), "the training was complete when it was killed"


def weights(path):
    return load_pt2(path).exported_programs["train"].state_dict


def main():
    with tempfile.TemporaryDirectory() as place:
        whole, killed = pathlib.Path(place, "whole"), pathlib.Path(place, "killed")
        whole.mkdir()
        in_python("export", whole)
        shutil.copytree(whole, killed)
        subprocess.run([program, whole], check=True)
        kill_after_a_state(killed)
        subprocess.run([program, killed], check=True)
        one, other = (weights(folder / "trained.pt2") for folder in (whole, killed))
        first = weights(whole / "model.pt2")
        assert one.keys() == other.keys() == first.keys()
        for name, x in one.items():
            assert torch.equal(x, other[name]), f"{name} has other bits after a kill"
        assert any(not torch.equal(x, first[name]) for name, x in one.items()), "it was not trained"
        said = in_python("read", killed)
        losses = [float(x) for x in re.findall(r"[\d.]+\d", said)]
        assert losses[0] == losses[1] < 2.5, said


if __name__ == "__main__":
    main()
