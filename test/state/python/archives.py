"""Zip archives and JSON go from C++ to Python and back.

Usage: archives.py PROGRAM, by a Python that has torch. Archives of the library are opened by
zipfile, by PyTorch's reader and by torch.export.load; archives of torch.export.save, torch.save
and zipfile are read by the library, also damaged ones.
"""

import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

import torch

PROGRAM = pathlib.Path(sys.argv[1]).resolve()


def cpp(*words):
    subprocess.run([PROGRAM, *words], check=True)


def refused(*words):
    run = subprocess.run([PROGRAM, *words], stderr=subprocess.PIPE, text=True)
    assert run.returncode == 1, words
    return run.stderr


def listed(path):
    cpp("list", path, path.with_suffix(".json"))
    return json.loads(path.with_suffix(".json").read_text())


def check_listed(path, root):
    """What C++ reads of an archive is what zipfile reads of it."""
    found = listed(path)
    assert found["root"] == root, found
    prefix = f"{root}/" if root else ""
    with zipfile.ZipFile(path) as file:
        expected = {name.removeprefix(prefix): (len(file.read(name)), zlib.crc32(file.read(name)))
                    for name in file.namelist() if not name.endswith("/")}
    assert {k: (v["size"], v["crc"]) for k, v in found["entries"].items()} == expected, found


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.register_buffer("empty", torch.zeros(0))

    def forward(self, x):
        return self.linear(x).relu() + 1


def check_export(folder):
    """torch.export.save, then C++, then torch.export.load."""
    model, x = Model(), torch.randn(2, 3)
    torch.export.save(torch.export.export(model, (x,)), folder / "program.pt2")
    check_listed(folder / "program.pt2", "program")
    cpp("copy", folder / "program.pt2", folder / "written.pt2")
    check_listed(folder / "written.pt2", "copy")
    loaded = torch.export.load(folder / "written.pt2").module()
    assert torch.equal(loaded(x), model(x))
    torch.save(model.state_dict(), folder / "weights.pt")
    check_listed(folder / "weights.pt", "weights")
    cpp("copy", folder / "weights.pt", folder / "copy.pt")
    weights = torch.load(folder / "copy.pt", mmap=True)
    assert all(torch.equal(weights[name], t) for name, t in model.state_dict().items())


def check_small(folder):
    path = folder / "small.pt2"
    cpp("small", path)
    check_listed(path, "model")
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert all(info.date_time == (1980, 1, 1, 0, 0, 0) for info in file.infolist())
    reader = torch._C.PyTorchFileReader(str(path))
    assert reader.get_all_records() == ["archive_format", "ü 漢", "empty", ".data/version",
                                        "byteorder"]
    assert reader.get_record("archive_format") == b"pt2"
    assert reader.get_record("ü 漢") == b"x" * 3_000_000
    assert reader.get_record_offset("empty") % 64 == 0


def check_large(folder):
    path = folder / "large.pt2"
    cpp("large", path)
    size = (4 << 30) + 5
    with zipfile.ZipFile(path) as file:
        assert file.read("model/first") + file.read("model/last") == b"12"
        with file.open("model/large") as large:  # compares the checksum at its end
            count = 0
            while piece := large.read(1 << 24):
                count, end = count + len(piece), piece[-5:]
        assert (count, end) == (size, b"12345")
        assert file.getinfo("model/last").header_offset > size
    reader = torch._C.PyTorchFileReader(str(path))
    assert reader.get_record("first") + reader.get_record("last") == b"12"
    assert reader.has_record("large")
    assert listed(path)["entries"]["large"]["size"] == size
    path.unlink()


def check_zipfile(folder):
    """Archives that zipfile writes, also to a stream, with zip64 and with folders."""
    class Stream:
        """A file that cannot seek, so that sizes stand behind the entries."""

        def __init__(self, file):
            self.file = file

        def write(self, data):
            return self.file.write(data)

        def flush(self):
            self.file.flush()

    def fill(file):
        file.writestr("m/a/b", b"hello")
        file.writestr("m/folder/", b"")
        file.writestr("m/empty", b"")
        with file.open("m/wide", "w", force_zip64=True) as entry:
            entry.write(b"x" * 1000)
        file.comment = b"a comment"

    with zipfile.ZipFile(folder / "seekable.zip", "w") as file:
        fill(file)
    with open(folder / "stream.zip", "wb") as raw, zipfile.ZipFile(Stream(raw), "w") as file:
        fill(file)
    for name in ("seekable", "stream"):
        check_listed(folder / f"{name}.zip", "m")
    with zipfile.ZipFile(folder / "seekable.zip", "a") as file:
        file.writestr("other", b"appended")
    check_listed(folder / "seekable.zip", "")
    with zipfile.ZipFile(folder / "packed.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("m/a", b"hello" * 100)
    assert "`m/a` is compressed, by method 8" in refused("list", folder / "packed.zip", "none")
    with zipfile.ZipFile(folder / "twice.zip", "w") as file:
        file.writestr("m/a", b"1")
        file.writestr("m/a", b"2")
    assert "`m/a` appears twice" in refused("list", folder / "twice.zip", "none")


def check_json(folder):
    """Every text and number of Python's json is read and written as the same one."""
    random.seed(1)
    points = [*range(0, 0x80), 0xe9, 0x2028, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff]
    texts = ["".join(map(chr, random.choices(points, k=random.randrange(20)))) for _ in range(500)]
    wholes = [0, 1, -1, 2**63 - 1, -(2**63), *(random.getrandbits(63) for _ in range(100))]
    bits = [random.getrandbits(64) for _ in range(5000)]
    numbers = [0.0, -0.0, 1.0, 1e22, 5e-324, math.inf, -math.inf, math.nan,
               *(struct.unpack("<d", struct.pack("<Q", b))[0] for b in bits)]
    (folder / "numbers").write_bytes(struct.pack(f"<{len(numbers)}d", *numbers))
    for ensure_ascii in (True, False):
        (folder / "in.json").write_text(json.dumps({"texts": texts, "wholes": wholes},
                                                   ensure_ascii=ensure_ascii), encoding="utf-8")
        cpp("json", folder / "in.json", folder / "numbers", folder / "out.json")
        found = json.loads((folder / "out.json").read_text(encoding="utf-8"))
        assert found["texts"] == texts
        assert found["wholes"] == wholes
        for number, read in zip(numbers, found["numbers"], strict=True):
            if math.isfinite(number):
                assert type(read) is float
                assert struct.pack("<d", read) == struct.pack("<d", number)
            else:
                assert read == {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, "NaN")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for check in (check_export, check_small, check_large, check_zipfile, check_json):
            check(folder)


if __name__ == "__main__":
    main()
