"""The schedule of a step under a policy on shard, simulated event by event, for predict.py.

What a rank computes is one row of events, and its messages another, the link, which passes one
message after the other. A message begins when it is given to the link and the one before has
ended. All ranks are alike, so that one is enough: what it sends at a time it receives, too. If a
program sends and computes on one processor, sending takes its time.
"""

import dataclasses

MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Costs:
    """The costs of a rank alone: its parameters (unit, bytes), and a row of (event, number,
    seconds until the next event). They also have the seconds for a byte: of a copy, of a sum,
    and of sending one and receiving one."""
    parameters: list
    events: list
    copy: float
    add: float
    message: float

    def unit_bytes(self, unit):
        return sum(size for of, size in self.parameters if of == unit)


@dataclasses.dataclass(frozen=True)
class Link:
    """`speed` is the bytes per second of a rank, in each direction, `latency` the seconds of a
    message, and `short` the bytes of one by which ranks agree."""
    ranks: int
    speed: float
    latency: float
    short: int = 256


class Rank:
    """One rank: its clock, and its messages, each of which is received when it was sent, since all
    ranks do the same."""

    def __init__(self, costs, link):
        self.costs, self.link = costs, link
        self.now = self.free = 0.0
        self.sent = []  # begin and end of each message on the link

    def compute(self, seconds):
        """Takes longer while messages pass, whose bytes this processor copies."""
        share = min(0.9, self.link.speed * self.costs.message)
        for begin, end in self.sent:
            if seconds <= 0 or end <= self.now:
                continue
            alone = min(seconds, max(0.0, begin - self.now))
            self.now, seconds = self.now + alone, seconds - alone
            both = min(seconds / (1 - share), max(0.0, end - self.now)) if seconds > 0 else 0
            self.now, seconds = self.now + both, seconds - both * (1 - share)
        self.now += max(0.0, seconds)

    def send(self, size):
        """Begins to send `size` bytes to each other rank. Returns when the bytes of all are
        here."""
        begin = max(self.now, self.free)
        self.free = begin + size * (self.link.ranks - 1) / self.link.speed
        self.sent.append((begin, self.free))
        return self.free + self.link.latency

    def wait(self, until):
        self.now = max(self.now, until)

    def meet(self):
        """Sends a short message, whose answer is needed."""
        self.wait(self.send(self.link.short))

    def part(self, size):
        return size / self.link.ranks


class DDP:
    """Buckets in the order in which gradients arrive. One at a time is received: the next one
    begins when this one's sums are sent."""
    sliced = False

    def __init__(self, rank, bucket_mib=None):
        self.rank = rank
        sizes = [size for _, size in rank.costs.parameters]
        limit = (min(4, max(1, sum(sizes) / 8 / MIB)) if bucket_mib is None else bucket_mib) * MIB
        self.bucket_of, self.buckets = {}, []
        for i in reversed(range(len(sizes))):
            if not self.buckets or self.buckets[-1]["size"] + sizes[i] > limit:
                self.buckets.append({"size": 0, "missing": 0})
            self.buckets[-1]["size"] += sizes[i]
            self.buckets[-1]["missing"] += 1
            self.bucket_of[i] = len(self.buckets) - 1
        self.next, self.parts, self.sums = 0, 0.0, 0.0

    def arrive(self, i):
        bucket = self.buckets[self.bucket_of[i]]
        self.rank.compute(self.rank.costs.parameters[i][1] * self.rank.costs.copy)
        bucket["missing"] -= 1
        while self.next < len(self.buckets) and self.buckets[self.next]["missing"] == 0:
            self.begin_next()

    def begin_next(self):
        if self.next > 0:
            self.spread()
        self.parts = self.rank.send(self.rank.part(self.buckets[self.next]["size"]))
        self.next += 1

    def spread(self):
        part = self.rank.part(self.buckets[self.next - 1]["size"])
        self.rank.wait(self.parts)
        self.rank.compute((self.rank.link.ranks - 1) * part * self.rank.costs.add)
        self.sums = self.rank.send(part)

    def forward(self):
        pass

    unit = begin = end = lambda self, unit: None

    def finish(self):
        while self.next < len(self.buckets):
            self.begin_next()
        self.spread()
        self.rank.wait(self.sums)
        self.rank.meet()


class FSDP:
    """Units are gathered one ahead; at most two reductions are under way."""
    sliced = True

    def __init__(self, rank, ahead=True, keeps_last=True):
        self.rank, self.ahead, self.keeps_last = rank, ahead, keeps_last
        self.units = sorted({unit for unit, _ in rank.costs.parameters} - {0})
        self.arriving, self.here, self.pending = {}, set(), []

    def begin_gather(self, unit):
        if unit in self.arriving or unit in self.here:
            return
        part = self.rank.part(self.rank.costs.unit_bytes(unit))
        self.rank.compute(part * self.rank.costs.copy)
        self.arriving[unit] = self.rank.send(part)

    def gather(self, unit):
        if unit not in self.here:
            self.begin_gather(unit)
            self.rank.wait(self.arriving.pop(unit))
        self.here.add(unit)

    def forward(self):
        self.gather(0)

    def unit(self, unit):
        self.gather(unit)
        if self.ahead and unit + 1 in self.units:
            self.begin_gather(unit + 1)
        self.here = {0, unit} if self.keeps_last else {0}

    def begin(self, unit):
        self.gather(unit)
        if self.ahead and unit - 1 in self.units:
            self.begin_gather(unit - 1)

    def end(self, unit):
        while len(self.pending) >= 2:
            self.finish_oldest()
        size = self.rank.costs.unit_bytes(unit)
        self.pending.append((self.rank.send(self.rank.part(size)), size))
        self.here.discard(unit)

    def finish_oldest(self):
        received, size = self.pending.pop(0)
        self.rank.wait(received)
        self.rank.compute((self.rank.link.ranks - 1) * self.rank.part(size) * self.rank.costs.add)

    def arrive(self, parameter):
        pass

    def finish(self):
        self.end(0)
        while self.pending:
            self.finish_oldest()


POLICIES = {"ddp": DDP, "fsdp": FSDP,
            "ddp_late": lambda rank: DDP(rank, bucket_mib=1e6),
            "fsdp_plain": lambda rank: FSDP(rank, ahead=False, keeps_last=False)}


def simulated(name, costs, link):
    """A rank after a step of one microbatch: `now` is the time of the step."""
    rank = Rank(costs, link)
    policy = POLICIES[name](rank)
    rank.meet()  # the opening
    for what, which, seconds in costs.events:
        if what == "forward":
            policy.forward()
        elif what in ("unit", "begin", "end", "arrive"):
            getattr(policy, what)(which)
        elif what == "optimizer":
            policy.finish()
            rank.meet()  # sums of the loss
            rank.meet()  # the agreement before the update
            seconds = rank.part(seconds) if policy.sliced else seconds
        rank.compute(seconds)
    return rank
