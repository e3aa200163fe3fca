"""Writes Parquet and Arrow files with pyarrow, lets parquet_program read them, and compares values
and errors. Damaged files are errors. Usage: python oracle_parquet.py PROGRAM [MUTATIONS]"""

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PROGRAM = subprocess.Popen([sys.argv[1]], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           encoding="utf-8", errors="replace")


def ask(*words):
    print(*words, sep="\t", file=PROGRAM.stdin, flush=True)
    lines = []
    while True:
        line = PROGRAM.stdout.readline()
        assert line, f"the program ended at {words}"
        if line == "end\n":
            return lines
        lines.append(line.rstrip("\n"))


def error(*words, part):
    lines = ask(*words)
    is_error = len(lines) == 1 and lines[0].startswith("error ")
    assert is_error and part in lines[0], (words, lines, part)


def number(value):
    return "missing" if value is None or value != value else str(int(value)) if not isinstance(
        value, float) else repr(value)


def same(got, expected):
    if expected in ("missing",) or got == expected:
        return got == expected
    return float(got) == float(expected)


def parquet_columns():
    """Returns columns and the dtypes that they become."""
    rng = np.random.default_rng(0)
    n = 23
    holes = [None if i % 5 == 1 else i for i in range(n)]
    return {
        "b": (pa.array([bool(i % 3) for i in range(n)]), "Bool"),
        "i8": (pa.array(range(-n // 2, n - n // 2 - 1 + 1), pa.int8())[:n], "Char"),
        "u8": (pa.array([255 - i for i in range(n)], pa.uint8()), "Byte"),
        "u16": (pa.array([65535 - i for i in range(n)], pa.uint16()), "Int"),
        "u32": (pa.array([2**32 - 1 - i for i in range(n)], pa.uint32()), "Long"),
        "u64": (pa.array([2**63 - 1 - i for i in range(n)], pa.uint64()), "Long"),
        "i64": (pa.array([-2**63 + i for i in range(n)], pa.int64()), "Long"),
        "f16": (pa.array(rng.normal(size=n).astype(np.float16)), "Half"),
        "f32": (pa.array(rng.normal(size=n), pa.float32()), "Float"),
        "f64": (pa.array(rng.normal(size=n)), "Double"),
        "holes": (pa.array(holes, pa.int64()), "Double"),
        "fholes": (pa.array([h and h + 0.5 for h in holes], pa.float32()), "Float"),
        "bholes": (pa.array([None if h is None else h % 2 == 0 for h in holes]), "Double"),
        "none": (pa.nulls(n), "Double"),
        "text": (pa.array([None if h is None else f"é{h}\"" for h in holes]), "text"),
        "large": (pa.array([f"x{i}" for i in range(n)], pa.large_string()), "text"),
        "dict": (pa.array(["red", None, "blue"] * 7 + ["red", "red"]).dictionary_encode(), "text"),
    }


def check_parquet(folder):
    columns = parquet_columns()
    table = pa.table({name: array for name, (array, _) in columns.items()})
    path = Path(folder, "table.parquet")
    pq.write_table(table, path, row_group_size=7)
    for line, (name, (array, dtype)) in zip(ask("parquet", path), columns.items(), strict=True):
        head, kind, *values = line.split(" ") if dtype != "text" else line.split(" ", 2)
        assert (head, kind) == (name, dtype), line
        if dtype == "text":
            expected = " ".join("missing" if v is None else json.dumps(v, ensure_ascii=False)
                                for v in array.to_pylist())
            assert values == [expected], (values, expected)
        else:
            expected = [number(v) for v in array.to_pylist()]
            assert len(values) == len(array), name
            assert all(map(same, values, expected)), (name, values, expected)
    check_parquet_errors(folder, path)
    return path


def check_parquet_errors(folder, path):
    assert [line.split()[0] for line in ask("parquet", path, "f64", "b")] == ["f64", "b"]
    error("parquet", path, "F64", part="has no column of `columns`")
    bad = Path(folder, "bad.parquet")
    pq.write_table(pa.table({"x": [1], "day": pa.array([1], pa.date32()), "l": [[1, 2]]}), bad)
    error("parquet", bad, part="column `day`: its type is date32[day], and a table has numbers")
    error("parquet", bad, "l", part="column `l`: its type is list<")
    assert ask("parquet", bad, "x") == ["x Long 1"]
    pq.write_table(pa.table({"x": pa.array([1, 2**63], pa.uint64())}), bad)
    error("parquet", bad, part="row 1 (counted from 0) is beyond the range of Long")
    pq.write_table(pa.table({"x": pa.array([None, 2**53 + 1], pa.int64())}), bad)
    error("parquet", bad, part="it has missing values, so that its integers would become doubles")
    error("parquet", Path(folder, "no.parquet"), part="no.parquet")


def write_stream(path, table, rows):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


def write_state(folder, names):
    files = [{"filename": name} for name in names]
    state = {"_data_files": files, "_fingerprint": "1", "_split": None}
    (folder / "state.json").write_text(json.dumps(state))


def arrow_table(n):
    images = pa.array([None if i == 4 else {"bytes": bytes([65 + i]) * i, "path": None}
                       for i in range(n)], pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    return pa.table({
        "tokens": pa.array([[i] * (i % 4) for i in range(n)], pa.list_(pa.int32())),
        "fixed": pa.array([[i, i + 0.5] for i in range(n)], pa.list_(pa.float32(), 2)),
        "id": pa.array(range(n), pa.int64()),
        "label": pa.array([i % 2 == 0 for i in range(n)]),
        "text": pa.array([None if i == 3 else f"row {i}" for i in range(n)]),
        "textimage": images,
        "score": pa.array([None if i == 5 else i / 4 for i in range(n)], pa.float64()),
        "holes": pa.array([[1, None]] * n, pa.list_(pa.int64())),
        "day": pa.array(range(n), pa.date32()),
    })


def check_arrow(folder):
    table = arrow_table(11)
    saved = Path(folder, "saved")
    saved.mkdir()
    names = ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
    write_stream(saved / names[0], table.slice(0, 6), 4)
    write_stream(saved / names[1], table.slice(6), 2)
    write_state(saved, names)
    columns = ["tokens", "fixed", "id", "label", "text", "textimage.bytes", "score"]
    expected = []
    for i, row in enumerate(table.to_pylist()):
        image = row["textimage"]
        expected.append(" ".join([
            str(i), "[" + " ".join(map(str, row["tokens"])) + "]" if i >= 0 else "",
            "[" + " ".join(f"{v:g}" for v in row["fixed"]) + "]", str(i), str(int(row["label"])),
            "missing" if row["text"] is None else f'"{row["text"]}"',
            "missing" if image is None else f'"{image["bytes"].decode()}"',
            "missing" if row["score"] is None else f'{row["score"]:g}']))
    assert ask("arrow", saved, *columns) == expected, (ask("arrow", saved, *columns), expected)
    whole = Path(folder, "file.arrow")
    with pa.ipc.new_file(str(whole), table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    assert ask("arrow", whole, *columns) == expected
    check_arrow_errors(folder, saved, table, names)
    return saved / names[0], columns


def check_arrow_errors(folder, saved, table, names):
    error("arrow", saved, "day", part="row 0, column `day`: its type is date32[day], and no number")
    error("arrow", saved, "text.x", part="has no such column (`text.x`;")
    error("arrow", saved, "labels", part="the nearest are `label`")
    error("arrow", saved, "tokens", "id2", part="has no such column")
    error("arrow", saved, "holes", part="column `holes`: the value is missing")
    error("arrow", saved, "textimage", part="and no text")
    error("arrow", folder, "x", part="has no state.json that lists files")
    Path(folder, "dataset_dict.json").write_text('{"splits": ["train"]}')
    error("arrow", folder, "x", part="has several splits")
    (saved / "state.json").write_text('{"_data_files": 3}')
    error("arrow", saved, "x", part="state.json`, byte ")
    other = Path(folder, "other.arrow")
    write_stream(other, table.slice(0, 0), 3)
    error("arrow", other, "x", part="have no row")
    write_stream(other, pa.table({"x": [1]}), 3)
    write_state(saved, [names[0], "../other.arrow"])
    error("arrow", saved, "x", part="Give files of one dataset")


def check_docs(folder):
    file, saved = Path(folder, "houses.parquet"), Path(folder, "tokens")
    pq.write_table(pa.table({"price": [1.5, 2.5], "city": ["Rome", "Oslo"], "x": [1, 2]}), file)
    saved.mkdir()
    rows = pa.table({"input_ids": [[1, 2, 3]] * 5, "label": range(5)})
    write_stream(saved / "data.arrow", rows, 2)
    write_state(saved, ["data.arrow"])
    assert ask("docs", file, saved) == [str(3 * 5 + 2)]


def check_damaged(folder, files):
    rng = random.Random(0)
    path, errors = Path(folder, "damaged"), 0
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    for i in range(count):
        what, good, columns = files[i % len(files)]
        data = bytearray(good.read_bytes())
        if i % 5 == 0:
            del data[rng.randrange(len(data)):]
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] = rng.choice((0, 1, 255, rng.randrange(256)))
        path.write_bytes(data)
        errors += any(line.startswith("error ") for line in ask(what, path, *columns))
    assert errors > count / 5, errors
    return errors


def main():
    with tempfile.TemporaryDirectory() as folder:
        table = check_parquet(folder)
        arrow, columns = check_arrow(folder)
        check_docs(folder)
        errors = check_damaged(folder, [("parquet", table, []), ("arrow", arrow, columns)])
    PROGRAM.stdin.close()
    print(f"Parquet and Arrow files have pyarrow's values; {errors} damaged files are errors")


main()
