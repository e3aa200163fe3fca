"""Defines the limits of the benchmark `shard`, as lines of a table: what, over what, limit,
measured."""

import statistics

CONTESTANTS = ["fsdp", "hand_fsdp", "python_fsdp", "zero1", "zero2", "ddp", "ddp_unordered",
               "hand_ddp", "python_ddp"]
ON_SLOW_LINK = ["fsdp", "fsdp_plain", "ddp", "ddp_late"]
HELD = ["ddp", "zero1", "zero2", "fsdp", "fsdp_plain"]

# For each shape: what is measured, the contestant, what it is compared with, and the bound.
SPEED = {
    "GPT 4x128": [("cpu", "ddp_unordered", "python_ddp", 1.0), ("cpu", "ddp", "python_ddp", 1.1),
                  ("cpu", "fsdp", "hand_fsdp", 1.08), ("cpu", "fsdp", "python_fsdp", 0.80),
                  ("wall", "ddp", "python_ddp", 0.75), ("wall", "fsdp", "python_fsdp", 0.87)],
    "GPT 6x384": [("cpu", "ddp_unordered", "python_ddp", 1.0), ("cpu", "ddp", "python_ddp", 1.1),
                  ("cpu", "fsdp", "hand_fsdp", 1.12), ("cpu", "fsdp", "python_fsdp", 0.80),
                  ("wall", "ddp", "python_ddp", 0.75), ("wall", "fsdp", "python_fsdp", 0.60)],
}
SLOW = [("wall", "fsdp", "fsdp_plain", 0.85), ("wall", "ddp", "ddp_late", 0.75)]
WITHIN = 0.05  # the bound of bytes


def line(shape, what, name, to, limit, measured, holds):
    return [shape.name, what, f"`{name}`", to, limit, f"{measured:.3f}", "yes" if holds else "NO"]


def of_ratios(shape, results, wanted):
    for what, name, to, limit in wanted:
        measured = statistics.median(a[what] / b[what] for a, b in zip(results[name], results[to]))
        yield line(shape, f"{what} time", name, f"`{to}`", f"<= {limit:.2f}", measured,
                   measured <= limit)


def of_speed(shape, results):
    return of_ratios(shape, results, SPEED[shape.name])


def of_slow_link(shape, results):
    return of_ratios(shape, results, SLOW)


def sizes(shape):
    """Returns the bytes of the parameters: of a block, and of all others, which are the root's."""
    width = shape.width
    return 4 * (12 * width**2 + 13 * width), 4 * width * (256 + shape.context + 2)


def of_bytes_sent(shape, results, ranks):
    block, root = sizes(shape)
    whole, others = shape.layers * block + root, (ranks - 1) / ranks
    textbook = {name: 2 * whole * others for name in ("ddp", "ddp_unordered", "zero1", "zero2")}
    # Parameters are gathered for forward and, except for the root and the last block, for backward.
    # Gradients are reduced once.
    textbook["fsdp"] = (3 * whole - root - block) * others
    for name, wanted in textbook.items():
        measured = statistics.median(r["sent"] for r in results[name]) / wanted
        yield line(shape, "bytes sent", name, "textbook", f"within {WITHIN:.0%}", measured,
                   abs(measured - 1) <= WITHIN)


def of_memory(shape, held, ranks):
    """Parameters and AdamW's state between steps; gradients at the update; gathered units."""
    block, root = sizes(shape)
    whole = shape.layers * block + root
    rest = {"ddp": 3, "zero1": 1 + 2 / ranks, "zero2": 1 + 2 / ranks, "fsdp": 3 / ranks}
    for name, wanted in rest.items():
        measured = held[name]["rest"] / (whole * wanted)
        yield line(shape, "parameters and state", name, "textbook", f"within {WITHIN:.0%}",
                   measured, abs(measured - 1) <= WITHIN)
    for name, wanted in {"ddp": 1, "zero2": 1 / ranks, "fsdp": 1 / ranks}.items():
        measured = held[name]["update"] / (whole * wanted)
        yield line(shape, "gradients", name, "textbook", f"within {WITHIN:.0%}", measured,
                   abs(measured - 1) <= WITHIN)
    for name, limit in (("fsdp_plain", 2.2), ("fsdp", 3.2)):
        measured = held[name]["gathered"] / block
        yield line(shape, "gathered at the peak", name, "blocks", f"<= {limit}", measured,
                   measured <= limit)


def show_all(lines):
    print("| shape | what | contestant | over | limit | measured | holds |\n" + "|---" * 7 + "|")
    for cells in lines:
        print("| " + " | ".join(cells) + " |", flush=True)
