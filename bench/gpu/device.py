"""Defines the commands of a contestant in Python, on a CPU or an accelerator, as
bench/step/worker.hpp and device.hpp define them in C++."""

import ctypes
import sys
import time
from pathlib import Path

import torch

# Defines the contestants that use torch.compile, and its mode.
MODES = {"compile": None, "reduce-overhead": "reduce-overhead"}


def split(words):
    """Yields the command lines of the rows, which are separated by the word `next`."""
    row = []
    for word in words:
        if word == "next":
            yield row
            row = []
        else:
            row.append(word)
    yield row


class Bytes:
    """Bytes of the last step, without those before it: at the end of forward, and at the peak."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library) if library else None
        self.begin = self.kept = 0
        for name in ("bytes_now", "bytes_peak") if library else ():
            getattr(self.library, name).restype = ctypes.c_int64

    def forward_begins(self):
        if self.library:
            self.library.reset_peak()
            self.begin = self.library.bytes_now()

    def forward_ended(self):
        if self.library:
            self.kept = self.library.bytes_now() - self.begin

    def text(self):
        return f"{self.kept} {self.library.bytes_peak() - self.begin}"


class Session:
    """Trains in steps, on command, until it is told to go on to the next row."""

    def __init__(self, args, step, batches, memory):
        self.args, self.step, self.batches, self.memory = args, step, batches, memory
        self.done, self.loss = 0, torch.zeros(())
        self.on_device = args.device != "cpu"
        torch.backends.cudnn.benchmark = True  # as worker.hpp does

    def serve(self):
        answers = {"run": self.run, "peak": self.peak, "profile": self.profile,
                   "bytes": lambda count: self.memory.text()}
        for line in sys.stdin:
            word, count = line.split()
            if word == "next":
                return
            print(answers[word](int(count)), flush=True)

    def synchronize(self):
        if self.on_device:
            torch.cuda.synchronize()

    def steps(self, count):
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            self.loss = self.step(*self.batches[self.done % len(self.batches)])
            self.done += 1
        self.synchronize()
        return time.perf_counter() - begin

    def run(self, count):
        seconds = self.steps(count)
        return f"{seconds:.9f} {self.loss.item():.9g}"

    def peak(self, count):
        """Returns -1 on a CPU. CUDA graphs hold their memory between steps, so it is what is
        reserved."""
        if not self.on_device:
            return self.steps(count) and -1
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.steps(count)
        if self.args.contestant == "reduce-overhead":
            return torch.cuda.max_memory_reserved()
        return torch.cuda.max_memory_allocated()

    def profile(self, count):
        kinds = torch.profiler.ProfilerActivity
        with torch.profiler.profile(activities=[kinds.CUDA if self.on_device else kinds.CPU]) as p:
            self.steps(count)
        path = Path(self.args.folder, f"{self.args.contestant}.trace.json")
        p.export_chrome_trace(str(path))
        return path
