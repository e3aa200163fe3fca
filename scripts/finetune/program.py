"""Runs a training as a program of its own, reads what it prints, kills it and starts it again."""

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import time

STEP = re.compile(r"step (\d+)  loss (\S+)(?:.*  peak (\d+) MiB)?.*")
TEXT = re.compile(r"text (before|after): (.*?)\nend of text", re.S)
PERPLEXITY = re.compile(r"perplexity (before|after): (\S+)")


class Failed(Exception):
    """What did not hold, or which program failed."""


class Run:
    """What one program printed: its steps, its perplexities and its texts; and its memory and time.

    A step prints its loss, for which it waits until its device has computed it. So the time of a
    step is that from the line of the step before to its own.
    """

    def __init__(self, lines, mib):
        """The lines, each with the time at which it was read."""
        output = "".join(line for line, _ in lines)
        steps = [(STEP.fullmatch(line.rstrip("\n")), at) for line, at in lines]
        times = [at for found, at in steps if found]
        steps = [found for found, _ in steps if found]
        self.mib = mib  # the most that its process had in memory
        self.numbers = [int(found[1]) for found in steps]
        self.losses = [found[2] for found in steps]  # as they were printed
        self.peak = max((int(found[3]) for found in steps if found[3]), default=None)
        self.ms = statistics.median(1e3 * (b - a) for a, b in zip(times, times[1:])) \
            if times[1:] else None
        self.perplexity = {when: float(value) for when, value in PERPLEXITY.findall(output)}
        self.text = dict(TEXT.findall(output))


def start(words):
    try:
        return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True)
    except OSError as error:
        raise Failed(f"{words[0]} cannot be started: {error.strerror}") from error


def finish(process):
    """Waits for a program, and returns its Run. Its errors have gone to our stderr."""
    lines = [(line, time.monotonic()) for line in process.stdout]
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failed(f"{process.args[0]} failed ({process.returncode}); its error is above")
    return Run(lines, used.ru_maxrss >> 10)


def run(words):
    return finish(start(words))


def kill_after(words, step, seconds):
    """Starts a training, and kills it so many seconds after it has printed a step."""
    process = start(words)
    for line in process.stdout:
        found = STEP.fullmatch(line.rstrip("\n"))
        if found and int(found[1]) == step:
            break
    time.sleep(seconds)
    process.kill()
    process.stdout.close()
    if process.wait() != -signal.SIGKILL:
        raise Failed(f"the training ended before it was killed ({process.returncode})")


def tensors_in(path):
    """How many tensors a safetensors file holds."""
    with path.open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return len(header.keys() - {"__metadata__"})


def check_same(path, other):
    """Two files have the same bytes."""
    size, sizes = 1 << 24, [p.stat().st_size for p in (path, other)]
    with path.open("rb") as a, other.open("rb") as b:
        for at in range(0, max(sizes), size):
            if a.read(size) != b.read(size):
                raise Failed(f"{path} and {other} differ from byte {at} to {at + size}: the "
                             "resumed training has not the bits of the uninterrupted one")


def remove(folder):
    """Removes the states of a training. Each takes three times the model's own size."""
    for path in pathlib.Path(folder).glob("*.safetensors*"):
        path.unlink()


def resumed(words, folder, whole, end):
    """Kills a training of as many steps as `whole` has, resumes it, and compares the state of its
    end with that of the uninterrupted one, `end`. Returns (step of the kill, step of the resume).
    """
    steps = len(whole.losses)
    last, other_end = steps * 5 // 8, folder / "end.safetensors"
    words = [*words, "show=0", f"states={folder / 'states'}", f"end={other_end}"]
    remove(folder / "states")
    kill_after(words, last, whole.ms / 2e3)
    rest = run(words)
    if not rest.numbers or not 0 < rest.numbers[0] <= last + 1:
        raise Failed(f"after a kill at step {last} the training went on with {rest.numbers[:1]}")
    if rest.losses != whole.losses[rest.numbers[0]:]:
        raise Failed(f"the losses after the resume are {rest.losses}, not those of {whole.losses}")
    check_same(end, other_end)
    remove(folder / "states")
    other_end.unlink()
    return last, rest.numbers[0]
