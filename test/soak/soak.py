#!/usr/bin/env python3
"""Whether a long training leaks: memory, open files or threads.

    soak.py PROGRAM --steps N            trains N steps in 40 threads, one after another, or from
                                         40,000 steps on in one for every 1,000
    soak.py PROGRAM --steps N --leaks    the same with leaks made on purpose: each is found
    soak.py self                         the same for series that are made here

PROGRAM (program.cpp) prints a sample after each thread. The first quarter of the samples is
warm-up: caches fill. A series is flat if over the rest both of these are at most its limit:

    slope * steps, with the median of the slopes between all pairs of samples (Theil-Sen:
    one sample in which a thread had not ended yet does not matter, as it does to least squares)
    median of the last third of the samples - median of the first

What malloc has in use is the same to some hundred bytes after each thread, so 8 KiB of it find a
leak of less than a byte per step in 100,000. Resident memory is in pages and arenas, of which a
late one is no leak; it stands for what does not come from malloc. Exits 1 if a series is not flat.
"""
import argparse
import itertools
import random
import statistics
import subprocess
import sys

LIMITS = {"resident KiB": 8192, "heap bytes": 8192, "open files": 0.5, "threads": 0.5}
# Lists what is not flat if a program leaks; a thread has an object on the heap, too.
LEAKS = {"bytes": {"heap bytes"}, "descriptor": {"open files"},
         "thread": {"threads", "heap bytes"}}


def slope(xs, ys):
    points = list(zip(xs, ys))
    return statistics.median((d - b) / (c - a) for (a, b), (c, d) in
                             itertools.combinations(points, 2))


def rises(samples):
    """(name, rise by the slope, rise of the median) of the values of samples (step, values...)."""
    judged = samples[len(samples) // 4:]
    if len(judged) < 12:
        raise SystemExit(f"soak: {len(samples)} samples are too few; 16 are needed")
    steps, third = [row[0] for row in judged], len(judged) // 3
    for name, series in zip(LIMITS, list(zip(*judged))[1:], strict=True):
        medians = statistics.median(series[:third]), statistics.median(series[-third:])
        yield name, slope(steps, series) * (steps[-1] - steps[0]), medians[1] - medians[0]


def leaking(samples):
    """Returns the names of the series that are not flat."""
    return [name for name, *found in rises(samples) if max(found) > LIMITS[name]]


def train(program, steps, leak=()):
    samples = max(40, steps // 1000)
    if steps < samples or steps % samples:
        raise SystemExit(f"soak: --steps is {steps}; it must be a multiple of {samples}")
    command = [program, str(steps), str(steps // samples), *leak]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = [tuple(map(int, line.split())) for line in output.splitlines()]
    if len(rows) != samples or rows[-1][0] != steps:
        raise SystemExit(f"soak: {len(rows)} samples of {samples}, the last {rows[-1:]}")
    return rows


def report(samples):
    print(f"{'':<14}{'first':>12}{'judged from':>12}{'last':>12}{'by slope':>10}{'median':>10}"
          f"{'limit':>8}")
    begin = samples[len(samples) // 4]
    for i, (name, by_slope, median) in enumerate(rises(samples), 1):
        print(f"{name:<14}{samples[0][i]:>12}{begin[i]:>12}{samples[-1][i]:>12}{by_slope:>10.1f}"
              f"{median:>10.1f}{LIMITS[name]:>8}")


def main(options):
    if not options.leaks:
        samples = train(options.program, options.steps)
        report(samples)
        found = leaking(samples)
        print(f"{options.steps} steps in {len(samples)} threads: "
              + (f"{', '.join(found)} not flat" if found else "all flat"))
        return 1 if found else 0
    wrong = 0
    for leak, expected in LEAKS.items():
        samples = train(options.program, options.steps, [leak])
        found = leaking(samples)
        print(f"leak of {leak}: {', '.join(found) or 'nothing'} not flat")
        if set(found) - {"resident KiB"} != expected:
            wrong += 1
            report(samples)
    return 1 if wrong else 0


def self_test():
    chance = random.Random(1)

    def series(leaks, steps, count=100):
        """Yields a heap with noise, resident memory in jumps that end, and leaks per step."""
        for i in range(1, count + 1):
            step = i * steps // count
            heap = 5_000_000 + chance.randrange(300) + leaks.get("heap bytes", 0) * step
            resident = (400_000 + 4096 * min(3, i // 6) + chance.randrange(200)
                        + int(leaks.get("resident KiB", 0) * step))
            files = 6 + int(leaks.get("open files", 0) * step)
            threads = 1 + int(leaks.get("threads", 0) * step) + (chance.random() < 0.1)
            yield step, resident, heap, files, threads

    cases = [({}, []), ({"heap bytes": 64}, ["heap bytes"]), ({"heap bytes": 1}, ["heap bytes"]),
             ({"heap bytes": -64}, []), ({"open files": 1 / 1000}, ["open files"]),
             ({"threads": 1 / 1000}, ["threads"]), ({"resident KiB": 1}, ["resident KiB"])]
    for steps, (leaks, expected) in itertools.product((20_000, 100_000), cases):
        found = leaking(list(series(leaks, steps)))
        if found != expected:
            print(f"soak: {leaks} in {steps} steps gives {found}, not {expected}")
            return 1
    # One thread that does not end, from the middle on; and a sample with one that ends later.
    stays = [(i, 400_000, 5_000_000, 6, 1 + (i > 60)) for i in range(1, 101)]
    ends = [(i, 400_000, 5_000_000 + 4_000_000 * (i == 99), 6, 1 + (i == 99))
            for i in range(1, 101)]
    return 0 if leaking(stays) == ["threads"] and leaking(ends) == [] else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["self"]:
        sys.exit(self_test())
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--leaks", action="store_true")
    sys.exit(main(parser.parse_args()))
