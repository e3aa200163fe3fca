"""scripts/pth_to_safetensors.py: every form of a file of torch.save, to the bit, and every refusal.

Usage: pth_weights.py PROGRAM, by a Python that has torch and safetensors; PROGRAM is
state_round_trip, which reads what the script wrote and names the script if it is needed.
"""

import argparse
import importlib.util
import io
import pathlib
import subprocess
import sys
import tempfile
import warnings
import zipfile
from contextlib import redirect_stdout
from io import StringIO
from unittest import mock

import torch
from safetensors.torch import load_file

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "scripts/pth_to_safetensors.py"
spec = importlib.util.spec_from_file_location("pth_to_safetensors", SCRIPT)
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)

torch.manual_seed(0)
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8,
          torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2)
NEWER = DTYPES[-2:]  # than the format of torch.save before zip archives
PLAIN = {f"layer.{i}": (torch.randn(3, 5) * 9).to(t) for i, t in enumerate(DTYPES)}
PLAIN |= {"number": torch.tensor(3), "none": torch.empty(0, 4),
          "across": torch.randn(4, 6).t(), "part": torch.randn(9, 9)[2:5, ::2],
          "twice": torch.ones(3).expand(2, 3)}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 3)

    def forward(self, x):
        return self.inner(x)


def run(*words):
    """The script's words on stdout, and its error, if any."""
    out = StringIO()
    with mock.patch.object(sys, "argv", ["pth_to_safetensors", *map(str, words)]):
        with redirect_stdout(out):
            try:
                script.main()
            except SystemExit as end:
                return out.getvalue(), str(end.code)
    return out.getvalue(), ""


def converted(source, target, *words):
    out, error = run(source, target, *words)
    assert not error, error
    return load_file(target), out


def same(found, wanted):
    assert found.keys() == wanted.keys(), found.keys() ^ wanted.keys()
    for name, x in wanted.items():
        y = found[name]
        assert (x.dtype, x.shape) == (y.dtype, y.shape), (name, y.dtype, y.shape)
        both = [t.contiguous().reshape(-1).view(torch.uint8) for t in (x, y)]
        assert torch.equal(*both), f"{name} has other bits"


def forms(source, target):
    """A state_dict, checkpoints that hold one, both formats of torch.save, and a copy by C++."""
    older = {name: x for name, x in PLAIN.items() if x.dtype not in NEWER}
    for legacy, tensors in ((True, older), (False, PLAIN)):
        for content, words in (
            (tensors, ()),
            ({"state_dict": tensors, "epoch": 3}, ()),
            ({"model": tensors, "optimizer": {"state": {0: {"step": torch.ones(1)}}}}, ()),
            ({"model_state_dict": tensors}, ()),
            ({"ema": tensors, "model": {"x": torch.ones(1)}}, ("--key", "ema")),
            ({"deep": {"er": tensors}}, ("--key", "deep", "--key", "er")),
        ):
            torch.save(content, source, _use_new_zipfile_serialization=not legacy)
            same(converted(source, target, *words)[0], tensors)
    copy = target.with_name("copy")
    subprocess.run([PROGRAM, "copy", target, copy], check=True)
    same(load_file(copy), PLAIN)
    torch.save(Net().state_dict(), source)
    assert list(converted(source, target)[0]) == ["inner.bias", "inner.weight"]


def names(source, target):
    """Prefixes, names that are left out, tied tensors, dtypes."""
    w = torch.randn(2, 2)
    compiled = {"module._orig_mod.a.w": w, "module._orig_mod.layers.0._orig_mod.module.w": w + 1}
    torch.save(compiled, source)
    found, out = converted(source, target)
    same(found, compiled)
    assert "all names begin with `module.`: --strip module." in out
    found, _ = converted(source, target, "--strip", "module.", "--strip", "_orig_mod.")
    same(found, {"a.w": w, "layers.0.module.w": w + 1})  # `module` inside is the model's own
    same(converted(source, target, "--strip", "_orig_mod.", "--strip", "module.")[0], found)
    torch.save({"embed.w": w, "head.w": w, "row": w[0], "n": torch.arange(3)}, source)
    found, out = converted(source, target)
    same(found, {"embed.w": w, "head.w": w, "row": w[0], "n": torch.arange(3)})
    assert "one tensor under several names: `embed.w`, `head.w`" in out and "row" not in out
    assert converted(source, target, "--drop", "head.*")[0].keys() == {"embed.w", "row", "n"}
    found, _ = converted(source, target, "--dtype", "bfloat16")
    same(found, {"embed.w": w.bfloat16(), "head.w": w.bfloat16(), "row": w[0].bfloat16(),
                 "n": torch.arange(3)})
    torch.save({"s": torch.eye(3).to_sparse()}, source)
    same(converted(source, target)[0], {"s": torch.eye(3)})


def refusal_of(source, target):
    """A function that saves a file, converts it, and looks for words in the error."""
    def refused(*words, content=None, arguments=()):
        if content is not None:
            torch.save(content, source)
        target.write_text("former")
        error = run(source, target, *arguments)[1]
        for word in (str(source), *words):
            assert word in error, (word, error)
        assert "\n" not in error and target.read_text() == "former", error

    return refused


def refusals(source, target):
    refused = refusal_of(source, target)
    w = torch.ones(2)
    refused("(__main__.Net)", "model.state_dict()", content=Net())
    refused("(argparse.Namespace)", content={"model": {"w": w}, "args": argparse.Namespace(a=1)})
    refused("holds a list, not a state_dict", content=[w])
    refused("holds no state_dict", "--key", "`epoch`", content={"epoch": 3, "x": {}})
    refused("holds several state_dict", content={"model": {"w": w}, "state_dict": {"w": w}})
    refused("no --key other", "`model`", content={"model": {"w": w}}, arguments=("--key", "other"))
    refused("`extra` is no tensor but a int", "--drop 'extra'", content={"w": w, "extra": 3})
    refused("names that are no text", content={3: w})
    refused("device meta", content={"w": torch.empty(2, device="meta")})
    refused("no tensor is left", content={"w": w}, arguments=("--drop", "*"))
    refused("--drop v: no name matches", content={"w": w}, arguments=("--drop", "v"))
    refused("--strip x.: no name has it", content={"w": w}, arguments=("--strip", "x."))
    refused("the name of another", content={"w": w, "m.w": w + 1}, arguments=("--strip", "m."))
    torch.save({"w": torch.randn(99)}, source)
    source.write_bytes(source.read_bytes()[:-90])
    refused("is cut off or damaged")
    source.write_bytes(b"hello world")
    refused("neither a zip archive nor a pickle")
    source.write_bytes(b"\x80\x02hello world")
    refused("torch.load cannot read it")
    source.write_bytes(b"GGUF" + bytes(20))
    refused("gguf_to_safetensors.py")
    source.unlink()
    torch.jit.script(Net()).save(source)
    refused("TorchScript archive", "torch.jit.load")
    source.write_bytes(pathlib.Path(converted_file(target)).read_bytes())
    refused("is a safetensors file already")
    source.unlink()
    refused("No such file")


STORAGE = torch.arange(120.0).numpy().tobytes()


def whole(source):
    torch.save({"w": torch.arange(120.0)}, source)
    return source.read_bytes()


def changed_storage(source, change):
    """Makes an intact archive with a storage of another length."""
    with zipfile.ZipFile(io.BytesIO(whole(source))) as archive, zipfile.ZipFile(source, "w") as new:
        for name in archive.namelist():
            record = archive.read(name)
            new.writestr(name, change(record) if record == STORAGE else record)


def checksums(source, target):
    """An archive without checksums is read, and that is said; a device is not replaced."""
    torch.serialization.set_crc32_options(False)
    whole(source)
    torch.serialization.set_crc32_options(True)
    found, out = converted(source, target)
    same(found, {"w": torch.arange(120.0)})
    assert "the archive has no checksums" in out
    device = target.with_name("null")
    device.symlink_to("/dev/null")
    assert "is no regular file" in run(source, device)[1] and device.is_symlink()
    shared = torch.randn(4, 4)
    views = {"a": shared, "b": shared, "row": shared[1], "t": shared.t()}
    torch.save(views, source)
    same(converted(source, target)[0], {n: x.contiguous() for n, x in views.items()})


def damaged(source, target):
    """Values that a dtype cannot hold, and archives with other bytes than were written."""
    refused = refusal_of(source, target)
    w = torch.ones(2)
    refused("a tensor has an empty name", "--drop ''", content={"": w, "v": w})
    large = {"v": w, "w": torch.tensor([1e5, float("inf"), 1.0])}
    refused("`w` has 1 values that float16 cannot hold, the largest is 100000", content=large,
            arguments=("--dtype", "float16"))
    large = {"w": torch.tensor([1e300], dtype=torch.float64)}
    refused("`w` has 1 values that float32 cannot hold", content=large,
            arguments=("--dtype", "float32"))
    for change in (lambda x: x[:40], lambda x: x + bytes(40)):
        changed_storage(source, change)
        refused("record size", "does not match expected size")
    data = bytearray(whole(source))
    data[data.index(STORAGE[:40]) + 9] ^= 4
    source.write_bytes(data)
    refused("its record `", "/data/0` is damaged: Bad CRC-32")
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(source, "w") as archive:
        for name in ("w/data.pkl", "w/data.pkl"):
            archive.writestr(name, b"x")
    refused("its record `w/data.pkl` is there twice")


def converted_file(target):
    place = target.with_name("other")
    script.save_file({"w": torch.ones(2)}, place)
    return place


def from_cpp(source, target):
    """ikebana names the script for what this Python has really written."""
    def asked():
        done = subprocess.run([PROGRAM, "copy", source, target], stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1
        return done.stderr

    for legacy, what in ((False, "is a file of torch.save"), (True, "is a pickle")):
        torch.save(Net().state_dict(), source, _use_new_zipfile_serialization=not legacy)
        error = asked()
        assert what in error and f"pth_to_safetensors.py {source} " in error, error
    torch.jit.script(Net()).save(source)
    assert "is a TorchScript archive" in asked()


with tempfile.TemporaryDirectory() as folder:
    for part in (forms, names, refusals, damaged, checksums, from_cpp):
        part(pathlib.Path(folder) / "source.pth", pathlib.Path(folder) / "target.safetensors")
print("files of torch.save become safetensors to the bit")
