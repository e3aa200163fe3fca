"""C++ models are opened by torch.export.load, and give C++'s bits.

Usage: models.py PROGRAM [--within BOUND] [--onnx] [--aoti], by a Python that has torch and
safetensors. --within is for a torch of another version than C++'s, which may round otherwise;
--onnx needs onnxruntime with onnxscript, and --aoti a C++ compiler.
"""

import argparse
import pathlib
import subprocess
import tempfile
import warnings

import torch
from safetensors.torch import load_file

# Functions of ikebana become LibTorch's, which round otherwise: RMSNorm.
BOUNDS = {"llama": 1e-6}
MODELS = ["gpt", "llama", "lstm", "resnet", "unet", "vit", "mixer", "dlrm"]
# These are a unit of each model, of whose modules the program knows.
UNITS = {"gpt": "block1.up", "llama": "model.layers.1.mlp.up_proj", "resnet": "layer2_0.conv1"}


def distance(result, expected):
    """Returns the largest difference over the largest value. It is 0 only for equal bits."""
    assert result.shape == expected.shape and result.dtype == expected.dtype
    if torch.equal(result, expected):
        return 0
    return ((result - expected).abs().max() / expected.abs().max()).item()


def cases(folder, name):
    """Yields inputs and output at the example's sizes, and at others that were never recorded."""
    for file in (f"{name}.safetensors", f"{name}.other.safetensors"):
        tensors = load_file(folder / file)
        output = tensors.pop("output")
        yield [tensors[key] for key in sorted(tensors)], output


def paths_of(program):
    stacks = (node.meta.get("nn_module_stack", {}) for node in program.graph.nodes)
    return {path for stack in stacks for path, _ in stack.values()}


def check(folder, name, within):
    program = torch.export.load(folder / f"{name}.pt2")
    module = program.module()
    for inputs, output in cases(folder, name):
        with torch.no_grad():
            error = distance(module(*inputs), output)
        assert error <= max(BOUNDS.get(name, 0), within), f"{name}: {error}"
    args, kwargs = program.example_inputs
    assert all(map(torch.equal, args, next(cases(folder, name))[0])) and kwargs == {}
    assert name not in UNITS or UNITS[name] in paths_of(program), paths_of(program)
    return program


def check_aoti(folder, name, program):
    package = str(folder / f"{name}.aoti.pt2")
    torch._inductor.aoti_compile_and_package(program, package_path=package)
    model = torch._inductor.aoti_load_package(package)
    for inputs, output in cases(folder, name):
        error = distance(model(*inputs), output)
        assert error <= 1e-5, f"{name}, AOTInductor: {error}"


def check_onnx(folder, name, program):
    import onnxruntime

    path = str(folder / f"{name}.onnx")
    torch.onnx.export(program, f=path, verbose=False)
    session = onnxruntime.InferenceSession(path)
    for inputs, output in cases(folder, name):
        named = {i.name: x.numpy() for i, x in zip(session.get_inputs(), inputs)}
        error = distance(torch.from_numpy(session.run(None, named)[0]), output)
        assert error <= 1e-4, f"{name}, ONNX: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--within", type=float, default=0)
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--aoti", action="store_true")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([given.program.resolve(), folder], check=True)
        for model in MODELS:
            program = check(folder, model, given.within)
            if given.aoti:
                check_aoti(folder, model, program)
            if given.onnx:
                check_onnx(folder, model, program)
            print(f"{model}: {len(program.graph.nodes)} nodes")


if __name__ == "__main__":
    main()
