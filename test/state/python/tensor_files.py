"""What docs/tensors.md says of Python: files of safetensors in both directions, and files of
torch.save and NumPy, which are converted as the errors of C++ say.

Usage: tensor_files.py PROGRAM SCRIPTS: test_docs, and the folder of pth_to_safetensors.py; by a
Python that has torch, numpy and safetensors.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from safetensors import safe_open
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

PROGRAM, SCRIPTS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])


def same(a, b):
    assert a.keys() == b.keys(), (a.keys(), b.keys())
    for name, t in a.items():
        assert t.dtype == b[name].dtype and t.shape == b[name].shape, name
        assert torch.equal(t.view(torch.uint8), b[name].view(torch.uint8)), name


def exchange(folder):
    x, y = torch.randn(3, 5), torch.randn(4).to(torch.bfloat16)

    save_file({"x": x, "y": y}, folder / "from_python.safetensors", metadata={"made_by": "Python"})

    numpy.save(folder / "array.npy", x.numpy())
    numpy.savez(folder / "arrays.npz", x=x.numpy(), n=numpy.arange(3))
    torch.save({"x": x, "y": y}, folder / "python.pt")
    words = [PROGRAM, "-tc=docs/tensors.md: files of Python"]
    subprocess.run(words, check=True, env={**os.environ, "IKEBANA_TENSORS": str(folder)})

    tensors = load_file(folder / "from_cpp.safetensors")
    with safe_open(folder / "from_cpp.safetensors", framework="pt") as file:
        made_by = file.metadata()["made_by"]

    same(tensors, {"x": x, "y": y})
    assert made_by == "C++"
    return x, y


def convert(folder, x, y):
    of_cpp, of_module, of_python, array, arrays = (folder / "errors.txt").read_text().splitlines()
    script = [sys.executable, SCRIPTS / "pth_to_safetensors.py"]

    assert "pth_to_safetensors.py" in of_python, of_python
    subprocess.run([*script, folder / "python.pt", folder / "python.safetensors"], check=True)
    same(load_file(folder / "python.safetensors"), {"x": x, "y": y})

    # Files of torch::save of C++ are programs of TorchScript, also of a tensor.
    for error in (of_cpp, of_module):
        assert "is a TorchScript archive" in error, error
    state = torch.jit.load(folder / "module.pt").state_dict()
    same(dict(state), load_file(folder / "module.safetensors"))

    save_arrays({"array": numpy.load(folder / "array.npy")}, folder / "array.safetensors")
    same(load_file(folder / "array.safetensors"), {"array": x})
    save_arrays(dict(numpy.load(folder / "arrays.npz")), folder / "arrays.safetensors")
    same(load_file(folder / "arrays.safetensors"), {"x": x, "n": torch.arange(3)})
    for error in (array, arrays):
        code = error.split("Convert it in Python: ")[1].split(". Weights are read")[0]
        subprocess.run([sys.executable, "-c", "import numpy; " + code], cwd=folder, check=True)
        assert "x" in load_file(folder / "arrays.safetensors") or error is array


with tempfile.TemporaryDirectory() as name:
    torch.manual_seed(0)
    convert(pathlib.Path(name), *exchange(pathlib.Path(name)))
print("files of Python and of C++ agree")
