"""Compares read_csv with pandas' C reader on a file of mixed columns: interleaved, one thread each,
all values equal. Usage: python read_csv.py PROGRAM [MEGABYTES [ROUNDS]], with pandas."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np  # noqa: E402

try:
    import pandas as pd  # noqa: E402
except ImportError:
    print("read_csv: not run, since this Python has no pandas. Install it: pip install pandas")
    sys.exit()

warnings.simplefilter("ignore")  # float_precision is the only exact reader of pandas


def write(path, megabytes):
    rng = np.random.default_rng(0)
    colours = np.array(["red", "light green", "blue", "very dark grey, or black", 'a "new" one'])
    first = True
    while not path.exists() or path.stat().st_size < megabytes * 1e6:
        n = 50_000
        price = np.round(rng.lognormal(12, 1, n), 2)
        missing = np.where(rng.random(n) < 0.05, np.nan, np.round(rng.normal(size=n), 4))
        pd.DataFrame({
            "id": rng.integers(0, 10**12, n), "rooms": rng.integers(1, 9, n), "price": price,
            "area": np.round(rng.gamma(9, 10, n), 1), "exact": rng.normal(size=n),
            "score": missing, "sold": rng.random(n) < 0.5,
            "colour": colours[rng.integers(5, size=n)],
            "word": [f"w{x:x}" for x in rng.integers(0, 2**40, n)],
        }).to_csv(path, mode="a", index=False, header=first)
        first = False


def pandas_ms(path, **options):
    begin = time.perf_counter()
    frame = pd.read_csv(path, engine="c", **options)
    return (time.perf_counter() - begin) * 1e3, frame


def check(frame, folder):
    for name in frame.columns:
        raw = Path(folder, name).read_bytes()
        if frame[name].dtype.kind in "ifb":
            same = raw == frame[name].to_numpy().tobytes()
        else:
            same = raw.decode().split("\0")[:-1] == frame[name].tolist()
        assert same, f"column {name} differs"


def main():
    megabytes = float(sys.argv[2]) if len(sys.argv) > 2 else 80
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        write(path, megabytes)
        ours = subprocess.Popen([sys.argv[1], path, folder], text=True, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE)

        def ask(word):
            print(word, file=ours.stdin, flush=True)
            return float(ours.stdout.readline())

        ask("write"), ours.stdout.readline()
        check(pandas_ms(path, float_precision="round_trip")[1], folder)
        times = [(ask("read"), pandas_ms(path)[0], pandas_ms(path, float_precision="round_trip")[0])
                 for _ in range(rounds)]
        ours.stdin.close()
        size = path.stat().st_size / 1e6
        names = ("read_csv", "pandas", "pandas, round_trip")
        for i, name in enumerate(names):
            milliseconds = statistics.median(t[i] for t in times)
            ratios = sorted(t[i] / t[0] for t in times)
            print(f"{name:20} {milliseconds:8.1f} ms {size / milliseconds * 1e3:6.0f} MB/s, "
                  f"{statistics.median(ratios):5.2f} of read_csv's time "
                  f"({ratios[0]:.2f} to {ratios[-1]:.2f})")
        print(f"{size:.0f} MB, all values equal to pandas' with float_precision='round_trip'")


if __name__ == "__main__":
    main()
