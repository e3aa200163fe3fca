"""Runs the C++ rows. A row that ends the program, or its device, fails alone: the others go on in
another process."""

import os
import subprocess
import sys
import time

STARTS = 5
LIMIT, TOTAL = 100, 200  # seconds of one start and of all, on a device
ENDED, MISSING, UNUSABLE = (0, 1), 2, 3  # exit statuses; see main.cpp


def names_of(program, words):
    """All rows that the program trains, in their order."""
    table = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    names = [line.split("`")[1] for line in table.splitlines()]
    return [n for n in names if not words or n.startswith(tuple(words))]


def start(command, limit):
    """For each row that was reported None or its error; the exit status, and how it ended."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    options = {"stdout": subprocess.PIPE, "env": environment, "timeout": limit}
    try:
        run = subprocess.run(command, **options)
        text, status, how = run.stdout, run.returncode, f"ended with {run.returncode}"
    except subprocess.TimeoutExpired as late:
        text, status, how = late.stdout or b"", -1, f"was stopped after {limit:.0f} s"
    reports = {}
    for line in text.decode().splitlines():
        name, _, error = line.partition(": ")
        reports[name] = error or None
    return reports, status, f"in this row {command[0]} {how}"


def train(program, folder, device, words):
    """Returns for each row None, or the error that it failed with. All run in one process if
    possible, because LibTorch takes longer to start than most rows take."""
    reports, after, begun = {}, [], time.monotonic()
    for _ in range(STARTS):
        command = [program, str(folder), "--device", device, *after, *words]
        left = max(1, min(LIMIT, TOTAL + begun - time.monotonic()))
        more, status, how = start(command, None if device == "cpu" else left)
        reports |= more
        if status == MISSING:
            sys.exit(f"parity: {program} trains no row on {device}")
        if status in ENDED:
            return reports
        names = names_of(program, words)
        if status != UNUSABLE:
            reports[[*names, "after the last row"][len(reports)]] = how
        if len(reports) >= len(names):
            return reports
        after = ["--after", names[len(reports) - 1]]
    rest = names[len(reports) :]
    return reports | dict.fromkeys(rest, f"not begun, since {program} was ended {STARTS} times")
