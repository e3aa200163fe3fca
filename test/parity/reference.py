"""Makes references of rows: what to train, with Python's results computed in FP64 on a CPU.

Usage: reference.py FOLDER PROGRAM [ROW]...

A training in FP32 on any device must come close to them (`parity.py --reference FOLDER`), and does
not if C++ and Python have the same fault on it. Each file also has the results of a wrong
learning rate, to which it must not come as close.
"""

import pathlib
import sys
import tempfile

import agreement
import place
import program as cpp
import torch
from safetensors.torch import load_file, save_file

ROWS = ("gpt.fp32", "resnet.sgd", "lstm.fp32", "lm.clip", "mlp.fp32")
MOST = 3 << 20  # bytes in all
DRAWN = ("initial.", "batch.")
# Another processor may have other vector instructions, and then draws numbers of other last bits.
SAME_DRAW = 1e-6


def make(name, source, folder):
    row = agreement.Row(source / f"{name}.safetensors", loose=True)
    where = place.Place(double=True)
    exact, wrong = row.twin(where), row.twin(where, row.bounds.rate())
    wrong |= {"rates": exact["rates"]}
    file = {n: x for n, x in row.file.items() if n.startswith(DRAWN)} | exact
    file |= {f"wrong.{n}": x for n, x in wrong.items()}
    file = {n: x.clone(memory_format=torch.contiguous_format) for n, x in file.items()}
    path = folder / f"{name}.safetensors"
    save_file(file, path, row.meta)
    path.chmod(0o644)
    return [f"{name}: {line}" for line in disagreements(row, file)]


def drawn_apart(row, file):
    """Returns a line if C++ draws other weights and batches than the ones that the reference was
    made of."""
    mine, theirs = ({n: x for n, x in f.items() if n.startswith(DRAWN)} for f in (row.file, file))
    if mine.keys() == theirs.keys():
        apart = max(agreement.relative(mine[n].double(), theirs[n].double()) for n in mine)
        if apart <= SAME_DRAW:
            return []
    return ["its weights and batches are not those of the reference: another LibTorch draws them"]


def check(row_path, path):
    """How far C++ is from the reference, as text, and what is wrong with that."""
    row = agreement.Row(row_path, loose=True)
    losses, weights = row.apart(load_file(path))
    return f"from FP64 {losses:.2g} and {weights:.2g}", disagreements(row, load_file(path))


def disagreements(row, file):
    """Returns a line for each result of C++ that is not close to the reference."""
    if other := drawn_apart(row, file):
        return other
    lines = row.disagreements(agreement.results_of(file))
    if not row.disagreements(agreement.part(file, "wrong.")):
        lines.append("a reference with a wrong learning rate agrees as well: nothing is proved")
    return [f"{line}, compared with FP64" for line in lines]


def main(folder, program, *names):
    folder, wrong = pathlib.Path(folder), []
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as source:
        reports = cpp.train(program, source, "cpu", names or ROWS)
        wrong += [f"{name}: {error}" for name, error in reports.items() if error]
        for name in (name for name, error in reports.items() if not error):
            wrong += make(name, pathlib.Path(source), folder)
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if size > MOST:
        wrong.append(f"the references take {size} bytes, more than {MOST}")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
