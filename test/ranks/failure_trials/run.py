#!/usr/bin/env python3
"""Trials of failures: ranks train, and one of them throws, dies, stops or goes another way.

    run.py PROGRAM [--trials N] [--seed S] [--jobs J] [--only KIND] [--budget SECONDS]
    run.py PROGRAM --calls    kills each rank at each system call of a save, under each policy
    run.py self               the checks of outcomes find what is wrong

Each trial starts 2 to 4 processes of PROGRAM (program.cpp) under a random policy, with a
time limit of 3 s, and harms one rank at a random call of a hook or after a random time. It fails if
a process hangs, ends too late, names another rank or no step, or has other weights than the same
training without harm. Prints the trials of each kind and how long the other ranks took.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from outcomes import KINDS, LIMIT, Lines, Wrong, check, self_test  # noqa: E402

HANG = 60.0
POLICIES = ("DDP", "ZeRO1", "ZeRO2", "FSDP", "HSDP")
GATHERING = ("FSDP", "HSDP")


def free_port():
    """Returns a free port that is not among the ports that connections of other trials are
    given."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Trial:
    """One training of several processes."""

    def __init__(self, program, kind, policy, size, victim, call, delay_us):
        self.program, self.kind, self.policy, self.size = program, kind, policy, size
        self.victim, self.call, self.delay_us = victim, call, delay_us

    def __str__(self):
        return (f"{self.kind} of rank {self.victim} of {self.size} under {self.policy}, "
                f"call {self.call}, delay {self.delay_us} us")

    def environment(self, folder, port, rank):
        return dict(os.environ, RANK=str(rank), WORLD_SIZE=str(self.size), LOCAL_RANK=str(rank),
                    LOCAL_WORLD_SIZE=str(self.size), MASTER_ADDR="127.0.0.1",
                    MASTER_PORT=str(port), OMP_NUM_THREADS="1", TRIAL_POLICY=self.policy,
                    TRIAL_HARM=self.kind, TRIAL_VICTIM=str(self.victim),
                    TRIAL_CALL=str(self.call), TRIAL_DELAY_US=str(self.delay_us),
                    TRIAL_LIMIT_MS=str(int(LIMIT * 1000)), TRIAL_FOLDER=folder)

    def start(self, folder):
        port = free_port()
        return [subprocess.Popen([self.program], env=self.environment(folder, port, rank),
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for rank in range(self.size)]

    def run(self, folder):
        """The lines of each rank. A stopped one goes on when the others have ended."""
        processes = self.start(folder)
        try:
            end = time.monotonic() + HANG
            for rank, process in enumerate(processes):
                if rank == self.victim and self.kind == "stop":
                    continue
                try:
                    process.wait(max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    raise Wrong(f"rank {rank} hangs") from None
            if self.kind == "stop":
                processes[self.victim].send_signal(signal.SIGCONT)
                try:
                    processes[self.victim].wait(HANG)
                except subprocess.TimeoutExpired:
                    raise Wrong("the rank that was stopped hangs when it goes on") from None
        finally:
            for process in processes:
                process.kill()
                process.wait()
        return [Lines(pathlib.Path(folder, str(rank))) for rank in range(self.size)]


def perform(trial, expected):
    with tempfile.TemporaryDirectory(prefix="ikebana_trial_") as folder:
        ranks = trial.run(folder)
        seconds = check(trial, ranks, expected)
        # The state that was saved last is whole, and training goes on from it.
        if trial.kind in ("save", "call"):
            for rank in range(trial.size):
                pathlib.Path(folder, str(rank)).unlink(missing_ok=True)
            again = Trial(trial.program, "none", trial.policy, trial.size, -1, -1, 0)
            ends = {lines.end() for lines in again.run(folder)}
            if ends != {expected}:
                raise Wrong(f"the saved state leads to other weights: {ends}")
        return seconds


def plain(program, size):
    """Returns the hash of the weights, and the calls of hooks, of a training without harm."""
    with tempfile.TemporaryDirectory(prefix="ikebana_trial_") as folder:
        ranks = Trial(program, "none", "FSDP", size, -1, -1, 0).run(folder)
        ends = {lines.end() for lines in ranks}
        if len(ends) != 1 or None in ends:
            raise SystemExit(f"trials: training fails without harm: {[r.lines for r in ranks]}")
        return ends.pop(), int(ranks[0].first("calls")[2])


def stops_of_save(program, policy, size, victim):
    """Returns how many stops a rank's save has: before and after each of its system calls."""
    with tempfile.TemporaryDirectory(prefix="ikebana_trial_") as folder:
        ranks = Trial(program, "call", policy, size, victim, -1, 0).run(folder)
        stops = ranks[victim].first("stops")
        if stops is None:
            raise SystemExit(f"trials: a save is not traced: {[r.lines for r in ranks]}")
        return int(stops[2])


def every_call(program, seed):
    """In a random order, of which `--budget` takes a part."""
    trials = [Trial(program, "call", policy, 2, victim, call, 0)
              for policy in POLICIES for victim in (0, 1)
              for call in range(stops_of_save(program, policy, 2, victim))]
    print(f"{len(trials)} instants before and after system calls", flush=True)
    random.Random(seed).shuffle(trials)
    return trials


def planned(program, count, seed, only, calls):
    """Random trials, the kinds in turn by how often each is to occur."""
    chance = random.Random(seed)
    turns = [kind for kind, (times, _) in KINDS.items() for _ in range(times)]
    chance.shuffle(turns)
    for i in range(count):
        kind = only or turns[i % len(turns)]
        policy = chance.choice(GATHERING if kind in ("order", "skip", "twice") else POLICIES)
        if policy == "HSDP":
            size = chance.choice((2, 4))
        else:
            size = chance.choice((2, 3))
        if kind == "rejoin":
            size = 4 if policy == "HSDP" else 3
        call = chance.randrange(calls[kind == "call"])
        delay = chance.randrange(20_000)
        if kind in ("kill", "stop") and chance.random() < 0.5:  # wherever it is then
            call, delay = -1, chance.randrange(chance.choice((150_000, 1_500_000)))
        yield Trial(program, kind, policy, size, chance.randrange(size), call, delay)


def percentiles(seconds):
    if not seconds:
        return "-"
    ordered = sorted(seconds)
    at = lambda p: ordered[min(len(ordered) - 1, int(p * len(ordered)))] * 1000
    return f"{at(0.5):.0f} {at(0.9):.0f} {at(0.99):.0f} {ordered[-1] * 1000:.0f}"


def main(options):
    known = {size: plain(options.program, size) for size in (2, 3, 4)}
    calls = (min(count for _, count in known.values()),
             stops_of_save(options.program, "DDP", 2, 1))
    begin, wrong, done = time.monotonic(), 0, {kind: [0, 0, []] for kind in KINDS}

    def one(trial):
        if options.budget and time.monotonic() - begin > options.budget:
            return trial, None, None
        try:
            return trial, perform(trial, known[trial.size][0]), None
        except Wrong as error:
            return trial, None, error

    trials = every_call(options.program, options.seed) if options.calls else planned(
        options.program, options.trials, options.seed, options.only, calls)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for trial, seconds, error in pool.map(one, trials):
            if seconds is None and error is None:
                continue
            row = done[trial.kind]
            row[0] += 1
            if error:
                wrong += 1
                row[1] += 1
                print(f"trials: {trial}: {error}", flush=True)
            else:
                row[2] += seconds
    print("kind      trials  wrong  milliseconds until the others throw: 50 %, 90 %, 99 %, all")
    for kind, (count, failed, seconds) in done.items():
        if count:
            print(f"{kind:<9} {count:>6} {failed:>6}  {percentiles(seconds)}")
    count = sum(row[0] for row in done.values())
    print(f"{count} trials in {time.monotonic() - begin:.0f} s, {wrong} wrong")
    print(f"{100 * (count - wrong) // max(count, 1)}% tests passed, {wrong} tests failed out of "
          f"{count}")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["self"]:
        sys.exit(self_test())
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--budget", type=float, default=0)
    sys.exit(main(parser.parse_args()))
