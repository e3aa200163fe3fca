"""Writes random tables with Python's csv module, lets csv_program read them, and compares every
value; and StandardScaler's numbers with numpy's, and scikit-learn's if it is installed.
Usage: python oracle_csv.py PROGRAM [TABLES]"""

import csv
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

MISSING = ("", "NA", "NaN", "null", "None", "N/A")
LETTERS = 'ab ,"\n\r;é\'\t#-.0'


def text(rng):
    return "x" + "".join(rng.choice(LETTERS) for _ in range(rng.randrange(12)))


def double(rng):
    return rng.choice((repr(rng.uniform(-1e3, 1e3)),
                       repr(rng.gauss(0, 1) * 10 ** rng.randrange(-300, 300)),
                       f"{rng.uniform(-9, 9):.3f}", f"{rng.getrandbits(80)}.{rng.getrandbits(60)}",
                       f"+{rng.random():.17e}", "inf", "-inf", str(rng.randrange(10**6)) + ".0"))


MAKERS = {"Long": lambda rng: str(rng.choice((rng.randrange(-9, 9), rng.randrange(-2**63, 2**63)))),
          "Double": double, "Bool": lambda rng: rng.choice(("True", "false", "TRUE")), "text": text}


def make_column(rng, rows):
    kind = rng.choice(list(MAKERS))
    may_miss = rng.random() < 0.4 and kind != "Long"
    values = [rng.choice(MISSING) if may_miss and rng.random() < 0.3 else MAKERS[kind](rng)
              for _ in range(rows)]
    if all(v in MISSING for v in values) or (kind == "Bool" and any(v in MISSING for v in values)):
        return "Double", values
    return kind, values


def written(kind, value):
    """Returns how csv_program writes a value."""
    if value in MISSING:
        return "missing"
    if kind == "text":
        return value
    if value.lower() in ("true", "false"):
        return float(value.lower() == "true")
    return int(value) if kind == "Long" else float(value)


def read(kind, line):
    if line == "missing":
        return line
    return json.loads(line) if kind == "text" else int(line) if kind == "Long" else float(line)


def make(rng, path):
    rows, width = rng.choice((1, 2, 7, 40)), rng.randrange(1, 6)
    names = [f"{i}{text(rng)}" for i in range(width)]
    columns = [make_column(rng, rows) for _ in names]
    encoding = "utf-8-sig" if rng.random() < 0.3 else "utf-8"
    with open(path, "w", newline="", encoding=encoding) as file:
        # Python 3.11 leaves a line break of another kind in a field without quotes.
        end = rng.choice(("\n", "\r\n", "\r"))
        quoting = csv.QUOTE_MINIMAL if end == "\r\n" else csv.QUOTE_ALL
        writer = csv.writer(file, lineterminator=end, quoting=quoting)
        writer.writerow(names)
        writer.writerows(zip(*(values for _, values in columns)))
    return list(zip(names, columns))


def check(path, columns):
    lines = iter(Path(f"{path}.out").read_text(encoding="utf-8").split("\n"))
    for name, (kind, values) in columns:
        got = json.loads(next(lines)), next(lines)
        assert got == (name, kind), f"{path}: column {got}, expected {name!r} {kind}"
        for value in values:
            line, expected = next(lines), written(kind, value)
            same = read(kind, line) == expected
            if isinstance(expected, float):
                same = same and math.copysign(1, float(line)) == math.copysign(1, expected)
            assert same, f"{path}, {name!r}: {line}, expected {expected!r}"
        assert next(lines) == "end"


def scaler_columns(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.normal(0, 1e6, 5), 10.0 ** rng.integers(-3, 4, 5), (rng.integers(2, 50), 5))
    x[:, 1] = 0.1 * seed  # constant
    x[rng.random(len(x)) < 0.3, 3] = np.nan
    x[0, 3] = 1
    return x


def check_scaler(path, x):
    got = np.array(Path(f"{path}.out").read_text().split(), float).reshape(2, 5)
    std = np.nanstd(x, axis=0)
    std[np.nanvar(x, axis=0) < 1e-16] = 1
    expected = [np.nanmean(x, axis=0), std]
    try:
        from sklearn.preprocessing import StandardScaler
        scaler = StandardScaler().fit(x)
        expected = [scaler.mean_, scaler.scale_]
    except ImportError:
        pass
    assert np.allclose(got, expected, rtol=1e-9, atol=0), f"{path}: {got}, expected {expected}"


def main():
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
        tables = {Path(folder, f"{i}.csv"): None for i in range(count)}
        for path in tables:
            tables[path] = make(rng, path)
        scaled = {Path(folder, f"scale{i}.csv"): scaler_columns(i) for i in range(20)}
        for path, x in scaled.items():
            lines = [",".join(map(repr, row)) for row in x.tolist()]
            path.write_text("\n".join(["a,b,c,d,e", *lines]))
        subprocess.run([sys.argv[1], folder], check=True)
        for path, columns in tables.items():
            check(path, columns)
        for path, x in scaled.items():
            check_scaler(path, x)
    print(f"{len(tables)} tables of Python's csv module were read with equal values")


main()
