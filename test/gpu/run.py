#!/usr/bin/env python3
"""Runs the cases of test_gpu, each of which counts: one that kills the program or hangs fails, and
the others go on in a new process.

    run.py PROGRAM [--device cuda|cpu|simulated] [--only WORD] [--limit S] [--total S]
    run.py self    the same on a program made for this, which crashes, hangs and loses its device

PROGRAM prints a line when a case begins and one when it ends, and exits with 3 if its device is
unusable after a case. The cases are counted, not named, since doctest splits names at commas.
Exits with 0 if cases passed and none failed.
"""

import argparse
import collections
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time

ENDS = "passed", "failed", "not run"
UNUSABLE = 3  # the exit status of a program whose device is lost
SLOWEST = 5

Result = collections.namedtuple("Result", "name end why seconds")


class Lines:
    """The lines of a command's output, each within a time limit."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, errors="replace", start_new_session=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def next(self, until):
        """None at the end of the output; raises queue.Empty at the time `until`."""
        return self.lines.get(timeout=max(0.01, until - time.monotonic()))

    def end(self):
        """What the program ended with, after it was killed if it has not ended."""
        try:
            return self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, 9)
            return self.process.wait()

    def kill(self):
        os.killpg(self.process.pid, 9)
        self.process.wait()


def names(command):
    """The cases of a doctest program in the order in which it runs them."""
    done = subprocess.run([*command, "-ltc"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=120)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}run: the program lists no cases (status {done.returncode})")
    return done.stdout.split("=" * 79 + "\n")[1].splitlines()


class Run:
    def __init__(self, command, limit, total, say=print):
        self.command, self.limit, self.say = command, limit, say
        self.over = time.monotonic() + total
        self.names, self.results, self.device = names(command), [], None

    def all(self):
        """Processes, each from the case after the last one that ended; two that begin no case
        in succession are enough."""
        failures = 0
        while len(self.results) < len(self.names) and failures < 2:
            if time.monotonic() > self.over:
                self.leave_out("the time of this run was over")
                break
            failures = 0 if self.one_process() else failures + 1
        self.leave_out("the program did not start any more")
        return self.results

    def record(self, end, why="", seconds=0.0, output=()):
        name = self.names[len(self.results)]
        self.results.append(Result(name, end, why, seconds))
        if end == "failed":
            self.say(*output, sep="\n", end="\n" if output else "")
        self.say(f"{end}: {name}{': ' if why else ''}{why}  ({seconds:.1f} s)", flush=True)

    def leave_out(self, why):
        while len(self.results) < len(self.names):
            self.record("not run", why)

    def one_process(self):
        """Whether a case began."""
        lines = Lines([*self.command, f"--first={len(self.results) + 1}"])
        self.current, self.began, self.output = None, False, []
        started, first = time.monotonic(), len(self.results)
        try:
            while (line := lines.next(self.deadline(started))) is not None:
                started = self.take(line, started)
        except queue.Empty:
            lines.kill()
            self.fail("it was stopped at its time limit", self.results[first:], started)
        else:
            self.ended(lines.end(), self.results[first:], started)
        return self.began

    def deadline(self, started):
        return min(started + self.limit, self.over + self.limit / 4)

    def take(self, line, started):
        """Records the end of a case. Returns when the current one began."""
        if self.current is None:
            return self.between(line, started)
        for end in ENDS:
            prefix = f"{end}: {self.current}"
            why = line[len(prefix):]
            if line == prefix or end == "not run" and line.startswith(f"{prefix}: "):
                self.record(end, why.removeprefix(": "), time.monotonic() - started, self.output)
                self.current, self.output = None, []
                return time.monotonic()
        self.output.append(line)
        return started

    def between(self, line, started):
        """The begin of a case, or what the program says before it."""
        name = self.names[len(self.results)] if len(self.results) < len(self.names) else None
        if line == f"begin: {name}":
            self.current, self.began, self.output = name, True, []
            return time.monotonic()
        if line.startswith("device: ") and not self.device:
            self.device = line
            self.say(line)
        self.output.append(line)
        return started

    def ended(self, status, here, started):
        """Fails a case that did not end, or after which the program ended as it should not."""
        failed = [result.end == "failed" for result in here]
        expected = 0, 1 if any(failed) else 0, UNUSABLE if failed and failed[-1] else 0
        if self.current is not None or not here or status not in expected:
            words = f"signal {-status}" if status < 0 else f"exit status {status}"
            self.fail(f"the program ended with {words}", here, started)

    def fail(self, why, here, started):
        """Of the cases `here` of one process the last, unless another has begun or none has."""
        seconds = time.monotonic() - started
        if self.current is None and here:
            seconds, why = self.results.pop().seconds, f"{why} after it"
        elif self.current is None:
            why += " before it began"
        self.record("failed", why, seconds, self.output)


def summary(results, say=print):
    """Prints the totals, and the names that are not among the passed. Returns the exit status."""
    of = {end: [result for result in results if result.end == end] for end in ENDS}
    say(f"\nThe slowest of {len(results)} cases, of {sum(r.seconds for r in results):.0f} s:")
    for result in sorted(results, key=lambda result: -result.seconds)[:SLOWEST]:
        say(f"{result.seconds:8.1f} s  {result.name}")
    say()
    for end in "not run", "failed":
        for result in of[end]:
            say(f"{end}: {result.name}{': ' if result.why else ''}{result.why}")
    say(", ".join(f"{len(of[end])} {end}" for end in ENDS), flush=True)
    return 0 if of["passed"] and not of["failed"] else 1


def self_test():
    """Everything that a program can do, and what has to be said of it."""
    fake = [sys.executable, str(pathlib.Path(__file__).with_name("run_fake.py"))]

    def silent(*_, **__):
        pass

    wanted = [line.split(" | ") for line in subprocess.check_output([*fake, "wanted"],
                                                                    text=True).splitlines()]
    results = Run([*fake, "some"], limit=1, total=60, say=silent).all()
    found = [[result.name, result.end, result.why] for result in results]
    assert found == wanted, f"\n{found}\n{wanted}"
    assert summary(results, silent) == 1
    for kind, ends, status in (("good", {"passed"}, 0), ("left out", {"not run"}, 1),
                               ("dead", {"failed", "not run"}, 1)):
        results = Run([*fake, kind], limit=1, total=60, say=silent).all()
        assert {result.end for result in results} == ends, (kind, results)
        assert len(results) == 3 and summary(results, silent) == status, (kind, results)
    late = Run([*fake, "good"], limit=1, total=-1, say=silent).all()
    assert {result.end for result in late} == {"not run"} and summary(late, silent) == 1
    print("a crash, a hang, a lost device and a program that does not start are each counted")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu", "simulated"))
    parser.add_argument("--only", help="cases whose name has this word")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a case may take")
    parser.add_argument("--total", type=float, default=420, help="seconds after which none begins")
    given = parser.parse_args()
    if given.program == "self":
        return self_test()
    os.environ["IKEBANA_TEST_DEVICE"] = given.device
    words = [f"-tc=*{given.only}*"] if given.only else []
    run = Run([given.program, *words], given.limit, given.total)
    print(f"{len(run.names)} cases on {given.device}", flush=True)
    return summary(run.all())


if __name__ == "__main__":
    sys.exit(main())
