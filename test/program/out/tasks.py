"""Models of examples/tasks are opened by torch.export.load, and give C++'s bits.

Usage: tasks.py PROGRAM, by a Python that has torch and safetensors. Among them are inputs by name
and without a value, several outputs, a state, and random numbers.
"""

import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
from safetensors.torch import load_file
from torch.utils import _pytree


def main():
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([pathlib.Path(sys.argv[1]).resolve(), folder], check=True)
        for task in ("bert", "sac", "ddpm", "lstm_begin", "lstm_next"):
            program = torch.export.load(folder / f"{task}.pt2")
            args, kwargs = program.example_inputs
            torch.manual_seed(7)
            with torch.no_grad():
                result = _pytree.tree_leaves(program.module()(*args, **kwargs))
            expected = load_file(folder / f"{task}.safetensors")
            assert len(result) == len(expected), task
            for i, tensor in enumerate(result):
                assert torch.equal(tensor, expected[f"output_{i}"]), f"{task}: output {i}"
            print(f"{task}: {len(program.graph.nodes)} nodes")


if __name__ == "__main__":
    main()
