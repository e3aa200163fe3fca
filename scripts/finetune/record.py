#!/usr/bin/env python3
"""Puts what `make finetune` printed into docs/finetune.md, and an excerpt of it into README.md.

    record.py [OUTPUT]    by default build/finetune/output.txt
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def replace_block(page, after, text):
    """Replaces the first block of a page that names no language, after a text of the page."""
    path = ROOT / page
    head, mark, rest = path.read_text().partition(after)
    new, found = re.subn(r"(?<=\n```\n).*?\n(?=```\n)", lambda _: text + "\n", rest, count=1,
                         flags=re.S)
    if not found:
        sys.exit(f"record: {page} has no block after `{after}`")
    path.write_text(head + mark + new)


def excerpt(lines):
    """Returns the logits, the second recipe, the first and the last losses, and the table of
    costs."""
    def index(start):
        return next(i for i, line in enumerate(lines) if line.startswith(start))

    recipe, losses, costs = index("bf16: "), index("  step"), index("perplexity")
    return [lines[index("logits")], "", *lines[recipe:losses], *lines[losses:losses + 2], "   ...",
            lines[costs - 2], "", *lines[costs:index("before, it writes") - 1]]


def main():
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/finetune/output.txt")
    lines = [line.rstrip() for line in source.read_text().splitlines()]
    if not lines or not lines[-1].startswith("everything holds"):
        sys.exit(f"record: {source} does not end as a run in which everything holds")
    part = excerpt(lines)
    replace_block("docs/finetune.md", "## Output", "\n".join(lines))
    mark = "transformers](docs/finetune.md#output)"
    replace_block("README.md", mark, "\n".join(part))


if __name__ == "__main__":
    main()
