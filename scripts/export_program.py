#!/usr/bin/env python3
"""Writes a model of PyTorch as one .pt2 file with two graphs, which ikebana's load_program trains:
"train" is the model exported in train(), "eval" in eval().

    export_program.py FILE.py:FUNCTION model.pt2 [--strict] [--no-check]

FUNCTION, without arguments, returns a dict of the arguments below: "model", "args", "kwargs",
"dynamic_shapes". In Python:

    from export_program import export_program
    rows = torch.export.Dim("rows", min=2)
    export_program(model, (tokens,), path="model.pt2", dynamic_shapes=[{0: rows}])

Two graphs are needed since an exported graph keeps the branches that Python took: dropout, batch
norm and every `if self.training` of the model. The weights of both lie in the file once. The model
stays as it was: its modes, values, gradients, and the random state of torch, numpy and Python.
Python reads the file by torch.export.pt2_archive._package.load_pt2(path).exported_programs["eval"].

The graph of the mode that the model is in is exported as its parts stand, so a batch norm that you
put into eval() in a model in train() stays frozen; the other by train() or eval() of the model. The
examples decide what is burnt in: every size that dynamic_shapes does not name, Python numbers, and
branches on them. They are detached. By default both graphs are run on the examples and compared
with the model, outputs and gradients, on a copy of the weights; --no-check leaves that out.

Needs a Python with torch 2.9 or newer; that of 2.8 writes the weights as pickles.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import traceback
import warnings

import torch
from torch.utils import _pytree as pytree

try:
    from torch.export.pt2_archive import PT2ArchiveReader, PT2ArchiveWriter
    from torch.export.pt2_archive._package import load_pt2, package_pt2
except ImportError:
    sys.exit(f"export_program: torch {torch.__version__} has no pt2_archive: use 2.9 or newer")

APART = 1e-4  # the share of the largest value: what differs more is another function
WRAPPERS = {
    "OptimizedModule": "model._orig_mod", "DataParallel": "model.module",
    "DistributedDataParallel": "model.module", "FullyShardedDataParallel": "the model itself",
    "RecursiveScriptModule": "the nn.Module that was scripted",
    "TopLevelTracedModule": "the nn.Module that was traced",
}


class Refused(Exception):
    """What is wrong, and what to do."""


def export_program(model, args=(), kwargs=None, path="model.pt2", *, dynamic_shapes=None,
                   strict=False, check=True):
    """Writes `path` with the graphs "train" and "eval" of `model`, which stays as it was.

    args, kwargs: examples of the inputs, on the model's device, which is the CPU.
    dynamic_shapes: as of torch.export.export; sizes that it does not name are burnt in.
    strict: exports by TorchDynamo, for models that the default way cannot trace.
    check: compares outputs and gradients of both graphs with the model's on the examples.

    Raises Refused, with what is wrong and what to do. Returns the exported programs by name.
    """
    path, kwargs = pathlib.Path(path), dict(kwargs or {})
    refuse_arguments(model, args, path)
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs))
    refuse_devices(model, (args, kwargs))
    refuse_parts(model)
    options = {"dynamic_shapes": dynamic_shapes, "strict": strict}
    programs, before = {}, {name: (x, x._version) for name, x in named_state(model)}
    with random_states_kept():
        for modes in (contextlib.nullcontext(), other_mode(model)):  # first as the model stands
            with modes:
                mode = mode_of(model)
                programs[mode] = exported(model, args, kwargs, options)
                refuse_changes(model, before)
                if check:
                    compare(model, programs[mode], args, kwargs)
    programs = {name: programs[name] for name in ("train", "eval")}
    refuse_states(programs)
    write(programs, path, check)
    return programs


def mode_of(model):
    return "train" if model.training else "eval"


def refuse_arguments(model, args, path):
    if not isinstance(model, torch.nn.Module):
        raise Refused(f"the model is a {type(model).__name__}: give a torch.nn.Module")
    for kind in type(model).__mro__:
        if kind.__name__ in WRAPPERS:
            raise Refused(f"the model is a {kind.__name__}, which torch.export does not take: "
                          f"give {WRAPPERS[kind.__name__]}")
    if not isinstance(args, tuple):
        raise Refused(f"args is a {type(args).__name__}: give a tuple of example inputs, such as "
                      "(tokens,)")
    if path.suffix != ".pt2":
        raise Refused(f"{path} does not end in .pt2: torch.export reads only files that do")
    if torch.is_inference_mode_enabled() or not torch.is_grad_enabled():
        raise Refused("gradients are off here, and the graph would keep that: call export_program "
                      "outside of torch.no_grad() and torch.inference_mode()")
    if torch.is_autocast_enabled("cpu"):
        raise Refused("autocast is on here, and the graph would keep its casts: call "
                      "export_program outside of it; C++ sets the precision of the training")


def named_state(model):
    return [*model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False)]


def refuse_devices(model, inputs):
    for name, x in named_state(model):
        if isinstance(x, torch.nn.parameter.UninitializedTensorMixin):
            raise Refused(f"`{name}` has no shape yet: call the model once on the examples")
        if x.is_meta:
            raise Refused(f"`{name}` is on the device meta, which has no values: load the weights")
        if type(x.data) is not torch.Tensor or x.layout != torch.strided or x.is_quantized:
            raise Refused(f"`{name}` is no plain tensor but {type(x.data).__name__} "
                          f"({x.layout}, {x.dtype}): export the model before it is quantised, "
                          "sharded or made sparse")
        if x.device.type != "cpu":
            raise Refused(f"`{name}` is on {x.device}, and the graph would keep that: call "
                          "model.cpu(), and give examples on the CPU; C++ sets the device")
    for where, x in pytree.tree_leaves_with_path(inputs):
        if isinstance(x, torch.Tensor) and x.device.type != "cpu":
            raise Refused(f"the example input {name_of(where)} is on {x.device}: give examples on "
                          "the CPU, where the model is")


def refuse_parts(model):
    """One tensor may have several names, but two tensors must not lie in one memory."""
    owners = {}
    for name, x in named_state(model):
        if not x.numel():
            continue
        first, y = owners.setdefault(x.untyped_storage().data_ptr(), (name, x))
        same = (x.data_ptr(), x.shape, x.stride()) == (y.data_ptr(), y.shape, y.stride())
        if not same:
            raise Refused(f"`{name}` and `{first}` are parts of one memory: give each its own, by "
                          "x.data = x.data.clone() for both")


def name_of(where):
    """Returns `args[0]`, `kwargs['mask']`."""
    head, *rest = where
    return ("args", "kwargs")[head.idx] + pytree.keystr(rest)


@contextlib.contextmanager
def random_states_kept():
    numpy = sys.modules.get("numpy")
    states = torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy:
            numpy.random.set_state(states[2])


@contextlib.contextmanager
def other_mode(model):
    """In eval() if the model is in train(), and the reverse; then every module as before."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(not model.training)
    if model.training == modes[0][1]:
        raise Refused("train() and eval() of the model do not change its mode: call those of "
                      "torch.nn.Module in your own")
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def refuse_changes(model, before):
    for name, x in named_state(model):
        was, version = before.get(name, (None, 0))
        if was is not x or x._version != version:
            raise Refused(f"to export the model in {mode_of(model)}() has made or changed `{name}` "
                          "of it: make parameters and buffers in the constructor, and change them "
                          "in forward by operators on tensors alone")


def exported(model, args, kwargs, options):
    try:
        return torch.export.export(model, args, kwargs, **options)
    except Exception as error:  # an error of torch.export, torch.fx, TorchDynamo or the model
        why = [line.strip() for line in str(error).splitlines() if line.strip()]
        fixes = [line for line in why[3:] if re.match(r"\w+ = \S|Suggested", line)]
        lines = [f"at {at.filename}, line {at.lineno}: {at.line}"  # outside of torch
                 for at in traceback.extract_tb(error.__traceback__)[1:]
                 if not at.filename.startswith((os.path.dirname(torch.__file__), "<"))]
        shown = "\n  ".join(why[:3] + fixes + lines[-1:]) or type(error).__name__
        raise Refused(
            f"torch.export cannot export the model in {mode_of(model)}():\n  {shown}\n"
            "See docs/programs.md, or torch.export.draft_export for all reasons at once"
        ) from error


def refuse_states(programs):
    """Both graphs must read the model's own parameters and buffers, each under one name."""
    of = {name: dict(named_state_of(program)) for name, program in programs.items()}
    for name in sorted(of["train"].keys() ^ of["eval"].keys()):
        here = "train" if name in of["train"] else "eval"
        raise Refused(f"`{name}` is a parameter or buffer of the graph of {here}() only: make it "
                      "in the constructor, in both modes")
    for name, x in of["train"].items():
        y = of["eval"][name]
        if x.data_ptr() != y.data_ptr() or x.shape != y.shape or x.dtype != y.dtype:
            raise Refused(f"`{name}` is another tensor in eval() than in train(): make it once, in "
                          "the constructor")
    specs = {name: program.call_spec.in_spec for name, program in programs.items()}
    if specs["train"] != specs["eval"]:
        raise Refused("the graphs of train() and eval() have other inputs")


def named_state_of(program):
    yield from program.state_dict.items()
    buffers = set(program.graph_signature.buffers)
    yield from ((name, x) for name, x in program.constants.items() if name in buffers)


def compare(model, program, args, kwargs):
    """Refuses a graph whose outputs or gradients on the examples are not the model's."""
    mode = mode_of(model)
    expected, found = results(model, args, kwargs), results(program.module(), args, kwargs)
    if len(expected[0]) != len(found[0]):
        raise Refused(f"the graph of {mode}() has {len(found[0])} outputs of tensors, the model "
                      f"{len(expected[0])}: export it with other examples")
    for i, (x, y) in enumerate(zip(expected[0], found[0])):
        if apart(x, y) > APART:
            raise Refused(
                f"output {i} of the graph of {mode}() is {apart(x, y):.1e} of its largest value "
                "apart from the model's on the examples: torch.export has lost a part of it, such "
                "as numbers that Python draws or counts in forward"
            )
    for name, x in expected[1].items():
        if name not in found[1]:  # strict export gives a tied parameter one name
            continue
        if apart(x, found[1][name]) > APART:
            raise Refused(
                f"the gradient of `{name}` by the graph of {mode}() is "
                f"{apart(x, found[1][name]):.1e} of its largest value apart from the model's: "
                "torch.export loses the backward of torch.autograd.Function. Write it as "
                "torch.library.custom_op with register_autograd, or by operators of torch"
            )


def results(model, args, kwargs):
    """Returns the tensors among outputs, and the gradients of their sum, on copies of the state."""
    state, leaves = {}, {}
    for name, x in named_state(model):
        if id(x) not in leaves:  # one tensor may have several names
            leaves[id(x)] = x.detach().clone().requires_grad_(x.requires_grad)
        state[name] = leaves[id(x)]
    torch.manual_seed(0)
    random.seed(0)
    inputs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    outputs = torch.func.functional_call(model, state, *inputs, tie_weights=True)
    outputs = [x for x in pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor)]
    summed = sum(
        (x * torch.rand(x.shape, generator=torch.Generator().manual_seed(i)).to(x)).sum()
        for i, x in enumerate(outputs) if x.requires_grad
    )
    of = {name: x for name, x in state.items() if x.requires_grad}
    if not of or not isinstance(summed, torch.Tensor):
        return [x.detach() for x in outputs], {}
    unique = {id(x): x for x in of.values()}
    gradients = torch.autograd.grad(summed, list(unique.values()), allow_unused=True,
                                    materialize_grads=True)
    by_leaf = dict(zip(unique, gradients))
    return [x.detach() for x in outputs], {name: by_leaf[id(x)] for name, x in of.items()}


def apart(x, y):
    """Returns the largest difference over the largest value."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return float("inf")
    x, y = (t.to_dense().to(torch.complex128 if t.is_complex() else torch.float64) for t in (x, y))
    worst = torch.where(x == y, 0.0, (x - y).abs()).nan_to_num(nan=float("inf"))
    worst = torch.where(x.isnan() & y.isnan(), 0.0, worst)
    largest = x.abs().nan_to_num(posinf=0.0).max().item() if x.numel() else 0.0
    return worst.max().item() / max(largest, 1e-30) if x.numel() else 0.0


def write(programs, path, check=True):
    """Writes exported programs by name; the weights of all lie in the file once. It is written
    beside `path`, then takes its place: the file is whole, or as it was."""
    target = pathlib.Path(path).absolute()
    with tempfile.TemporaryDirectory(prefix=".export_program", dir=target.parent) as folder:
        whole, once = (pathlib.Path(folder, name, target.name) for name in ("whole", "once"))
        for file in (whole, once):
            file.parent.mkdir()
        package_pt2(str(whole), exported_programs=programs)
        share_records(whole, once, list(programs))
        if check:
            read_back(once)
        os.replace(once, target)


def read_back(path):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the warning that it reads without a copy
            load_pt2(str(path))
    except Exception as error:  # an error of torch.export or torch.fx
        raise Refused("torch cannot read what it has written of this model: "
                      f"{str(error).splitlines()[0]}. One cause is a region of torch.no_grad() "
                      "without operators, as behind torch.enable_grad() inside of it") from error


def share_records(source, target, models):
    """Copies an archive; a tensor that several models have under one name with the same bytes is
    written once, and the others' configurations name its record."""
    reader, first, left_out, changed = PT2ArchiveReader(str(source)), {}, set(), {}
    names = reader.get_file_names()
    for kind in ("weights", "constants"):
        for model in models:
            file = f"data/{kind}/{model}_{kind}_config.json"
            if file not in names:
                raise Refused(f"torch {torch.__version__} writes the {kind} as pickles, which "
                              "load_program does not read: use torch 2.9 or newer")
            whole = json.loads(reader.read_string(file))
            for name, entry in whole["config"].items():
                record = f"data/{kind}/{entry['path_name']}"
                shared = first.setdefault((kind, name), record)
                if shared != record and reader.read_bytes(shared) == reader.read_bytes(record):
                    entry["path_name"] = pathlib.PurePosixPath(shared).name
                    left_out.add(record)
            changed[file] = json.dumps(whole)
    with PT2ArchiveWriter(str(target)) as writer:
        for name in names:
            if name in changed:
                writer.write_string(name, changed[name])
            elif name not in left_out and not writer.has_record(name):
                if name not in WRITTEN_BY_ITSELF:
                    writer.write_bytes(name, reader.read_bytes(name))


WRITTEN_BY_ITSELF = {"byteorder", "version", ".data/version", ".data/serialization_id"}


def arguments_of(spec):
    """What FUNCTION of FILE.py:FUNCTION returns."""
    file, _, function = spec.rpartition(":")
    if not file.endswith(".py") or not function:
        raise Refused(f"{spec} names no function: write FILE.py:FUNCTION")
    if not pathlib.Path(file).is_file():
        raise Refused(f"there is no file {file}")
    sys.path.insert(0, str(pathlib.Path(file).absolute().parent))
    module_spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module
    module_spec.loader.exec_module(module)
    if not callable(getattr(module, function, None)):
        raise Refused(f"{file} has no function {function}")
    given = getattr(module, function)()
    known = {"model", "args", "kwargs", "dynamic_shapes"}
    if not isinstance(given, dict) or "model" not in given or given.keys() - known:
        raise Refused(f"{function} of {file} must return a dict with \"model\", and with \"args\", "
                      "\"kwargs\" and \"dynamic_shapes\" as far as the model needs them")
    return given


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", metavar="FILE.py:FUNCTION")
    parser.add_argument("target", type=pathlib.Path, metavar="model.pt2")
    parser.add_argument("--strict", action="store_true", help="export by TorchDynamo")
    parser.add_argument("--no-check", action="store_true", help="do not run the graphs")
    given = parser.parse_args()
    try:
        programs = export_program(**arguments_of(given.source), path=given.target,
                                  strict=given.strict, check=not given.no_check)
    except Refused as why:
        sys.exit(f"export_program: {given.source}: {why}.")
    for name, program in programs.items():
        nodes = sum(node.op == "call_function" for node in program.graph.nodes)
        print(f"{name}: {nodes} operators, {len(program.state_dict)} parameters and buffers")


if __name__ == "__main__":
    main()
