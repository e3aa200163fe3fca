"""Checks schedule.py on rows of events made here: bytes, times at the ends of the range, and two
steps that are counted by hand."""

from schedule import MIB, POLICIES, Costs, Link, simulated


def example(units=4):
    """A root and some units, each with a weight and a bias."""
    parameters = [(0, 40 * MIB // 10)] + [(u, size) for u in range(1, units + 1)
                                          for size in (2 * MIB, 4096)]
    order = list(range(1, units + 1))
    events = [("step", 0, 0.001), ("forward", 0, 0.002)]
    events += [("unit", u, 0.010) for u in order] + [("backward", 0, 0.004)]
    for u in reversed(order):
        events += [("begin", u, 0.012), ("arrive", 2 * u, 0.001), ("arrive", 2 * u - 1, 0.001),
                   ("end", u, 0.002)]
    events += [("arrive", 0, 0.001), ("optimizer", 0, 0.020)]
    return Costs(parameters, events, copy=0, add=0, message=0)


def sent(rank):
    """Returns the bytes without short messages."""
    sizes = [(end - begin) * rank.link.speed for begin, end in rank.sent]
    return sum(size for size in sizes if size > rank.link.short * rank.link.ranks)


def close(a, b):
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def check_bytes(costs, ranks):
    """Checks the bytes in the table of docs/shard.md."""
    whole = sum(size for _, size in costs.parameters)
    root, last = costs.unit_bytes(0), costs.unit_bytes(4)
    wanted = {"ddp": 2 * whole, "ddp_late": 2 * whole, "fsdp": 3 * whole - root - last,
              "fsdp_plain": 3 * whole - root}
    for name, size in wanted.items():
        got = sent(simulated(name, costs, Link(ranks, 1e8, 1e-4)))
        assert close(got, size * (ranks - 1) / ranks), (name, ranks, got)


def check_times(costs, ranks):
    alone = sum(seconds for *_, seconds in costs.events)
    for name, policy in POLICIES.items():
        def seconds(speed, latency=0.0, name=name):
            return simulated(name, costs, Link(ranks, speed, latency)).now

        sliced = 0.020 * (1 - 1 / ranks) if "fsdp" in name else 0
        assert close(seconds(1e18), alone - sliced), (name, seconds(1e18))
        slow = sent(simulated(name, costs, Link(ranks, 1e5, 0))) / 1e5
        assert slow <= seconds(1e5) <= slow + alone + 1, (name, seconds(1e5), slow)
        assert seconds(1e7) > seconds(1e8) > seconds(1e9), name
        assert seconds(1e8, 0.01) > seconds(1e8), name
    for speed in (1e7, 1e8, 1e9):
        times = {name: simulated(name, costs, Link(ranks, speed, 0)).now for name in POLICIES}
        assert times["ddp"] < times["ddp_late"], (speed, times)
        assert times["fsdp"] < times["fsdp_plain"], (speed, times)


def check_by_hand():
    """One unit of 100 bytes, a root of 20, two ranks, 10 bytes a second, short messages free."""
    costs = Costs([(0, 20), (1, 100)],
                  [("forward", 0, 1), ("unit", 1, 7), ("backward", 0, 2), ("begin", 1, 9),
                   ("arrive", 1, 0), ("end", 1, 4), ("arrive", 0, 0), ("optimizer", 0, 6)],
                  copy=0, add=0, message=0)
    link = Link(2, 10, 0, short=0)
    # DDP has one bucket: 23 of computing, 6 to send the parts, 6 for the sums, 6 of update.
    assert close(simulated("ddp", costs, link).now, 23 + 6 + 6 + 6)
    # FSDP: 1 for the root, 1, 5 for the unit, 18; its sums take 5, of which 4 are hidden, then the
    # root's 1; half of the update.
    assert close(simulated("fsdp", costs, link).now, 1 + 1 + 5 + 18 + 4 + 1 + 1 + 3)


def main():
    for ranks in (2, 3, 8):
        check_bytes(example(), ranks)
        check_times(example(), ranks)
    check_by_hand()
    print("the schedule is right")


if __name__ == "__main__":
    main()
