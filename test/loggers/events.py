"""TensorBoard reads the event files that TensorBoardLogger wrote: every value to the bit, no point
twice after a resume, and histograms as torch.utils.tensorboard makes them.

Usage: events.py PROGRAM, the program of events.cpp. Exits 1 and names what differs.
"""

import collections
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy
from tensorboard.backend.event_processing import event_accumulator
from torch.utils.tensorboard.summary import make_histogram


def bits(value):
    return struct.pack(">f", value).hex()


def read(folder):
    """All points of a run: {kind: {tag: [(step, value)]}}."""
    run = event_accumulator.EventAccumulator(str(folder), size_guidance={
        event_accumulator.SCALARS: 0, event_accumulator.HISTOGRAMS: 0,
        event_accumulator.TENSORS: 0})
    run.Reload()
    tags = run.Tags()
    return {
        "scalar": {tag: [(e.step, bits(e.value)) for e in run.Scalars(tag)]
                   for tag in tags["scalars"]},
        "histogram": {tag: [(e.step, e.histogram_value) for e in run.Histograms(tag)]
                      for tag in tags["histograms"]},
        "text": {tag: [(e.step, e.tensor_proto.string_val[0].decode()) for e in run.Tensors(tag)]
                 for tag in tags["tensors"]},
    }


def expected(lines, root):
    runs = collections.defaultdict(lambda: {"scalar": {}, "histogram": {}, "text": {}})
    for line in lines:
        run, kind, tag, step, value = line.split(" ", 4)
        if kind == "histogram":
            value = numpy.fromfile(root / value)
        elif kind == "text":
            value = value.replace("\\n", "\n")
        runs[run][kind].setdefault(tag, []).append((int(step), value))
    return runs


def limits():
    """The buckets of torch.utils.tensorboard's SummaryWriter."""
    limit, positive = 1e-12, []
    while limit < 1e20:
        positive.append(limit)
        limit *= 1.1
    return [-x for x in positive[::-1]] + [0] + positive


def histogram_differences(made, values):
    wanted = make_histogram(values, limits())
    for field in "min", "max", "num":
        if getattr(made, field) != getattr(wanted, field):
            yield f"{field} is {getattr(made, field)} instead of {getattr(wanted, field)}"
    for field in "bucket_limit", "bucket":
        if list(getattr(made, field)) != list(getattr(wanted, field)):
            yield f"{field} differs"
    for field in "sum", "sum_squares":  # NumPy adds up in another order
        if not numpy.isclose(getattr(made, field), getattr(wanted, field), rtol=1e-12):
            yield f"{field} is {getattr(made, field)} instead of {getattr(wanted, field)}"


def differences(root, lines):
    for run, wanted in expected(lines, root).items():
        found = read(root / run)
        for kind in wanted:
            if set(found[kind]) != set(wanted[kind]):
                yield f"{run}: the tags are {sorted(found[kind])}, not {sorted(wanted[kind])}"
                continue
            for tag, points in wanted[kind].items():
                made = found[kind][tag]
                if kind == "histogram":
                    if [s for s, _ in made] != [s for s, _ in points]:
                        yield f"{run}: {tag} has other steps"
                    for (_, one), (_, values) in zip(made, points):
                        yield from (f"{run}: {tag}: {found_difference}" for found_difference
                                    in histogram_differences(one, values))
                elif sorted(made) != sorted(points):
                    yield f"{run}: {tag} is {sorted(made)}, not {sorted(points)}"


def finds_differences(root, lines):
    """Whether other values, points and bytes are found."""
    scalar = next(i for i, line in enumerate(lines) if " scalar loss 7 " in line)
    changed = lines[scalar][:-1] + ("0" if lines[scalar][-1] != "0" else "1")
    yield any(differences(root, [*lines[:scalar], changed, *lines[scalar + 1:]]))
    yield any(differences(root, [*lines[:scalar], *lines[scalar + 1:]]))
    damaged = root / "values"
    file = next(damaged.iterdir())
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    yield any(differences(root, lines))


def main(program):
    root = pathlib.Path(tempfile.mkdtemp())
    try:
        output = subprocess.run([program, root], check=True, capture_output=True, text=True)
        lines = output.stdout.splitlines()
        wrong = list(differences(root, lines))
        print("\n".join(wrong))
        if not wrong and not all(finds_differences(root, lines)):
            wrong = ["a difference that was made is not found"]
            print(wrong[0])
        print(f"{len(lines)} values were compared")
        return bool(wrong) or len(lines) < 90
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
