"""Reads in Python the programs that C++ has trained and written back.

Usage: written_back.py FOLDER, where reference.py and then program_parity have written. Weights and
buffers have the bits of Python's training, and the graph of evaluation gives its loss.
"""

import pathlib
import sys

import cases
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch.export.pt2_archive._package import load_pt2

BOUND = 1e-6  # the bound of the loss: a graph that was exported in Python gives its bits there


def batches_of(case, file):
    """Fields in the order in which the case draws them: that of forward's arguments."""
    indices = {int(name.split(".")[1]) for name in file if name.startswith("held_out.")}
    return [{field: file[f"held_out.{i}.{field}"] for field in case.draw()}
            for i in sorted(indices)]


def loss_of(case, graph, batches, seed):
    torch.manual_seed(seed)
    total = count = 0.0
    with torch.no_grad():
        for batch in batches:
            args, kwargs = cases.inputs_of(case, batch)
            _, part, items = cases.loss_of(case, graph(*args, **kwargs), batch)
            total, count = total + part.double(), count + float(items)
    return (total / count).item()


def check(path, case):
    name = path.name.removesuffix(".trained.pt2")
    program = load_pt2(str(path)).exported_programs["eval"]
    file = load_file(path.with_name(f"{name}.safetensors"))
    with safe_open(path.with_name(f"{name}.safetensors"), "pt") as opened:
        seed = int(opened.metadata()["seed.evaluation"])
    for weight, x in program.state_dict.items():
        assert torch.equal(x, file[f"final.{weight}"]), f"{name}: {weight} has other bits"
    wanted = file["evaluations"][1].item()
    found = loss_of(case, program.module(), batches_of(case, file), seed)
    assert abs(found - wanted) <= BOUND * abs(wanted), f"{name}: loss {found}, not {wanted}"
    print(f"{name}: loss {found}, apart {found - wanted:.1e}")


def main():
    torch.set_num_threads(1)
    paths = sorted(pathlib.Path(sys.argv[1]).glob("*.trained.pt2"))
    assert paths, f"{sys.argv[1]} holds no program that C++ has trained"
    for path in paths:
        check(path, cases.CASES[path.name.removesuffix(".trained.pt2")])


if __name__ == "__main__":
    main()
