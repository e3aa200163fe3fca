#!/usr/bin/env python3
"""Lists what pages lost since a revision: code blocks and numbers that stood in a page there and
stand in no page now. Whoever shortens pages reads the list, and says of each line why it may go.

    facts.py REVISION [PAGE ...]   of all pages, or of these alone
    facts.py self                  the same on pages made for this
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)*(?: ?(?:%|[kMGT]i?B\b|ms\b|us\b|s\b))?")
FENCE = re.compile(r"^```(\S*).*?\n(.*?)^```", re.M | re.S)


def pages(revision=None):
    """The text of each page by its path: in the working tree, or in a revision."""
    if revision is None:
        found = sorted(ROOT.glob("docs/**/*.md")) + [ROOT / "README.md"]
        return {str(page.relative_to(ROOT)): page.read_text() for page in found}

    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    names = git("ls-tree", "-r", "--name-only", revision, "docs", "README.md").split()
    return {name: git("show", f"{revision}:{name}") for name in names if name.endswith(".md")}


def blocks(text):
    """Returns the code blocks of a page, each without the spaces that do not matter."""
    return {" ".join(code.split()): code for _, code in FENCE.findall(text)}


def numbers(text):
    """Returns the lines of a page's prose and tables by each number in them of two digits or
    more."""
    found = {}
    for line in FENCE.sub("", text).splitlines():
        for number in NUMBER.findall(re.sub(r"\]\([^)]*\)", "]", line)):
            if len(re.sub(r"\D", "", number)) > 1:
                found.setdefault(number.strip(), line.strip())
    return found


def lost(before, now, only=()):
    """What pages of `before` had that none of `now` has: (page, kind, text) of each."""
    kept_blocks = {block for text in now.values() for block in blocks(text)}
    all_now = "\n".join(now.values())
    for page, text in before.items():
        if only and page not in only:
            continue
        for block, code in blocks(text).items():
            if block not in kept_blocks and block not in " ".join(all_now.split()):
                yield page, "block", code.strip()
        for number, line in numbers(text).items():
            if not re.search(r"(?<![\w.])" + re.escape(number) + r"(?![\w])", all_now):
                yield page, "number", f"{number}: {line[:160]}"


def check_itself():
    before = {"a.md": "It takes 12.5 ms, or 1 of 40 %.\n```cpp\nint x = 1;\n```\n[b](c.md#99)\n",
              "b.md": "Also 77.\n"}
    now = {"a.md": "It takes 12.5 ms.\n", "c.md": "```cpp\nint  x =  1;\n```\n"}
    assert list(lost(before, now)) == [("a.md", "number", "40 %: It takes 12.5 ms, or 1 of 40 %."),
                                       ("b.md", "number", "77: Also 77.")]
    assert [kind for _, kind, _ in lost(before, {"a.md": "40 % 77 12.5 ms"})] == ["block"]
    assert not list(lost(before, now, only=["c.md"]))
    print("what pages lose is found")


def main(arguments):
    if arguments == ["self"]:
        return check_itself()
    if not arguments:
        sys.exit(__doc__)
    found = list(lost(pages(arguments[0]), pages(), arguments[1:]))
    for page, kind, text in found:
        print(f"{page}: {kind} {text}")
    print(f"{len(found)} blocks and numbers of {arguments[0]} stand in no page")


if __name__ == "__main__":
    main(sys.argv[1:])
