"""Loads what to_python.cpp wrote into the same model, checks it, and exports it.

    to_python.py FOLDER          TorchScript and torch.export
    to_python.py FOLDER --aoti   an AOTInductor package as well, which needs a C++ compiler
"""

import pathlib
import sys

import torch
from safetensors.torch import load_file
from torch import nn

folder = pathlib.Path(sys.argv[1])
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Linear(32, 3))
model.load_state_dict(load_file(folder / "weights.safetensors"))
model.eval().requires_grad_(False)

sample = load_file(folder / "sample.safetensors")
x, expected = sample["input"], sample["output"]


def check(name, output):
    worst = (output - expected).abs().max().item()
    print(f"{name}: differs by at most {worst:.1e}")
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)


check("load_state_dict", model(x))

torch.jit.trace(model, x).save(folder / "model.ts")
check("TorchScript", torch.jit.load(folder / "model.ts")(x))

rows = torch.export.Dim("rows", min=2)
program = torch.export.export(model, (x,), dynamic_shapes=[{0: rows}])
torch.export.save(program, folder / "model.pt2")
check("torch.export", torch.export.load(folder / "model.pt2").module()(x))

if "--aoti" in sys.argv:
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(folder.resolve() / "aoti.pt2")
    )
    check("AOTInductor", torch._inductor.aoti_load_package(package)(x))
