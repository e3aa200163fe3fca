"""A run on a device without one: the contestants only answer, and time is simulated."""

import argparse
import json
import sys
from concurrent.futures import Future
from pathlib import Path

from process import Failed
from run import Run

# Seconds from the launch to the first step; the second is for what was compiled before.
SETUP = {"ikebana": (6, 6), "captured": (6, 6), "offload": (6, 6), "expert": (6, 6),
         "python": (12, 12), "compile": (60, 25), "reduce-overhead": (45, 25)}


class Clock:
    now, limit = 0.0, 480.0

    def __call__(self):
        return self.now

    def left(self):
        return self.limit - self.now

    def patience(self):
        return min(200.0, max(5.0, self.left()))


class Pretender:
    """Answers like a contestant. Several work at the same time: each has a time of its own at which
    it is done, and the clock goes on to that of the one that is waited for."""

    def __init__(self, stage, name, row):
        self.stage, self.name, self.row, self.waiting, self.loss = stage, name, row, [], 10.0
        self.steps = 0
        again = (name, row) in stage.compiled
        stage.compiled.add((name, row))
        self.done = stage.clock() + SETUP[name][again]

    def seconds(self):
        per_row = {"gpt": self.row.context * 4e-6, "resnet": 2e-4, "mlp": 2e-6}[self.row.model]
        return self.row.rows * per_row

    def tell(self, command):
        if command.split()[0] == "next":
            return
        self.done = max(self.done, self.stage.clock()) + 0.05
        self.waiting.append(command.split())

    def answer(self, patience):
        word, count = self.waiting.pop(0)
        if self.stage.trouble(self, word, int(count)):
            raise Failed("does not fit into memory")
        steps = int(count) if word in ("run", "peak", "profile") else 1
        self.steps += steps
        self.done += steps * self.seconds() + (2 if word == "profile" else 0)
        if self.done > self.stage.clock() + patience:
            self.stage.clock.now += patience
            raise Failed(f"no answer within {patience:.0f} s")
        self.stage.clock.now = max(self.stage.clock.now, self.done)
        loss = 10 - 0.01 * self.steps + (self.stage.drift if self.name == "expert" else 0)
        return {"run": [f"{steps * self.seconds()}", f"{loss}"], "peak": ["1000000"],
                "profile": [str(self.stage.trace)], "fit": ["96"], "pause": ["0.01", "0.05"],
                "copy": ["0.02", "1500000000"], "moved": ["990", "1990"], "kept": ["1000"],
                "rest": ["500"]}[word]

    def ask(self, command, patience):
        self.tell(command)
        return self.answer(patience)

    def close(self, kill=False):
        self.stage.closed += 1


class Pool:
    """A thread whose work is done at once, on a clock that goes on beside that of the others."""

    def __init__(self, stage):
        self.stage, self.free = stage, 0.0

    def submit(self, function, *arguments):
        clock, begin = self.stage.clock, self.stage.clock.now
        clock.now = max(begin, self.free)
        future = Future()
        try:
            future.set_result(function(*arguments))
        except Failed as failure:
            future.set_exception(failure)
        self.free, clock.now = clock.now, begin
        ordinary = future.result

        def result():
            clock.now = max(clock.now, self.free)
            return ordinary()
        future.result = result
        return future

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class Stage(Run):
    """A run whose contestants, clock, build and data are pretended."""

    def __init__(self, folder, limit=480.0, trouble=None, drift=0.0):
        super().__init__(argparse.Namespace(programs=folder, minutes=8, build=None, json=None,
                                            device="cuda"), folder)
        self.clock, self.drift, self.launched, self.closed = Clock(), drift, 0, 0
        self.clock.limit, self.compiled = limit, set()
        self.trouble = trouble or (lambda process, word, count: False)
        self.trace = Path(folder, "trace.json")
        kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 1000}
        self.trace.write_text(json.dumps({"traceEvents": [kernel]}))

    def say(self, text):
        if "-v" in sys.argv:
            super().say(text)

    def data(self, work):
        return self.folder

    def finish_build(self):
        self.clock.now = max(self.clock.now, 65.0)

    def launch(self, name, work):
        self.launched += 1
        assert work.row.device == "cuda:0", work
        return Pretender(self, name, work.row)

    def conditions(self, side):
        return {"bound": 1e15}

    def compiler(self):
        return "g++"
