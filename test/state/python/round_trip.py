"""Safetensors files go from C++ to Python and back, in both directions, and lose no bit.

Usage: round_trip.py PROGRAM, by a Python that has torch and safetensors. The bytes of every tensor
are computed on both sides, so a tensor that both sides get wrong is detected as well.
"""

import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
# These are C++'s names of dtypes, with their numbers there. None means that Python's reader does
# not know the dtype.
TYPES = {
    "Byte": (0, torch.uint8), "Char": (1, torch.int8), "Short": (2, torch.int16),
    "Int": (3, torch.int32), "Long": (4, torch.int64), "Half": (5, torch.float16),
    "Float": (6, torch.float32), "Double": (7, torch.float64), "ComplexHalf": (8, None, 4),
    "ComplexFloat": (9, torch.complex64), "ComplexDouble": (10, None, 16), "Bool": (11, torch.bool),
    "BFloat16": (15, torch.bfloat16), "Float8_e5m2": (23, torch.float8_e5m2),
    "Float8_e4m3fn": (24, torch.float8_e4m3fn), "Float8_e5m2fnuz": (25, torch.float8_e5m2fnuz),
    "Float8_e4m3fnuz": (26, torch.float8_e4m3fnuz), "UInt16": (27, torch.uint16),
    "UInt32": (28, torch.uint32), "UInt64": (29, torch.uint64), "Float8_e8m0fnu": (44, None, 1),
    "Float4_e2m1fn_x2": (45, None, 1), "Bits1x8": (18, None, 1), "Bits2x4": (19, None, 1),
    "Bits4x2": (20, None, 1), "Bits8": (21, None, 1), "Bits16": (22, None, 2),
}
SHAPES = {
    "zero_dimensional": (), "empty": (0,), "empty_matrix": (2, 0, 3), "dense": (3, 5),
    "transposed": (3, 5), "part": (3, 5), "channels_last": (2, 3, 4, 5),
}
NAMES = ["", 'a "quoted" name', "back\\slash", "ü, 漢, 🌸", "\n\t\r\b\f", "\x01 \x1f \x7f",
         "../outside", "zero\0inside", "\u2028", "ikebana.crc32", 'x"ikebana.crc32']


def cpp(*words):
    subprocess.run([PROGRAM, *words], check=True)


def refused(*words):
    run = subprocess.run([PROGRAM, *words], stderr=subprocess.PIPE, text=True)
    assert run.returncode == 1, words
    return run.stderr


def pattern(shape, dtype, seed, width=None):
    """As round_trip.cpp computes it; `width` bytes per element if Python has no such dtype."""
    size = width or torch.empty((), dtype=dtype).element_size()
    numbers = [(i * 73 + seed * 29) % 251 for i in range(math.prod(shape) * size)]
    raw = torch.tensor(numbers, dtype=torch.uint8)
    if dtype is torch.bool:
        raw &= 1
    return raw.view(*shape, width) if width else raw.view(dtype).view(shape)


def expected():
    tensors = {
        f"{name}.{how}": pattern(shape, dtype, number, *width)
        for name, (number, dtype, *width) in TYPES.items()
        for how, shape in SHAPES.items()
    }
    return tensors | {n: pattern((3,), torch.float32, i) for i, n in enumerate(NAMES)}


def bytes_of(x):
    return x.contiguous().reshape(-1).view(torch.uint8)


def check(found, wanted):
    assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    for name, x in wanted.items():
        y = found[name]
        assert (x.dtype, x.shape) == (y.dtype, y.shape), (name, y.dtype, y.shape)
        assert torch.equal(bytes_of(x), bytes_of(y)), f"{name} has other bits"


def verify(path):
    """The checksums of a file, with nothing but Python's own library."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    text, tensors = data[8 : 8 + length], data[8 + length :]
    header = json.loads(text)
    checksums = header.pop("__metadata__")
    own = f'"ikebana.crc32":"{checksums["ikebana.crc32"]}"'.encode()
    zeroed = text.replace(own, b'"ikebana.crc32":"00000000"', 1)
    assert f"{zlib.crc32(data[:8] + zeroed):08x}" == checksums["ikebana.crc32"]
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert f"{zlib.crc32(tensors[begin:end]):08x}" == checksums["ikebana.crc32." + name], name


def opened(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()


def from_cpp(folder):
    """C++ writes; Python reads, and writes what it read; C++ reads that, and so on."""
    first, theirs, again = (folder / name for name in ("first", "theirs", "again"))
    cpp("write", first)
    cpp("check", first)
    tensors, metadata = opened(first)
    check(tensors, expected())
    check(load_file(first), expected())
    verify(first)
    assert metadata["format"] == "pt" and metadata['a "quoted" key'] == "back\\slash 漢 \n"
    types = {key: value for key, value in metadata.items() if key.startswith("ikebana.dtype.")}
    assert {key.split(".")[2] for key in types} == {n for n, t in TYPES.items() if t[1] is None}
    save_file(tensors, theirs)
    cpp("copy", theirs, again)
    check(opened(again)[0], expected())
    verify(again)
    assert "other bits" in refused("check", again)  # Python read these dtypes as U8 and lost them
    save_file(tensors, theirs, types)
    assert "no checksum" in refused("check", theirs)  # which ikebana's metadata must have
    return first


def from_python(folder):
    """Python writes all types that it has, with no checksum; C++ reads, and writes; and so on."""
    theirs, ours, back = (folder / name for name in ("theirs", "ours", "back"))
    wanted = {n: x.clone() for n, x in expected().items()}
    save_file(wanted, theirs, {"note": "漢 \"\\"})
    cpp("copy", theirs, ours)
    tensors, metadata = opened(ours)
    check(tensors, wanted)
    assert metadata["note"] == "漢 \"\\"
    verify(ours)
    save_file(tensors, back)
    cpp("compare", back, theirs)
    cpp("copy", ours, back)  # with checksums in the metadata of the copied file
    check(load_file(back), wanted)
    verify(back)


def damaged(path):
    """A flipped bit anywhere is detected by C++ and by Python."""
    data = bytearray(path.read_bytes())
    for place in (9, 40, len(data) - 1):
        data[place] ^= 1
        path.write_bytes(data)
        assert "damaged" in refused("check", path)
        try:
            verify(path)
        except (AssertionError, ValueError, KeyError):
            pass
        else:
            raise AssertionError(f"Python did not detect the bit that was flipped at byte {place}")
        data[place] ^= 1


with tempfile.TemporaryDirectory() as name:
    written = from_cpp(pathlib.Path(name))
    from_python(pathlib.Path(name))
    damaged(written)
print(f"{len(expected())} tensors, both ways")
