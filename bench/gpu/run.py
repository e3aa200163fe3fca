"""Defines what the stages of gpu.py share: the time that is left, data, processes and results."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import table
from contest import Contest
from process import BENCH, Failed, Launcher
from works import flops


class Clock:
    """Seconds since the start, of which the whole run may take `limit`."""

    def __init__(self, limit):
        self.begin, self.limit = time.monotonic(), limit

    def __call__(self):
        return time.monotonic() - self.begin

    def left(self):
        return self.limit - self()

    def patience(self):
        """Returns the seconds for one answer. They are longer than a compilation beside others
        takes."""
        return min(200.0, max(5.0, self.left()))


class Run:
    def __init__(self, args, folder):
        self.args, self.folder, self.clock = args, Path(folder), Clock(60 * args.minutes)
        self.launcher = Launcher(args.programs, self.folder)
        self.results, self.data_of, self.weights_of = table.empty(), {}, {}

    def say(self, text):
        print(f"[{self.clock():5.0f} s] {text}", flush=True)

    def not_run(self, what, why):
        self.results["not_run"].append(f"{what}: {why}")
        self.say(f"not run: {what}: {why}")

    def failed(self, text):
        self.results["failures"].append(text)
        self.say(f"failed: {text}")

    def has(self, seconds, what):
        """Whether so much time is left; if not, what is not run is noted."""
        if self.clock.left() >= seconds:
            return True
        self.not_run(what, f"it needs about {seconds:.0f} s, {self.clock.left():.0f} s are left")
        return False

    def placed(self, work):
        return work.replace(device=f"{self.args.device}:0")

    def data(self, work):
        """The folder of the work's weights and batches, which do not depend on its policies."""
        same = dict(name="", accumulate=1, checkpoint="none", recipe="none", steps=0, rounds=0)
        batches = dataclasses.replace(work.row, **same)
        if batches not in self.data_of:
            folder = self.data_of[batches] = self.folder / f"data{len(self.data_of)}"
            folder.mkdir()
            self.write(work.row, folder, dataclasses.replace(batches, rows=0, batches=0))
        return self.data_of[batches]

    def write(self, row, folder, model):
        """Works of the same model share the file of its weights."""
        import contestants  # imports torch, as do all imports within functions here
        args = contestants.parse(row.options(folder))
        if model in self.weights_of:
            os.link(self.weights_of[model], folder / "weights")
            contestants.write_batches(args)
        else:
            contestants.write_data(args)
            self.weights_of[model] = folder / "weights"

    def launch(self, name, work):
        return self.launcher(name, [(work.row, self.data(work))])

    def contest(self, work, names=()):
        contest = Contest(work, self.clock, lambda process: process.close())
        for name in names:
            contest.start(name, self.launch(name, work))
        return contest

    def start_build(self):
        """Starts contestants in Python while the ones in C++ are compiled."""
        if self.args.build:
            self.building = subprocess.Popen(self.args.build, shell=True, text=True,
                                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def finish_build(self):
        if self.args.build:
            output, _ = self.building.communicate(timeout=max(1.0, self.clock.left()))
            if self.building.returncode:
                print(output[-8000:])
                raise Failed(f"the build failed: {self.args.build}")
            self.say("the programs are built")

    def conditions(self, side):
        command = [sys.executable, BENCH / "gpu" / "bound.py", f"{self.args.device}:0", side]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"bound.py: {done.stderr.strip().splitlines()[-1:]}")
        return json.loads(done.stdout)

    def compiler(self):
        program = self.args.programs / "step" / "step_hand"
        words = subprocess.run([program, "--environment", "1"], capture_output=True, text=True)
        return re.sub(r", LibTorch.*", "", words.stdout.strip())

    def keep(self, contest):
        """Puts the contest's figures into the results."""
        work, found = contest.work, self.results["works"].setdefault(contest.work.name, {})
        bound = self.results["conditions"].get("bound")
        for name in contest.timed():
            seconds = contest.seconds(name)
            figures = contest.figures.get(name) or dict.fromkeys(
                ("peak", "kernels", "launches", "busy_ms"))
            found[name] = figures | {
                "ms": 1e3 * seconds, "rounds": contest.count(name),
                "ratio": contest.ratio(name, "ikebana"), "unit": work.unit(),
                "rate": work.per_step() / seconds, "flops": flops(work) / seconds,
                "share": flops(work) / seconds / bound, "losses": contest.losses[name]}
        self.keep_failures(contest, found)

    def keep_failures(self, contest, found, text=str):
        """What is too large for the device is a result; anything else is an error."""
        for key, why in contest.failed.items():
            if text(key) not in found:
                found[text(key)] = {"failed": why}
            if "does not fit" not in why:
                self.failed(f"{contest.work.name}, {text(key)}: {why}")
        for sentence in contest.differences():
            self.failed(sentence)
        contest.failed = {}
        self.save_results()

    def save_results(self):
        self.results["seconds"] = self.clock()
        if self.args.json:
            self.args.json.write_text(json.dumps(self.results, indent=1))
