#!/usr/bin/env python3
"""Runs a build or ctest, as it is, and prints what took longest, and what failed.

    slowest.py build FOLDER COMMAND...   a build in FOLDER, by the log of Ninja
    slowest.py tests FOLDER COMMAND...   ctest in FOLDER; its own summary remains the last it prints

Exits with the command's status.
"""

import itertools
import pathlib
import re
import subprocess
import sys

TEN = 10
RESULT = re.compile(r"Test +#\d+: (.*?) \.+ *(?:\*+)?[A-Z].* ([\d.]+) sec")
SUMMARY = re.compile(r"\d+% tests passed, ")
CASES = re.compile(r"\[doctest\] test cases: +(\d+) \| +(\d+) passed")
FAILED = re.compile(r"^(TEST CASE: .*)|^.*: (?:FATAL )?ERROR: .*(?:\n .*){0,4}", re.MULTILINE)
LINES = 100  # the most lines of failures and of their cases
MOST = 1500  # characters of one failure


def show(what, seconds):
    """`seconds` holds for each name how long it took."""
    if not seconds:
        return
    print(f"\nThe slowest of {len(seconds)} {what}, of {sum(seconds.values()):.0f} s:")
    for name in sorted(seconds, key=seconds.get, reverse=True)[:TEN]:
        print(f"{seconds[name]:8.1f} s  {name}")
    print(flush=True)


def edges(folder):
    """What Ninja has noted: each line is start, end, time stamp, output, and a hash."""
    log = folder / ".ninja_log"
    return set(log.read_text().splitlines()[1:]) if log.exists() else set()


def build(folder, command):
    before = edges(folder)
    status = subprocess.run(command).returncode
    rows = [line.split("\t") for line in edges(folder) - before]
    show("steps of the build", {row[3]: (int(row[1]) - int(row[0])) / 1000 for row in rows})
    return status


def cases(folder):
    """How many cases of doctest ran, and in how many programs."""
    log = folder / "Testing/Temporary/LastTest.log"
    found = CASES.findall(log.read_text(errors="replace")) if log.exists() else []
    if found:
        ran, passed = (sum(int(row[i]) for row in found) for i in range(2))
        print(f"{ran} cases in {len(found)} programs of doctest, {passed} passed")


def failures(folder):
    """What failed in programs of doctest, again, since much may have been printed after it."""
    log = folder / "Testing/Temporary/LastTest.log"
    case = None
    text = log.read_text(errors="replace") if log.exists() else ""
    for found in itertools.islice(FAILED.finditer(text), LINES):
        if found[1]:
            case = found[1]
            continue
        if case:
            print("\n" + case)
        case = None
        print(found[0][:MOST])


def tests(folder, command):
    """Everything is handed on at once but the summary, which waits for what is printed here."""
    seconds, summary = {}, []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace")
    for line in process.stdout:
        if summary or SUMMARY.match(line):
            summary.append(line)
            continue
        print(line, end="", flush=True)
        if result := RESULT.search(line):
            seconds[result[1]] = float(result[2])
    status = process.wait()
    show("tests", seconds)
    failures(folder)
    cases(folder)
    print("\n", *summary, sep="", end="", flush=True)
    return status


what, folder, *command = sys.argv[1:]
status = {"build": build, "tests": tests}[what](pathlib.Path(folder), command)
sys.exit(status if status >= 0 else 128 - status)
