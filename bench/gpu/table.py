"""Writes the tables of a run, and the page that holds them: docs/bench-gpu.md."""

import re

from works import CHECKPOINT, CHOICES, CONTESTANTS, MOVES, OFFLOADS, SIDES, WORKS

NOT_RUN = "not run"
STEPS = ["work", "contestant", "ms per step", "rounds", "over ikebana", "per second", "TFLOP/s",
         "of the bound", "peak GiB", "kernels", "launches", "ms without a kernel", "of the step",
         "losses"]
SAVE = ["what", "ms"]
SAVES = {"first_ms": "the first call of `save_async`", "call_ms": "a later call",
         "with_step_ms": "a later call and the step after it, until the device has done it",
         "step_ms": "a step without a save",
         "copy_ms": "a copy of the same bytes to the host's memory, by hand"}


def line(cells):
    return "| " + " | ".join(cells) + " |"


def table(header, rows, texts=1):
    """Columns after the first `texts` hold numbers."""
    marks = "|" + "---|" * texts + "---:|" * (len(header) - texts)
    return "\n".join([line(header), marks, *map(line, rows)])


def or_dash(value, form):
    return "-" if value is None else form.format(value)


def gib(value):
    return or_dash(None if value is None else value / 2**30, "{:.2f}")


def step_cells(work, name, found):
    if name not in found:
        return [work, name, NOT_RUN] + [""] * (len(STEPS) - 3)
    f = found[name]
    if "failed" in f:
        return [work, name, f["failed"].replace("|", "/")] + [""] * (len(STEPS) - 3)
    idle = None if f["busy_ms"] is None else max(0.0, f["ms"] - f["busy_ms"])
    return [work, name, f"{f['ms']:.3f}", f"{f['rounds']}", or_dash(f["ratio"], "{:.3f}"),
            f"{f['rate']:.0f} {f['unit']}", f"{f['flops'] / 1e12:.2f}", f"{100 * f['share']:.1f} %",
            gib(f["peak"]), or_dash(f["kernels"], "{:.0f}"), or_dash(f["launches"], "{:.0f}"),
            or_dash(idle, "{:.3f}"), or_dash(idle and idle / f["ms"], "{:.0%}"),
            ", ".join(f"{loss:.4f}" for loss in f["losses"])]


def name_of(work, results):
    """Returns the name with the number of rows that was found, and the microbatches."""
    return results["names"].get(work.name, work.name)


def steps(results):
    rows = [step_cells(name_of(work, results), name, results["works"].get(work.name, {}))
            for work in WORKS for name in results["contestants"]]
    return table(STEPS, rows, 2)


def choice_cells(found):
    if found is None or "failed" in found:
        return [found["failed"] if found else NOT_RUN, "", ""]
    return [f"{found['ms']:.2f}", or_dash(found["ratio"], "{:.2f}"), gib(found["peak"])]


def checkpoint(results):
    header = ["model", "choice"] + [f"{what}{'' if side == 'ikebana' else ', Python'}"
                                    for side in SIDES for what in ("ms", "over none", "peak GiB")]
    rows = []
    for choice, policy in CHOICES.items():
        cells = []
        for side in SIDES:
            cells += choice_cells(results["checkpoint"].get(f"{side} {choice}"))
        policy = f"`{policy}`" if choice != "none" else policy
        rows.append([name_of(CHECKPOINT, results), policy, *cells])
    return table(header, rows, 2)


def offload(results):
    header = ["model", "choice", "ms", "over none", "peak GiB", "between steps GiB", "out GiB",
              "back GiB", "ms, Python", "over none, Python", "peak GiB, Python"]
    rows = []
    for choice, policy in OFFLOADS.items():
        found = results["recipe"].get(f"ikebana {choice}", {})
        own = [gib(found.get(key)) if "ms" in found else "" for key in ("rest", "out", "back")]
        python = results["recipe"].get(f"python {choice}")
        beside = choice_cells(python) if ("python", choice) in MOVES else ["-"] * 3
        policy = f"`{policy}`" if choice != "none" else policy
        rows.append([name_of(CHECKPOINT, results), policy, *choice_cells(found or None), *own,
                     *beside])
    bars = table(["bar", "limit", "measured", "holds"], offload_bars(results["recipe"]))
    return table(header, rows, 2) + "\n\n" + bars


def offload_bars(found):
    """What the choices are to keep to."""
    def share(of, what, by, whole):
        part = found.get(f"ikebana {of}", {}).get(what)
        all = found.get(f"ikebana {by}", {}).get(whole)
        return part / all if part is not None and all else None
    def time(of):
        return found.get(f"ikebana {of}", {}).get("ratio")
    bars = [("`Activations`: time over none", 1.02, time("activations"), False),
            ("`Activations`: moved, of what forward keeps", 0.95,
             share("activations", "out", "none", "kept"), True),
            ("`OptimizerState`: time over none", 1.20, time("state"), False),
            ("`OptimizerState`: memory between steps over none", 0.50,
             share("state", "rest", "none", "rest"), False)]
    for what, limit, measured, at_least in bars:
        holds = measured is not None and (measured >= limit if at_least else measured <= limit)
        yield [what, f"{'at least' if at_least else 'at most'} {limit:.2f}",
               or_dash(measured, "{:.3f}") if measured is not None else NOT_RUN,
               "" if measured is None else "yes" if holds else "NO"]


def save(results):
    found = results["save"]
    rows = [[text, f"{found[key]:.1f}" if key in found else NOT_RUN] for key, text in SAVES.items()]
    text = table(SAVE, rows)
    if "bytes" in found:
        text += f"\n\nThe state has {found['bytes'] / 1e9:.2f} GB."
    return text


def conditions(results):
    c = results["conditions"]
    if not c:
        return "Device, driver, CUDA, torch and compiler of the run: not run."
    text = (f"{c['device']}, driver {c['driver']}, CUDA {c['cuda']}, torch {c['torch']}, "
            f"{c['compiler']}, Python {c['python']}. A product of two BF16 matrices of "
            f"{c['side']} x {c['side']} did {c['bound'] / 1e12:.1f} TFLOP/s. The run took "
            f"{results['seconds']:.0f} s.")
    for head, key in (("Not run", "not_run"), ("Failed", "failures")):
        if results[key]:
            text += f"\n\n{head}:\n\n" + "\n".join(f"- {one}" for one in results[key])
    return text


PARTS = {"conditions": conditions, "steps": steps, "checkpoint": checkpoint, "offload": offload,
         "save": save}


def empty():
    return {"conditions": {}, "names": {}, "contestants": CONTESTANTS, "works": {},
            "checkpoint": {}, "recipe": {}, "save": {}, "not_run": [], "failures": [], "seconds": 0}


def text_of(results):
    return "\n\n".join(part(results) for part in PARTS.values())


def filled(page, results):
    """Returns the page with each part between its marks replaced."""
    for name, part in PARTS.items():
        marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.S)
        page, count = marks.subn(lambda m, part=part: m[1] + part(results) + "\n" + m[2], page)
        if count != 1:
            raise SystemExit(f"gpu: the page has {count} places for `{name}`")
    return page
