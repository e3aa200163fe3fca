"""What the ranks of a trial wrote, and whether it is right."""
import pathlib
import re
import types

LIMIT = 3.0  # seconds for which ranks wait for each other
DEATH, SILENCE, DIVERGENCE, THROW = 5.0, LIMIT + 2, 5.0, 3.0
# Says what each kind does, how often, and within which time the other ranks end or throw.
KINDS = {"throw": (5, THROW), "kill": (5, DEATH), "stop": (2, SILENCE), "order": (2, DIVERGENCE),
         "skip": (2, DIVERGENCE), "twice": (1, DIVERGENCE), "recipe": (1, DIVERGENCE),
         "model": (1, DIVERGENCE), "rows": (1, None), "lengths": (1, None), "save": (1, DEATH),
         "call": (1, DEATH), "rejoin": (1, DEATH)}


class Wrong(Exception):
    pass


class Lines:
    """What a rank wrote: (what, seconds, text)."""

    def __init__(self, path):
        text = path.read_text() if path.exists() else ""
        self.lines = []
        for line in text.splitlines():
            what, when, *rest = line.split(" ", 2)
            self.lines.append((what, int(when) / 1e9, rest[0] if rest else ""))

    def first(self, what):
        return next((one for one in self.lines if one[0] == what), None)

    def end(self):
        one = self.first("end")
        return one and one[2]


def check_error(error, trial, rank, seconds, was_made):
    """Checks that the error of another rank names the victim, the step, and what was due, in
    time."""
    _, bound = KINDS[trial.kind]
    if seconds > bound:
        raise Wrong(f"rank {rank} ended after {seconds:.2f} s: {error[2]}")
    victims = {trial.victim}
    if trial.kind == "rejoin":
        victims.add((trial.victim + 1) % trial.size)
    if not any(f"rank {victim}" in error[2] for victim in victims):
        raise Wrong(f"rank {rank} does not name rank {trial.victim}: {error[2]}")
    # Before the first step there is no such number.
    if was_made and trial.kind != "rejoin" and not re.search(r"step \d+\)", error[2]):
        raise Wrong(f"rank {rank} names no step: {error[2]}")
    if was_made and "ranks: " not in error[2] and "step: rank" not in error[2]:
        raise Wrong(f"rank {rank} does not say what was due: {error[2]}")


def check(trial, ranks, expected):
    """Returns the seconds after which the other ranks threw. Throws Wrong."""
    ends = [lines.end() for lines in ranks]
    event = ranks[trial.victim].first("event")
    if trial.kind in ("rows", "lengths"):
        if len(set(ends)) != 1 or ends[0] is None:
            raise Wrong(f"ranks end differently: {ends}, {[r.first('error') for r in ranks]}")
        return []
    if trial.kind in ("recipe", "model"):  # their event is the making of the trainer
        event = ranks[trial.victim].first("made") or ranks[trial.victim].first("met")
    if set(ends) == {expected} and trial.kind != "throw":
        return []  # they had ended before the harm came
    if event is None:
        raise Wrong(f"no harm came: {[r.lines for r in ranks]}")
    if trial.kind == "throw" and set(ends) != {expected}:
        raise Wrong(f"the step was not repeated to the bit: {ends}, expected {expected}, "
                    f"{[r.lines for r in ranks]}")
    seconds = []
    for rank, lines in enumerate(ranks):
        if rank == trial.victim:
            continue
        error = lines.first("error")
        if error is None:
            if lines.end() == expected:
                continue  # it needed nothing of the victim any more
            if trial.kind == "rejoin":
                continue  # the one that died then
            raise Wrong(f"rank {rank} has no error: {lines.lines}")
        seconds.append(error[1] - event[1])
        check_error(error, trial, rank, seconds[-1], lines.first("made") is not None)
        if trial.kind != "throw" and lines.end() is not None:
            raise Wrong(f"rank {rank} trained on without rank {trial.victim}")
    own = ranks[trial.victim]
    if trial.kind == "stop" and own.end() and own.end() != expected:
        raise Wrong("the rank that was stopped trained alone")
    if trial.kind in ("order", "skip", "twice", "recipe", "model") and own.first("error") is None:
        raise Wrong("the rank that went another way has no error")
    return seconds


def self_test():
    """Outcomes that are wrong are found."""
    def lines(*rows):
        made = Lines(pathlib.Path("/nonexistent"))
        made.lines = [(what, when, text) for what, when, text in rows]
        return made

    def outcome(kind, *ranks):
        trial = types.SimpleNamespace(kind=kind, victim=0, size=len(ranks))
        try:
            check(trial, ranks, "7")
            return ""
        except Wrong as error:
            return str(error)

    died = lines(("made", 0, ""), ("event", 1, "kill"))
    text = "ranks: at the gather of unit `a`: rank 0 ended (step 2)"
    said = lambda when, what: lines(("made", 0, ""), ("error", when, what))
    threw = lines(("event", 1, "throw"), ("error", 1, "x"), ("end", 2, "7"))
    cases = [("", "kill", died, said(1.1, text)),
             ("ended after", "kill", died, said(7, text)),
             ("does not name", "kill", died, said(2, text.replace("rank 0", "rank 5"))),
             ("names no step", "kill", died, said(2, text.replace("(step 2)", ""))),
             ("", "kill", died, said(2, text.replace("(step", "(a save, after step"))),
             ("what was due", "kill", died, said(2, "rank 0 ended (step 2)")),
             ("no error", "kill", died, lines(("made", 0, ""))),
             ("trained on", "kill", died, lines(*said(2, text).lines, ("end", 3, "7"))),
             ("to the bit", "throw", threw, lines(*said(2, text).lines, ("end", 3, "8"))),
             ("", "throw", threw, lines(*said(2, text).lines, ("end", 3, "7"))),
             ("no harm", "kill", lines(), said(2, text)),
             ("trained alone", "stop", lines(*died.lines, ("end", 0.5, "8")), said(2, text)),
             ("another way", "order", died, said(2, text)),
             ("differently", "rows", lines(("end", 1, "7")), lines(("end", 1, "8")))]
    for words, kind, *ranks in cases:
        found = outcome(kind, *ranks)
        if (words not in found) or bool(words) != bool(found):
            print(f"trials: {kind} gives `{found}`, not `{words}`")
            return 1
    print(f"{len(cases)} outcomes are judged right")
    return 0
