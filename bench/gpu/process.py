"""Contestants as processes that wait for commands."""

import os
import select
import subprocess
import sys
from pathlib import Path

from step import ENVIRONMENT

BENCH = Path(__file__).resolve().parents[1]


class Failed(Exception):
    """A contestant ended or did not answer; the text says why."""


class Process:
    def __init__(self, command, log, environment):
        self.log, self.read = Path(log), b""
        with self.log.open("w") as errors:
            self.process = subprocess.Popen([str(word) for word in command], bufsize=0,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors, env=environment)

    def tell(self, command):
        """Does not wait for the answer."""
        try:
            self.process.stdin.write(f"{command}\n".encode())
        except BrokenPipeError:
            pass  # the answer will be missing

    def answer(self, seconds):
        """Returns the words of the next line that it prints, within so many seconds."""
        while b"\n" not in self.read:
            if not select.select([self.process.stdout], [], [], max(seconds, 0))[0]:
                self.close(kill=True)
                raise Failed(f"no answer within {seconds:.0f} s")
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                raise Failed(self.reason())
            self.read += more
        line, self.read = self.read.split(b"\n", 1)
        return line.decode().split()

    def ask(self, command, seconds):
        self.tell(command)
        return self.answer(seconds)

    def reason(self):
        """Why it ended, from what it wrote to its standard error."""
        status = self.process.wait()
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        if any("out of memory" in line for line in lines):
            return "does not fit into memory"
        return f"ended with {status}: {lines[-1] if lines else 'no message'}"

    def close(self, kill=False):
        """Lets it end by itself, so that its memory is free afterwards."""
        if kill:
            self.process.kill()
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def program_of(name, programs):
    if name in ("ikebana", "captured", "offload"):
        return [programs / "gpu" / f"gpu_{name}"]
    if name == "expert":
        return [programs / "step" / "step_hand"]
    return [sys.executable, BENCH / "step" / "contestants.py"]


class Launcher:
    """Launches a process for one row, or one that goes through several rows."""

    def __init__(self, programs, folder):
        self.programs, self.folder, self.launched = programs, folder, 0
        # The environment has a cache of compiled kernels that is empty at the start, and a few
        # compilers for each.
        self.environment = os.environ | ENVIRONMENT | {
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
            "TRITON_CACHE_DIR": str(folder / "triton"), "TORCHINDUCTOR_COMPILE_THREADS": "4"}

    def __call__(self, name, rows):
        """`rows` are pairs of a row and the folder of its data."""
        words = []
        for row, folder in rows:
            words += (["next"] if words else []) + row.options(folder) + ["--contestant", name]
        self.launched += 1
        log = self.folder / f"{self.launched} {name}.log"
        return Process([*program_of(name, self.programs), *words], log, self.environment)
