"""Predicts the time of a step under a policy on shard, for a number of ranks and a link between
them, before there are any: a simulation of one rank's schedule, event by event.

    predict.py PROGRAMS [--ranks 8] [--mbit 800] [--latency-us 100] [--shared]   prints times
    predict.py PROGRAMS --compare                        measures them here, on slow loopbacks, too

What computing takes is measured on this machine (`shard_profile`: one rank alone, its units one by
one). Order and bytes of messages are as in the implementation (schedule.py).
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import shard
from schedule import MIB, Costs, Link, simulated

SPEEDS = (400, 800, 1600)  # Mbit/s
NAMES = ("ddp", "ddp_late", "fsdp", "fsdp_plain")
WITHIN = 0.15


def profile(shape, programs, steps):
    """Measures the costs of a rank, of as many processes at a time as there will be ranks,
    because they share memory and caches here."""
    with shard.data(shape) as folder:
        base = [str(programs / "shard_profile"), *shape.options(folder), "--steps", str(steps)]
        ranks = [subprocess.Popen(base + shard.place(rank, folder, "profile"), text=True,
                                  stdout=subprocess.PIPE, env=os.environ | shard.single.ENVIRONMENT)
                 for rank in range(shard.RANKS)]
        texts = [rank.communicate()[0].splitlines() for rank in ranks]
    numbers = list(map(int, texts[0][0].split()))
    memory = [dict(zip(*[iter(text[1].split())] * 2)) for text in texts]
    return {"parameters": list(zip(numbers[::2], numbers[1::2])),
            "copy": statistics.median(float(m["copy"]) for m in memory),
            "add": statistics.median(float(m["add"]) for m in memory),
            "steps": [line.split() for text in texts for line in text[2:]],
            "message": message_seconds()}


def message_seconds(size=2**28):
    """CPU seconds of sending one byte and receiving one, on the loopback."""
    server = socket.create_server(("127.0.0.1", 0))
    to, chunk = socket.create_connection(server.getsockname()), bytes(2**20)
    from_, _ = server.accept()

    def receive():
        place, left = bytearray(2**20), size
        while left > 0:
            left -= from_.recv_into(place)
    thread, begin = threading.Thread(target=receive), time.process_time()
    thread.start()
    for _ in range(size // len(chunk)):
        to.sendall(chunk)
    thread.join()
    for one in (to, from_, server):
        one.close()
    return (time.process_time() - begin) / size


def costs_of(profiles):
    """Returns the medians of the times between events over all steps of all profiles."""
    steps = [step for one in profiles for step in one["steps"]]
    rows = [[("step", 0, 0.0)] + [(what, int(which), float(at)) for what, which, at
                                  in zip(*[iter(step)] * 3)] for step in steps]
    names = [[event[:2] for event in row] for row in rows]
    if any(one != names[0] for one in names):
        raise SystemExit("predict: the steps of the profile differ in their events")
    events = [(*names[0][i], statistics.median(row[i + 1][2] - row[i][2] for row in rows))
              for i in range(len(names[0]) - 1)]
    return Costs(profiles[0]["parameters"], events,
                 *(statistics.median(one[key] for one in profiles)
                   for key in ("copy", "add", "message")))


def on_loopback(mbit, args):
    """Measures profiles and the seconds of a step, in a network of its own whose loopback is
    slow."""
    link = f"tbf rate {mbit}mbit burst 256kb latency 200ms"
    setup = f"ip link set lo up && tc qdisc add dev lo root {link} && exec "
    words = [sys.executable, __file__, str(args.programs), "--measure", "1",
             "--rounds", str(args.rounds)]
    done = subprocess.run(["unshare", "-n", "sh", "-c", setup + " ".join(f"'{w}'" for w in words)],
                          text=True, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit("predict: `unshare -n` or `tc` is not permitted here")
    return json.loads(done.stdout)


def measure(args):
    results, _ = shard.measure(shard.SLOW_SHAPE, list(NAMES), args.rounds, args.programs)
    print(json.dumps({name: [r["wall"] for r in rounds] for name, rounds in results.items()}))


def compare(args):
    """Prints predicted and measured times; returns whether all are within the limit."""
    shape, profiles, measured = shard.SLOW_SHAPE, [], {}
    for mbit in SPEEDS:
        profiles.append(profile(shape, args.programs, args.steps))
        measured[mbit] = on_loopback(mbit, args)
    profiles.append(profile(shape, args.programs, args.steps))
    costs = costs_of(profiles)
    print(shard.environment(args.programs))
    print(f"\n{shape.name}, {describe(costs)}\n")
    shard.show("Mbit/s", "contestant", "predicted ms", "measured ms", "of rounds", "ratio",
               f"within {WITHIN:.0%}")
    shard.show(*["---"] * 7)
    holds = True
    for mbit in SPEEDS:
        # Both ranks send over one loopback.
        link = Link(shard.RANKS, mbit * 1e6 / 8 / shard.RANKS, args.latency_us * 1e-6)
        for name in NAMES:
            here, times = simulated(name, costs, link).now, measured[mbit][name]
            ratio = here / statistics.median(times)
            holds = holds and abs(ratio - 1) <= WITHIN
            shard.show(str(mbit), f"`{name}`", f"{1e3 * here:.0f}",
                       f"{1e3 * statistics.median(times):.0f}",
                       f"{1e3 * min(times):.0f} to {1e3 * max(times):.0f}", f"{ratio:.2f}",
                       "yes" if abs(ratio - 1) <= WITHIN else "NO")
    return holds


def describe(costs):
    whole = sum(size for _, size in costs.parameters)
    return (f"{whole / MIB:.2f} MiB of parameters; a rank alone computes "
            f"{1e3 * sum(seconds for *_, seconds in costs.events):.0f} ms; a byte is copied in "
            f"{1e9 * costs.copy:.2f} ns, added in {1e9 * costs.add:.2f}, sent and received in "
            f"{1e9 * costs.message:.2f} of CPU")


def predict(args):
    shape = shard.Shape("GPT", args.layers, args.width, args.context, args.rows * shard.RANKS,
                        steps=1)
    costs = costs_of([profile(shape, args.programs, args.steps)])
    speed = args.mbit * 1e6 / 8 / (args.ranks if args.shared else 1)
    print(f"{args.layers} layers, {args.width} wide, {describe(costs)}\n")
    shard.show("contestant", "ms of a step")
    shard.show("---", "---")
    for name in NAMES:
        link = Link(args.ranks, speed, args.latency_us * 1e-6)
        shard.show(f"`{name}`", f"{1e3 * simulated(name, costs, link).now:.0f}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, help="the folder of shard_profile and the others")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--mbit", type=float, default=10_000, help="of the link, per second")
    parser.add_argument("--latency-us", type=float, default=100)
    parser.add_argument("--shared", action="store_true", help="all ranks send over one link")
    for name, default in (("layers", 6), ("width", 256), ("context", 64), ("rows", 24)):
        parser.add_argument(f"--{name}", type=int, default=default, help="of a rank's GPT")
    parser.add_argument("--steps", type=int, default=12, help="that are profiled")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    args.programs = args.programs.resolve()
    if args.measure:
        return measure(args)
    if args.compare:
        return sys.exit(0 if compare(args) else 1)
    predict(args)


if __name__ == "__main__":
    main()
