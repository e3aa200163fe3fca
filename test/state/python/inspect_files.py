"""examples/ikebana-inspect.cpp: its output for intact, damaged and foreign files, and for two.

Usage: inspect_files.py INSPECT ROUND_TRIP, by a Python that has torch and safetensors.
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file

INSPECT, ROUND_TRIP = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])


def output_of(status, *files):
    done = subprocess.run([INSPECT, *files], text=True, capture_output=True)
    assert done.returncode == status, (status, done.stdout, done.stderr)
    return done.stdout


def one_file(path, folder):
    subprocess.run([ROUND_TRIP, "write", path], check=True)
    text = output_of(0, path)
    assert "Float.dense" in text and "F32 [3, 5]" in text and "60 bytes  checksum: good" in text
    assert "ComplexDouble [3, 5] " in text and "ComplexDouble [] " in text
    assert "\\x0a\\x09" in text and "intact: all checksums agree" in text
    assert "format: pt" in text and "ikebana.crc32.Float" not in text
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    (folder / "flipped").write_bytes(data)
    text = output_of(1, folder / "flipped")
    assert text.count("DAMAGED") == 1 and "1 tensors are damaged" in text
    data[9] ^= 1
    (folder / "flipped").write_bytes(data)
    assert "is damaged or not a safetensors file, at byte" in output_of(1, folder / "flipped")


def two_files(path, folder):
    assert "the same bits" in output_of(0, path, path)
    mine = {"a": torch.tensor([[1.0, 2.0], [3.0, float("nan")]]), "b": torch.zeros(2, 3),
            "c": torch.zeros(4), "d": torch.tensor(1 + 2j), "e": torch.ones(0)}
    theirs = mine | {"a": torch.tensor([[1.0, 2.5], [3.25, float("nan")]]),
                     "b": torch.zeros(3, 2), "c": torch.zeros(4).bfloat16(), "f": torch.ones(1)}
    del theirs["d"]
    first, second = folder / "first", folder / "second"
    save_file(mine, first)
    save_file(theirs, second)
    assert "checksum: none" in output_of(0, first) and "no checksums" in output_of(0, first)
    text = output_of(1, first, second)
    for line in ("a: 2 of 4 elements, by at most 0.5", "b: F32 [2, 3] and F32 [3, 2]",
                 "c: F32 [4] and BF16 [4]", "d: only in the first: C64 []",
                 "f: only in the second: F32 [1]", "5 of 6 tensors differ"):
        assert line in text, (line, text)
    save_file(mine | {"a": -mine["a"], "d": torch.tensor(1 + 5j)}, second)
    text = output_of(1, first, second)
    assert "a: 4 of 4 elements, some by NaN" in text
    assert "d: 1 of 1 elements, by at most 3" in text
    copy = load_file(first)
    save_file(copy, second, {"other": "metadata"})
    assert "the same bits" in output_of(0, first, second)


with tempfile.TemporaryDirectory() as name:
    here = pathlib.Path(name)
    one_file(here / "whole", here)
    two_files(here / "whole", here)
    output_of(2)
    output_of(2, here / "none")
    output_of(2, here, here, here)
