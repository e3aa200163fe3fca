"""The benchmark `state`: saving and loading a trainer's state, compared with the disk's own speed,
torch::save, Python's safetensors, and a copy in memory.

Two processes with one thread each hold the same tensors, and one waits while the other works. Each
round runs every action once, in a random order. Figures are medians over rounds of the ratio of an
action to what it is compared with in the same round. Everything that is written is synced (fsync)
unless its name says otherwise. At the end every file is read and its bytes are compared.
Writes Markdown.
"""

import argparse
import contextlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

SAVES = ("save", "raw write", "raw write, early", "torch::save", "torch::save and fsync",
         "safetensors", "safetensors and fsync")
LOADS = ("load", "load, cold", "raw read", "raw read, cold", "torch::load", "torch::load, cold",
         "safetensors load", "safetensors load, cold")
PAUSES = ("pause", "first pause", "copy", "copy_")
# The time of the first action is at most this multiple of the second's.
BARS = [("save", "raw write", 1.15), ("save", "raw write, early", 1.15),
        ("load", "raw write", 1.15), ("pause", "copy", 1.05)]
COMPARED = [*((name, "raw write") for name in SAVES), ("load", "raw write"),
            ("save", "raw write, early"),
            *((name, "raw read, cold" if "cold" in name else "raw read") for name in LOADS),
            *((name, "copy") for name in PAUSES)]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Process:
    """Runs one action at a time, and waits otherwise."""

    def __init__(self, command):
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env=os.environ | ENVIRONMENT)

    def ask(self, action):
        self.process.stdin.write(action + "\n")
        self.process.stdin.flush()
        return self.read_line()

    def read_line(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("state: a process ended: " + " ".join(self.process.args))
        return line.strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def synced(path):
    with open(path) as file:
        os.fsync(file.fileno())


def cold(path):
    with open(path) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds(*actions):
    begin = time.perf_counter()
    for action in actions:
        action()
    return time.perf_counter() - begin


def serve(folder):
    """Runs the actions of Python's safetensors, in their own process."""
    from safetensors.torch import load_file, save_file

    own, tensors = folder / "python.safetensors", load_file(folder / "ikebana.safetensors")

    def bytes_of(x):
        import torch
        return x.reshape(-1).view(torch.uint8).numpy()

    def check():
        crc, found = 0, load_file(own)
        for name in sorted(found):
            crc = zlib.crc32(bytes_of(found[name]), crc)
        return f"{crc} {os.path.getsize(own)}"

    actions = {
        "safetensors": lambda: seconds(lambda: save_file(tensors, own)),
        "safetensors and fsync": lambda: seconds(lambda: save_file(tensors, own),
                                                 lambda: synced(own)),
        "safetensors load": lambda: seconds(lambda: load_file(own)),
        "safetensors load, cold": lambda: (cold(own), seconds(lambda: load_file(own)))[1],
        "check": check,
    }
    print("ready", flush=True)
    for line in sys.stdin:
        print(actions[line.strip()](), flush=True)


def measure(args, folder):
    """The seconds of every action by round. Prints the conditions of the machine."""
    times, draw = {name: [] for name in SAVES + LOADS + PAUSES}, random.Random(0)
    with contextlib.ExitStack() as stack:
        worker = Process([args.programs / "state_worker", folder, args.layers, args.width,
                          args.rounds])
        stack.callback(worker.close)
        print(worker.read_line() + "\n", flush=True)
        size, tensors = worker.ask("size").split()
        print(f"{int(size) / 1e6:.0f} MB of state in {tensors} tensors, in files of {folder.parent}"
              " \n", flush=True)
        python = Process([sys.executable, __file__, args.programs, "--serve", folder])
        stack.callback(python.close)
        python.read_line()

        def ask(name):
            return (python if name.startswith("safetensors") else worker).ask(name)

        for name in ("raw write", "raw write, early", "torch::save", "safetensors", *PAUSES):
            ask(name)  # creates the files that later actions replace and read, and allocates memory
            os.sync()
        for _ in range(args.rounds):
            for name in draw.sample(list(times), len(times)):
                times[name].append(float(ask(name)))
                if "save" in name or "safetensors" == name:
                    os.sync()  # so that the next action does not wait for this one's data
        wanted, found = worker.ask("check").split(), python.ask("check").split()
        if wanted[0] != found[0]:
            raise SystemExit("state: the bytes that Python's safetensors wrote differ")
    return times


def ratio(times, name, to):
    return statistics.median(a / b for a, b in zip(times[name], times[to]))


def show(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, help="the folder of state_worker")
    parser.add_argument("--folder", type=Path, help="on the disk to measure; else the programs'")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    if args.serve:
        return serve(args.serve)
    with tempfile.TemporaryDirectory(dir=args.folder or args.programs) as folder:
        times = measure(args, Path(folder))
    show("what", "ms", "compared with", "ratio")
    show("---", "---:", "---", "---:")
    for name, to in COMPARED:
        show(f"`{name}`", f"{1e3 * statistics.median(times[name]):.1f}", f"`{to}`",
             f"{ratio(times, name, to):.3f}")
    print()
    show("what", "over", "at most", "measured", "holds")
    show(*["---"] * 5)
    for name, to, bar in BARS:
        measured = ratio(times, name, to)
        show(name, to, f"{bar:.2f}", f"{measured:.3f}", "yes" if measured <= bar else "NO")


if __name__ == "__main__":
    main()
