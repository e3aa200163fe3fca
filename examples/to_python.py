"""Opens the program that to_python.cpp wrote, and loads its weights into the same model in Python.

    to_python.py FOLDER           torch.export, the weights, TorchScript
    to_python.py FOLDER --aoti    an AOTInductor package as well, which needs a C++ compiler
    to_python.py FOLDER --onnx    an ONNX file as well, which needs onnx, onnxscript, onnxruntime
"""

import pathlib
import sys

import torch
from safetensors.torch import load_file
from torch import nn

folder = pathlib.Path(sys.argv[1])
sample = load_file(folder / "sample.safetensors")
x = sample["input"]


def check(name, output, expected, tolerance=0.0):
    worst = (output - expected).abs().max().item()
    print(f"{name}: differs by at most {worst:.1e}")
    torch.testing.assert_close(output, expected, rtol=tolerance, atol=tolerance)


program = torch.export.load(folder / "model.pt2")
module = program.module()
check("torch.export", module(x), sample["evaluated"])
check("other rows", module(x[:7]), sample["evaluated"][:7], 1e-2)

if "--aoti" in sys.argv:
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(folder.resolve() / "aoti.pt2")
    )
    served = torch._inductor.aoti_load_package(package)
    check("AOTInductor", served(x), sample["evaluated"], 2e-2)  # results of BF16, which AOTInductor
                                                                # rounds elsewhere

if "--onnx" in sys.argv:
    torch.onnx.export(program, f=folder / "model.onnx")

# The weights alone, into a model that is written in Python.
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Linear(32, 3))
model.load_state_dict(load_file(folder / "weights.safetensors"))
model.eval().requires_grad_(False)
check("load_state_dict", model(x), sample["output"], 1e-5)

# This is deprecated in PyTorch 2.11.
torch.jit.trace(model, x).save(folder / "model.ts")
check("TorchScript", torch.jit.load(folder / "model.ts")(x), sample["output"], 1e-5)
