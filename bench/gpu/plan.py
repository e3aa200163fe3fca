"""Defines the stages of a run on a device, the most important first, and the same in small on a
CPU."""

import statistics
from concurrent.futures import ThreadPoolExecutor

from contest import Contest, closing
from process import Failed
from works import (CHECKPOINT, CHOICES, CONTESTANTS, GPT2, IN_CPP, LARGEST, MLP, MOVES, OFFLOADS,
                   ON_CPU, RESNET, SIDES, SMALL, WORKS, on_cpu)

COMPILED = ["compile", "reduce-overhead"]
LATE = ["captured", *COMPILED]  # the last ones of the largest batch
BY_HAND = ["ikebana", "expert", "python"]
# Estimates the seconds that a contestant of GPT-2 takes from its launch to its end, for the plan
# alone, and the seconds if its kernels were not compiled before.
COSTS = {"ikebana": 18, "captured": 18, "expert": 18, "python": 25, "compile": 45,
         "reduce-overhead": 45}
UNCOMPILED = COSTS | {"compile": 85, "reduce-overhead": 85}
MOST_ROWS = 512
OFFLOAD_BY = {"ikebana": "offload"}  # the program that has these recipes


def microbatches(run, work):
    """Returns the smallest power of two into which the batch must be cut, found by trying in
    Python."""
    for count in (1, 2, 4, 8):
        smaller = work.replace(accumulate=count)
        with closing(run.contest(smaller, ["python"])) as contest:
            contest.ready()
            if contest.running:
                return smaller
            if "does not fit" not in contest.failed["python"]:
                raise Failed(contest.failed["python"])
    raise Failed("does not fit into memory in eight microbatches")


def fill_compiler_cache(run, work):
    """Compiles GPT-2 while the device is not timed, so that later launches take less time. Compiles
    one mode after the other, because their memory does not fit together."""
    for name in COMPILED:
        with closing(run.contest(work, [name])) as contest:
            contest.ready()
            run.say(f"{work.name}, {name}: {contest.failed.get(name, 'compiled')}")


def timed(run, contest, seconds):
    contest.take_turns(run.clock() + seconds)
    contest.take_figures()
    run.keep(contest)


def small_works(run, pool):
    """Everything that is compiled starts at once, and nothing is timed meanwhile."""
    gpt2, *smaller = (run.placed(work) for work in (GPT2, MLP, SMALL, RESNET))
    run.data(gpt2)
    trying = pool.submit(microbatches, run, gpt2)  # with the memory for itself
    for work in smaller:
        run.data(work)
    gpt2 = stage(run, f"{GPT2.name}: microbatches", 0, trying.result)
    if gpt2:
        cut = gpt2.row.accumulate
        run.results["names"][GPT2.name] = f"{GPT2.name} = {cut} x {gpt2.row.rows // cut}"
        filling = pool.submit(fill_compiler_cache, run, gpt2)
    in_python = [name for name in CONTESTANTS if name not in IN_CPP]
    contests = [run.contest(work, in_python) for work in smaller]
    run.finish_build()
    for i, contest in enumerate(contests):
        if gpt2 and i == 2:
            filling.result()  # before ResNet takes more memory
        for name in IN_CPP:
            contest.start(name, run.launch(name, contest.work))
    for contest in contests:
        contest.ready(lambda name, work=contest.work: run.launch(name, work))
    run.results["conditions"] = run.conditions(8192) | {"compiler": run.compiler()}
    for contest in contests:
        with closing(contest):
            stage(run, contest.work.name, 10, lambda: timed(run, contest, 20))
    return gpt2


def with_most_rows(run):
    """The work with as many rows as fit, found by trying with ikebana."""
    process = run.launch("ikebana", run.placed(GPT2).replace(rows=8))
    try:
        rows = int(process.ask(f"fit {MOST_ROWS}", run.clock.patience())[0])
    finally:
        process.close()
    if not rows:
        raise Failed("eight rows do not fit into memory")
    run.results["names"][LARGEST.name] = f"{LARGEST.name}: {rows}"
    return run.placed(LARGEST).replace(rows=rows)


def alone(run, contest, names, costs=COSTS):
    """Makes one round of the contestants for whom there is time."""
    chosen, seconds = [], 0
    for name in names:
        if run.clock.left() >= seconds + costs[name]:
            chosen.append(name)
            seconds += costs[name]
    run.say(f"{contest.work.name}: {', '.join(chosen) or 'no time for a further round'}")
    contest.one_by_one(chosen, lambda name: run.launch(name, contest.work))
    run.keep(contest)


def choices(run, contest, field, keys, process_of, more=lambda contestant: {}):
    """Each choice of a field on either side, in turn. `more` asks ikebana for further figures."""
    works = {choice: contest.work.replace(**{field: choice}) for _, choice in keys}
    for side, choice in keys:
        contest.start((side, choice), process_of(side, works[choice]), works[choice])
    contest.ready()
    contest.take_turns(run.clock() + 15)
    peaks = {key: contest.guarded(key, lambda c=c: int(c.ask("peak 2")[0]))
             for key, c in list(contest.running.items())}
    further = {key: contest.guarded(key, lambda c=c: more(c))
               for key, c in list(contest.running.items()) if key[0] == "ikebana"}
    found = run.results[field]
    for side, choice in contest.timed():
        peak = peaks.get((side, choice))
        found[f"{side} {choice}"] = (further.get((side, choice)) or {}) | {
            "ms": 1e3 * contest.seconds((side, choice)),
            "ratio": contest.ratio((side, choice), (side, "none")),
            "peak": peak if peak and peak >= 0 else None}
    run.keep_failures(contest, found, " ".join)


def checkpoints(run, contest, keys, process_of):
    """Makes each choice of Checkpoint, then the pause of a save."""
    choices(run, contest, "checkpoint", keys, process_of)
    if ("ikebana", "none") in contest.running:
        keep_save(run, contest)
        run.keep_failures(contest, run.results["checkpoint"], " ".join)


def offloads(run, contest, keys, process_of):
    """Each choice of Offload, with the bytes that it moves, keeps and leaves on the device."""
    def more(contestant):
        out, back = (int(word) for word in contestant.ask("moved 1"))
        kept, rest = (int(contestant.ask(f"{word} 1")[0]) for word in ("kept", "rest"))
        return {"out": out, "back": back, "kept": kept, "rest": rest}
    choices(run, contest, "recipe", keys, process_of, more)


def keep_save(run, contest):
    key = "ikebana", "none"
    ask = contest.running[key].ask

    def measure():
        pauses = [[float(word) for word in ask("pause 1")] for _ in range(4)]
        copies = [[float(word) for word in ask("copy 1")] for _ in range(4)]
        later, again = statistics.median, slice(1, None)
        return {"first_ms": 1e3 * pauses[0][0], "step_ms": 1e3 * contest.seconds(key),
                "call_ms": 1e3 * later(p[0] for p in pauses[again]),
                "with_step_ms": 1e3 * later(p[1] for p in pauses[again]),
                "copy_ms": 1e3 * later(c[0] for c in copies[again]), "bytes": copies[0][1]}
    found = contest.guarded(key, measure)
    if found:
        run.results["save"] = found


def stage(run, what, seconds, action):
    """Runs the action if there is time. An error is noted, and the rest goes on."""
    if not run.has(seconds, what):
        return None
    try:
        run.say(what)
        return action()
    except (Failed, OSError, ValueError) as failure:
        run.failed(f"{what}: {failure}")
        return None


def on_device(run):
    run.start_build()
    with ThreadPoolExecutor(1) as pool:
        gpt2 = small_works(run, pool)
    if gpt2:
        contests = [run.contest(gpt2)]
        alone(run, contests[0], CONTESTANTS)
    keys = [(side, choice) for choice in CHOICES for side in SIDES]
    with closing(run.contest(run.placed(CHECKPOINT))) as contest:
        stage(run, "checkpoint and save_async", 45,
              lambda: checkpoints(run, contest, keys, run.launch))
    with closing(run.contest(run.placed(CHECKPOINT))) as contest:
        stage(run, "offload", 45, lambda: offloads(
            run, contest, MOVES, lambda side, work: run.launch(OFFLOAD_BY.get(side, side), work)))
    if gpt2:
        largest_batches(run, contests)
        for contest in contests:
            for name in CONTESTANTS:
                if name not in run.results["works"][contest.work.name]:
                    run.not_run(f"{contest.work.name}, {name}", "there was no time left")


def largest_batches(run, contests):
    """Also uses the time that is left for further rounds of 64 rows."""
    work = stage(run, LARGEST.name, 15, lambda: with_most_rows(run))
    if work:
        contests.append(run.contest(work))
        alone(run, contests[1], BY_HAND)
    alone(run, contests[0], BY_HAND)
    if work:
        alone(run, contests[1], BY_HAND)
        alone(run, contests[1], LATE, UNCOMPILED)
    alone(run, contests[0], CONTESTANTS)


def on_cpu_in_small(run):
    """All rows in tiny sizes, each contestant as one process that goes through them."""
    import bound  # imports torch
    run.start_build()
    run.finish_build()
    works = [on_cpu(work) for work in WORKS]
    chosen = [on_cpu(CHECKPOINT).replace(checkpoint=choice) for choice in CHOICES]
    moved = {choice: on_cpu(CHECKPOINT).replace(recipe=choice) for choice in OFFLOADS}
    run.results["contestants"] = ON_CPU
    run.results["names"] = {w.name: f"{w.name}, in small" for w in [*works, *chosen]}
    rows = {"ikebana": works + chosen, "captured": works, "expert": works,
            "offload": list(moved.values()),
            "python": works + chosen + [moved[key[1]] for key in MOVES if key[0] == "python"]}
    run.results["conditions"] = bound.conditions("cpu", 256) | {"compiler": run.compiler()}
    processes = {name: run.launcher(name, [(w.row, run.data(w)) for w in all_works])
                 for name, all_works in rows.items()}
    for work in works:
        contest = Contest(work, run.clock, lambda process: process.tell("next 1"))
        for name in ON_CPU:
            contest.start(name, processes[name])
        contest.ready()
        stage(run, work.name, 0, lambda c=contest: timed(run, c, 10))
        if work.fits and "ikebana" in contest.running:
            found = contest.guarded("ikebana", lambda c=contest: int(
                c.running["ikebana"].ask("fit 24")[0]))
            run.say(f"{work.name}: {found} of 24 rows fit")
            run.keep(contest)
        contest.close()
    choices_in_small(run, chosen, moved, processes)
    for process in processes.values():
        process.close()


def choices_in_small(run, chosen, moved, processes):
    """Makes the stages of Checkpoint and of Offload, one after the other."""
    for work in chosen:
        contest = Contest(work, run.clock, lambda process: process.tell("next 1"))
        keys = [(side, work.row.checkpoint) for side in SIDES]
        checkpoints(run, contest, keys, lambda side, _: processes[side])
        contest.close()
    for choice, work in moved.items():
        contest = Contest(work, run.clock, lambda process: process.tell("next 1"))
        keys = [key for key in MOVES if key[1] == choice]
        offloads(run, contest, keys, lambda side, _: processes[OFFLOAD_BY.get(side, side)])
        contest.close()
