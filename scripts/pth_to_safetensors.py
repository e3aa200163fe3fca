#!/usr/bin/env python3
"""Writes the weights of a file of torch.save (.pth, .pt, .ckpt, .bin) as a safetensors file, which
ikebana's load_weights reads.

    pth_to_safetensors.py SOURCE TARGET [--key NAME]... [--strip PREFIX]... [--drop PATTERN]...
                          [--dtype float32|float16|bfloat16|float64]

SOURCE holds a state_dict, or a checkpoint with one under "state_dict", "model_state_dict", "model",
"module" or "weights"; --key names another, and given twice it goes two levels down. --strip module.
removes a prefix from the beginning of names; one that begins with an underscore, such as
_orig_mod. of torch.compile, is removed behind every dot as well. --drop leaves out what it matches,
as a shell does: --drop 'decoder.*'. --dtype converts floating-point tensors. Tensors that share
memory are written whole under each of their names.

The file is read by torch.load(weights_only=True), which runs no code of it. The checksums of its
archive are compared; files of PyTorch before 1.6 have none. Needs a Python with torch and
safetensors, and as much memory as the weights take.
"""

import argparse
import collections.abc
import fnmatch
import os
import pathlib
import re
import sys
import zipfile
import zlib

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

KEYS = ("state_dict", "model_state_dict", "model", "module", "weights")
WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


class Refused(Exception):
    """What is wrong, and what to do."""


def some(names, most=5):
    names = [f"`{name}`" for name in names]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if names[most:] else "")


def check_format(path):
    """Names the formats that torch.load would refuse with words about something else."""
    with open(path, "rb") as file:
        head = file.read(9)
    if head[:4] == b"GGUF":
        raise Refused("it is a GGUF file: use gguf_to_safetensors.py")
    if head[8:] == b"{":
        raise Refused("it is a safetensors file already: give it to load_weights")
    if head[:2] == b"PK" and not zipfile.is_zipfile(path):
        raise Refused("it is cut off or damaged: its list of contents at the end is missing. "
                      "Use another copy")
    if head[:2] != b"PK" and head[:1] != b"\x80":
        raise Refused("torch.save has not written it: it is neither a zip archive nor a pickle. "
                      "Name a file that torch.save wrote")
    if head[:2] != b"PK":
        return
    with zipfile.ZipFile(path) as archive:
        names = [name.partition("/")[2] for name in archive.namelist()]
    if "constants.pkl" in names:
        raise Refused(
            "it is a TorchScript archive, which holds a program. If you trust it, write its "
            "weights by torch.save(torch.jit.load(path).state_dict(), 'weights.pth'), and convert "
            "those"
        )
    if "data.pkl" not in names:
        raise Refused("it is a zip archive that torch.save has not written. Name one that it wrote")
    check_archive(path)


def check_archive(path):
    """Compares the checksum of each record: torch.load does not."""
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        names = [record.filename for record in records]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise Refused(f"its record `{twice}` is there twice. Use another copy")
        if not any(record.CRC for record in records):
            print("the archive has no checksums, so a changed byte would not be seen")
            return
        for record in records:
            try:
                with archive.open(record) as file:
                    while file.read(1 << 20):
                        pass
            except (zipfile.BadZipFile, EOFError, NotImplementedError, zlib.error) as error:
                raise Refused(f"its record `{record.filename}` is damaged: {error}. Use another "
                              "copy") from error


def load(path):
    try:
        check_format(path)
        # Loads without mmap, which does not compare the size of a storage with its record's.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=False)
    except OSError as error:
        raise Refused(error.strerror or str(error)) from error
    except Refused:
        raise
    except Exception as error:  # errors of pickle, zipfile and torch, which have no common base
        found = re.search(r"GLOBAL (\S+)|class (\S+) ", str(error))
        if found:
            name = found.group(1) or found.group(2)
            raise Refused(
                f"it holds objects besides tensors ({name}), which torch.load(weights_only=True) "
                "does not make. If you trust the file, load it in Python and write "
                "torch.save(model.state_dict(), 'weights.pth')"
            ) from error
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise Refused(f"torch.load cannot read it: {why[0].partition('. ')[0]}. Use another copy, "
                      "or save it again in Python") from error


def is_state_dict(found):
    tensors = [isinstance(x, torch.Tensor) for x in found.values()]
    return bool(tensors) and any(tensors)


def choose(found, keys):
    """Returns the state_dict within what a file holds."""
    for key in keys:
        if not isinstance(found, collections.abc.Mapping) or key not in found:
            raise Refused(f"there is no --key {key}: name one of {content(found)}")
        found = found[key]
    if not isinstance(found, collections.abc.Mapping):
        raise Refused(f"it holds {content(found)}, not a state_dict: write "
                      "torch.save(model.state_dict(), 'weights.pth') in Python")
    if keys or is_state_dict(found):
        return found
    nested = [key for key in KEYS if isinstance(found.get(key), collections.abc.Mapping)]
    if len(nested) != 1:
        what = "several" if nested else "no"
        raise Refused(f"it holds {what} state_dict: name one by --key; there is {content(found)}")
    return found[nested[0]]


def content(found):
    if isinstance(found, collections.abc.Mapping):
        return some(str(key) for key in found) or "nothing"
    return f"a {type(found).__name__}"


def stripped(name, prefixes):
    """Returns `name` without the prefixes at its beginning, in any order, and without wrappers
    inside."""
    for prefix in prefixes:
        if prefix.startswith("_"):
            name = re.sub(r"(^|\.)" + re.escape(prefix), r"\1", name)
    removed = next((p for p in prefixes if name.startswith(p)), None)
    return stripped(name[len(removed):], prefixes) if removed else name


def renamed(tensors, prefixes):
    if "" in tensors:
        raise Refused("a tensor has an empty name: leave it out by --drop ''")
    for prefix in prefixes:
        if not any(prefix in name for name in tensors):
            raise Refused(f"--strip {prefix}: no name has it: leave it out, or name a "
                          f"part of {some(tensors)}")
    result = {}
    for name, x in tensors.items():
        new = stripped(name, prefixes)
        if not new or new in result:
            raise Refused(f"--strip: `{name}` would be `{new}`, which is the name of another: "
                          "leave --strip out")
        result[new] = x
    return result


def writable(name, x, dtype):
    """Returns the tensor as safetensors writes it: on the CPU, dense, with memory of its own."""
    if not isinstance(x, torch.Tensor):
        raise Refused(f"`{name}` is no tensor but a {type(x).__name__}: leave it out by "
                      f"--drop '{name}'")
    if x.is_meta:
        raise Refused(f"`{name}` is on the device meta, which has no values: leave it out by "
                      f"--drop '{name}'")
    if x.layout != torch.strided:
        x = x.to_dense()
    if x.is_quantized:
        raise Refused(f"`{name}` is quantised ({x.dtype}): save the model before quantisation")
    x = x.detach()
    return converted(name, x, dtype) if dtype and x.is_floating_point() else x


def converted(name, x, dtype):
    """The tensor in another dtype, which must hold its values."""
    result = x.to(dtype)
    wide = x.float() if x.element_size() < 2 else x
    lost = (wide.isfinite() & ~result.isfinite()).sum().item()
    if lost:
        raise Refused(f"`{name}` has {lost} values that {str(dtype).removeprefix('torch.')} cannot "
                      f"hold, the largest is {wide[wide.isfinite()].abs().max().item():.6g}: "
                      "name a wider --dtype, or leave it out")
    return result


def with_own_memory(tensors):
    """Returns contiguous tensors, none of which shares memory. Tensors that do are copied."""
    seen, result = set(), {}
    for name, x in tensors.items():
        storage = x.untyped_storage()
        is_own = storage.nbytes() == x.numel() * x.element_size()
        if not is_own or not x.is_contiguous() or storage.data_ptr() in seen or x.is_conj() or (
                x.is_neg()):
            x = x.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        seen.add(storage.data_ptr())
        result[name] = x
    return result


def shared(tensors):
    """Returns names of the same elements in memory, in groups."""
    groups = {}
    for name, x in tensors.items():
        if isinstance(x, torch.Tensor) and x.layout == torch.strided and x.numel():
            groups.setdefault((x.data_ptr(), x.shape, x.stride()), []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def convert(arguments):
    found = choose(load(arguments.source), arguments.key)
    if not all(isinstance(name, str) for name in found):
        raise Refused("its state_dict has names that are no text: rename them in Python")
    for pattern in arguments.drop:
        if not fnmatch.filter(found, pattern):
            raise Refused(f"--drop {pattern}: no name matches: leave it out, or name one of "
                          f"{some(found)}")
    kept = {
        name: x for name, x in found.items()
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.drop)
    }
    kept = renamed(kept, arguments.strip)
    if not kept:
        raise Refused("no tensor is left: drop fewer")
    for names in shared(kept):
        print(f"one tensor under several names: {some(names)}; --drop leaves one out")
    for prefix in WRAPPERS:
        if all(name.startswith(prefix) for name in kept):
            print(f"all names begin with `{prefix}`: --strip {prefix} removes it")
    dtype = getattr(torch, arguments.dtype) if arguments.dtype else None
    return with_own_memory({name: writable(name, x, dtype) for name, x in kept.items()})


def write(tensors, target):
    """Writes beside the target, then takes its place: it is whole, or as it was."""
    if target.is_dir():
        raise Refused(f"{target} is a folder: name a file, such as {target / 'model.safetensors'}")
    if target.exists() and not target.is_file():
        raise Refused(f"{target} is no regular file, such as a device: name a file")
    part = target.with_name(target.name + ".part")
    try:
        save_file(tensors, part, {"format": "pt"})
        os.replace(part, target)
    except (OSError, SafetensorError) as error:
        part.unlink(missing_ok=True)
        raise Refused(f"{target} cannot be written: {error}. Name another target") from error


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--key", action="append", default=[])
    parser.add_argument("--strip", action="append", default=[], metavar="PREFIX")
    parser.add_argument("--drop", action="append", default=[], metavar="PATTERN")
    parser.add_argument("--dtype", choices=("float64", "float32", "float16", "bfloat16"))
    arguments = parser.parse_args()
    try:
        tensors = convert(arguments)
        write(tensors, arguments.target)
    except Refused as why:
        sys.exit(f"pth_to_safetensors: {arguments.source}: {why}.")
    print(f"{len(tensors)} tensors in {arguments.target}")


if __name__ == "__main__":
    main()
