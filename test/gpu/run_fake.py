"""A program as run.py runs it, whose cases do everything that a case can do to a program.

Usage: run_fake.py some|good|dead|"left out"|wanted [-ltc | --first=N]
"""

import os
import sys
import time


def say(*lines):
    print(*lines, sep="\n", flush=True)


def passes(name):
    say(f"passed: {name}")


def fails(name):
    say("an assertion", "", f"failed: {name}")


def is_left_out(name):
    say(f"not run: {name}: it needs two devices")


def crashes(_):
    os.kill(os.getpid(), 11)


def hangs(_):
    time.sleep(60)


def loses_device(name):
    say(f"failed: {name}")
    os._exit(3)


def passes_and_loses_device(name):
    say(f"passed: {name}")
    os._exit(3)


def passes_and_crashes(name):
    say(f"passed: {name}")
    crashes(name)


def passes_and_hangs(name):
    say(f"passed: {name}")
    hangs(name)


def exits(_):
    os._exit(0)


def talks(name):
    say("begin: another case", "passed: another case", f"passed: {name}")


SOME = [
    ("a name, with a comma", passes, "passed", ""),
    ("fails", fails, "failed", ""),
    ("is left out: by its own words", is_left_out, "not run", "it needs two devices"),
    ("crashes", crashes, "failed", "the program ended with signal 11"),
    ("crashes", crashes, "failed", "the program ended with signal 11"),
    ("passes between", passes, "passed", ""),
    ("hangs", hangs, "failed", "it was stopped at its time limit"),
    ("loses its device", loses_device, "failed", ""),
    ("passes, but its device is lost", passes_and_loses_device, "failed",
     "the program ended with exit status 3 after it"),
    ("exits as if all were well", exits, "failed", "the program ended with exit status 0"),
    ("prints what other cases print", talks, "passed", ""),
    ("passes, then the program crashes", passes_and_crashes, "failed",
     "the program ended with signal 11 after it"),
    ("is the last, passes and hangs", passes_and_hangs, "failed",
     "it was stopped at its time limit after it"),
]
KINDS = {
    "some": SOME,
    "good": [SOME[0]] * 3,
    "left out": [SOME[2]] * 3,
    "dead": [SOME[0]] * 3,
}


def main(kind, argument=""):
    if kind == "wanted":
        say(*(" | ".join((name, end, why)) for name, _, end, why in SOME))
        return
    cases = KINDS[kind]
    if argument == "-ltc":
        say("[doctest] listing all test case names", "=" * 79, *(case[0] for case in cases),
            "=" * 79, f"[doctest] unskipped test cases: {len(cases)}")
        return
    if kind == "dead":
        sys.exit(2)
    for name, action, _, _ in cases[int(argument.removeprefix("--first=")) - 1:]:
        say(f"begin: {name}")
        action(name)


main(*sys.argv[1:])
