"""Writes shards with Python's tarfile in its three formats, and compares the samples that
tar_program finds with the samples by WebDataset's rules. Usage: python oracle_tar.py PROGRAM"""

import io
import json
import random
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


def divide(name):
    """Is webdataset.tariterators.base_plus_ext, which makes a sample of some hidden files."""
    if Path(name).name.startswith("."):
        return None, None
    match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
    return match.groups() if match else (None, None)


def make(rng, path, form):
    """Writes a shard and returns its samples in WebDataset's order."""
    samples = {}
    with tarfile.open(path, "w", format=form) as tar:
        for i in range(rng.randrange(1, 9)):
            folder = rng.choice(("", "./", "a.b/", "x" * 40 + "/", "folder/" * 20, f"{'y' * 120}/"))
            key = folder + rng.choice(("", "ü", "z" * 150)) + f"{i:06}"
            extensions = ("jpg", "cls", "seg.png", "JSON", "txt")
            for extension in rng.sample(extensions, rng.randrange(1, 5)):
                add(rng, tar, samples, f"{key}.{extension}")
            if rng.random() < 0.2:
                name = rng.choice(("README", ".hidden", "a/._x.jpg", "__meta__/x.y"))
                add(rng, tar, samples, name)
            if rng.random() < 0.2:
                folder = tarfile.TarInfo(f"folder{i}.d")
                folder.type = tarfile.DIRTYPE
                tar.addfile(folder)
    return samples


def add(rng, tar, samples, name):
    bytes_ = rng.randbytes(rng.choice((0, 1, 511, 512, 513, 3000)))
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(bytes_), rng.choice((0, 1700000000.25))
    try:
        tar.addfile(info, io.BytesIO(bytes_))
    except ValueError:  # a name that ustar cannot hold
        return
    key, extension = divide(name)
    if key is not None and not re.match(r"__[^/]*__($|/)", name):
        samples.setdefault(key, {})[extension.lower()] = bytes_


def main():
    rng = random.Random(0)
    forms = {"ustar": tarfile.USTAR_FORMAT, "pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT}
    files = 0
    with tempfile.TemporaryDirectory() as folder:
        shards, expected = [], []
        for name, form in forms.items():
            for i in range(30):
                shards.append(Path(folder, f"{name}-{i:03}.tar"))
                expected.append(make(rng, shards[-1], form))
        for name, form in forms.items():
            shards.append(f"{folder}/{name}-{{000..029}}.tar")
            expected.append([s for path, samples in zip(shards, expected)
                             if Path(path).name.startswith(name + "-") and isinstance(samples, dict)
                             for s in samples.items()])
        # Empty shards are an error by themselves.
        kept = [(path, samples) for path, samples in zip(shards, expected) if samples]
        out = subprocess.run([sys.argv[1], *(str(path) for path, _ in kept)], check=True,
                             stdout=subprocess.PIPE, text=True, encoding="utf-8").stdout
        lines = iter(out.splitlines())
        for path, samples in kept:
            samples = samples if isinstance(samples, list) else list(samples.items())
            assert int(next(lines)) == len(samples), f"{path}: number of samples"
            for key, content in samples:
                for extension, bytes_ in sorted(content.items()):
                    got = json.loads("[" + next(lines).replace('" "', '", "') + "]")
                    assert got == [key, extension, bytes_.hex()], f"{path}: {got[:2]}, {key}"
                    files += 1
    print(f"{files} files of {len(kept)} patterns of shards were read with equal bytes")


main()
