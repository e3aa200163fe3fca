"""Kills the ranks of a training that torchrun starts, which starts them anew; the training resumes
from its newest state by itself, and ends with the bits of one that was never killed.

Usage, by a Python that has torch:
    restarts.py PROGRAM [--ranks 4] [--epochs 1] [--seconds 0] [--seed 0]
One training that is killed once; with --seconds, trainings until that time has passed. In
turn: SIGKILL of one rank; of torchrun and all ranks, and the command is given again; SIGSTOP of one
rank, whose others end at their time limit. Or
    restarts.py self
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

VARIABLE = re.compile(r"RANK$|WORLD_SIZE$|^(?:MASTER|TORCHELASTIC|IKEBANA_L|OMPI|PMI|SLURM)_")


def tensors(path):
    """The bytes of each tensor of a safetensors file, but for random generators."""
    data = pathlib.Path(path).read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header.pop("__metadata__")
    return {name: (entry["dtype"], entry["shape"],
                   data[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]])
            for name, entry in header.items() if not name.endswith("_generator")}


def differences(one, other):
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


class Training:
    """A training in a folder, under torchrun."""

    def __init__(self, program, folder, ranks, epochs):
        self.program, self.folder = program, folder
        self.command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                        "--no-python", "--nproc-per-node", str(ranks), "--max-restarts", "100000",
                        "--monitor-interval", "0.2", program, str(folder), str(epochs)]
        self.log = open(f"{folder}.log", "w+")
        self.start()

    def start(self):
        kept = {name: value for name, value in os.environ.items() if not VARIABLE.search(name)}
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log,
                                        env={**kept, "OMP_NUM_THREADS": "1"},
                                        start_new_session=True)

    def ranks(self):
        """Returns the processes of the present ranks."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = pathlib.Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
                stat = pathlib.Path("/proc", pid, "stat").read_text()
                parent = int(stat.rsplit(")")[1].split()[1])
            except OSError:
                continue
            if line[0].decode() == str(self.program) and parent == self.process.pid:
                found.append(int(pid))
        return found

    def has_ended(self):
        return self.process.poll() is not None

    def kill_one(self, number, choice):
        """Returns whether there was a rank."""
        ranks = self.ranks()
        if ranks:
            try:
                os.kill(choice(ranks), number)
            except ProcessLookupError:
                return False
        return bool(ranks)

    def kill_all(self):
        for pid in [self.process.pid, *self.ranks()]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.start()
        return True

    def finish(self):
        if self.process.wait() != 0:
            self.fail("it failed")

    def fail(self, what):
        self.log.flush()
        text = pathlib.Path(self.log.name).read_text()
        sys.exit(f"{self.folder}: {what}\n{text[-4000:]}")


def trained(program, folder, ranks, epochs):
    """The last state of a training that is not killed."""
    training = Training(program, folder, ranks, epochs)
    training.finish()
    return tensors(f"{folder}.end")


def killed(program, folder, ranks, epochs, kills, rng, delays):
    """The last state of a training with this list of kills, one after the other."""
    training = Training(program, folder, ranks, epochs)
    counts = collections.Counter()
    for kind in kills:
        time.sleep(rng.uniform(*delays))
        if training.has_ended():
            break
        done = (training.kill_all() if kind == "all" else
                training.kill_one(getattr(signal, kind), rng.choice))
        counts[kind] += done
    training.finish()
    return tensors(f"{folder}.end"), counts


def campaign(program, ranks, epochs, seconds, seed):
    rng, counts = random.Random(seed), collections.Counter()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        expected = trained(program, pathlib.Path(name, "whole"), ranks, epochs)
        alone = time.monotonic() - begin
        print(f"never killed: {alone:.0f} s, {len(expected)} tensors", flush=True)
        while not counts["trainings"] or time.monotonic() - begin < seconds:
            folder = pathlib.Path(name, str(counts["trainings"]))
            kinds = ["SIGKILL"]
            if seconds:
                kinds = rng.choices(["SIGKILL", "all", "SIGSTOP"], [8, 2, 0.3], k=1000)
            end, done = killed(program, folder, ranks, epochs, kinds, rng, (2, 6))
            wrong = differences(end, expected)
            if wrong:
                sys.exit(f"training {counts['trainings']} ended with other bits: {wrong[:5]}")
            counts += done
            counts["trainings"] += 1
            print(f"{time.monotonic() - begin:.0f} s: {dict(counts)}", flush=True)
    if not seconds and not counts["SIGKILL"]:
        sys.exit("no rank was killed")
    return 0


def self_test():
    a = {"x": ("F32", [1], b"1234"), "y": ("F32", [1], b"1234")}
    assert differences(a, a) == [] and differences(a, {"x": a["x"]}) == ["y"]
    assert differences(a, {**a, "x": ("F32", [1], b"1235")}) == ["x"]
    header = json.dumps({"__metadata__": {}, "w": {"dtype": "U8", "shape": [2],
                                                   "data_offsets": [0, 2]},
                         "cpu_generator": {"dtype": "U8", "shape": [1],
                                           "data_offsets": [2, 3]}}).encode()
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name, "state")
        path.write_bytes(len(header).to_bytes(8, "little") + header + b"ABC")
        assert tensors(path) == {"w": ("U8", [2], b"AB")}


def main():
    if sys.argv[1:] == ["self"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    for name, value in {"ranks": 4, "epochs": 1, "seconds": 0, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    a = parser.parse_args()
    return campaign(a.program, a.ranks, a.epochs, a.seconds, a.seed)


if __name__ == "__main__":
    sys.exit(main())
