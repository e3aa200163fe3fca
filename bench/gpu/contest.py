"""Runs a work's contestants in turn, and compares what they computed."""

import contextlib
import math
import random
import statistics

import kernels
from process import Failed

FIRST_STEPS = (1, 3)  # then a work's own number; the losses after each are compared


class Contestant:
    """A process that trains, with the losses of its first steps."""

    def __init__(self, process, work, clock):
        self.process, self.work, self.clock, self.losses = process, work, clock, []
        for steps in (*FIRST_STEPS, work.compared):
            process.tell(f"run {steps}")  # answered in `ready`

    def ready(self):
        for _ in (*FIRST_STEPS, self.work.compared):
            self.losses.append(float(self.process.answer(self.clock.patience())[1]))
        return self

    def ask(self, command):
        return self.process.ask(command, self.clock.patience())

    def run(self, steps):
        seconds, loss = (float(word) for word in self.ask(f"run {steps}")[:2])
        if not math.isfinite(loss):
            raise Failed(f"the loss is {loss}")
        return seconds / steps

    def in_a_round(self):
        """Returns seconds per step. The first steps warm up what another contestant displaced."""
        self.run(max(1, self.work.row.steps // 4))
        return self.run(self.work.row.steps)

    def figures(self):
        """Returns its peak in bytes (None if it is not counted), and what a trace says."""
        peak = int(self.ask("peak 2")[0])
        path = " ".join(self.ask(f"profile {self.work.profiled}"))
        trace = kernels.read(path, self.work.profiled, self.work.row.device != "cpu")
        return {"peak": peak if peak >= 0 else None} | trace


class Contest:
    """The contestants of one work, or several works whose contestants take turns. `running` maps a
    key to each; one that fails leaves it, and the reason is kept."""

    def __init__(self, work, clock, close):
        self.work, self.clock, self.close_process = work, clock, close
        self.running, self.rounds, self.losses, self.figures = {}, [], {}, {}
        self.failed, self.draw = {}, random.Random(0)

    def start(self, key, process, work=None):
        self.running[key] = Contestant(process, work or self.work, self.clock)

    def guarded(self, key, action):
        """Returns the action's result, or None if the contestant failed."""
        try:
            return action()
        except (Failed, OSError, ValueError, IndexError) as failure:
            self.failed[key] = str(failure) or type(failure).__name__
            contestant = self.running.pop(key, None)
            if contestant:
                contestant.process.close(kill=True)

    def ready(self, launch_again=None):
        """Waits for the first steps. `launch_again` makes a process for a contestant that failed
        while others had memory that is free now."""
        for key in list(self.running):
            ready = self.guarded(key, self.running[key].ready)
            if not ready and launch_again and "does not fit" in self.failed[key]:
                self.failed.pop(key)
                self.start(key, launch_again(key))
                self.guarded(key, self.running[key].ready)
        self.losses |= {key: c.losses for key, c in self.running.items()}

    def take_turns(self, until):
        """Makes rounds in random order: as many as the work has, or fewer if time is short."""
        for i in range(self.work.row.rounds):
            if i > 0 and self.clock() > until:
                break
            times = {}
            for key in self.draw.sample(list(self.running), len(self.running)):
                seconds = self.guarded(key, self.running[key].in_a_round)
                if seconds:
                    times[key] = seconds
            self.rounds.append(times)

    def take_figures(self):
        for key in list(self.running):
            found = self.guarded(key, self.running[key].figures)
            if found:
                self.figures[key] = found

    def close(self):
        while self.running:
            self.close_process(self.running.popitem()[1].process)

    def one_by_one(self, names, launch):
        """Makes one round in which each has the device for itself. The first time the figures of
        its traces are taken, after it was timed."""
        times = {}
        for name in self.draw.sample(names, len(names)):
            self.start(name, launch(name))
            self.ready()
            if name in self.running:
                runs = self.guarded(name, lambda key=name: [
                    self.running[key].run(self.work.row.steps)
                    for _ in range(self.work.row.rounds)])
                if runs:
                    times[name] = statistics.median(runs)
            if name not in self.figures:
                self.take_figures()
            self.close()
        self.rounds.append(times)

    def seconds(self, key):
        return statistics.median(times[key] for times in self.rounds if key in times)

    def count(self, key):
        return sum(key in times for times in self.rounds)

    def ratio(self, key, to):
        """Returns the median over rounds of its time over that of another, or None without a
        common round."""
        both = [times[key] / times[to] for times in self.rounds if key in times and to in times]
        return statistics.median(both) if both else None

    def timed(self):
        return [key for key in self.losses if self.count(key)]

    def differences(self):
        """Returns a sentence for each contestant whose losses differ from the others'. The first
        loss knows no update, and later ones drift apart by roundings alone."""
        keys = sorted(self.losses, key=lambda key: key != "ikebana")
        for key in keys[1:]:
            pairs = zip(self.losses[keys[0]], self.losses[key], (1e-2, 5e-2, 5e-2))
            for i, (first, other, bound) in enumerate(pairs):
                if not abs(other - first) <= bound * max(abs(first), 1e-2):
                    yield (f"{self.work.name}: loss {i + 1} of {key} is {other}, "
                           f"that of {keys[0]} {first}")
                    break


@contextlib.contextmanager
def closing(contest):
    try:
        yield contest
    finally:
        contest.close()
