"""README and docs against the tree: code is compiled, CMake's commands are an outside project's, messages
are the library's, links lead somewhere.

Usage: check.py ROOT. Exits 1 and names each place that is not true.
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
compiled = [
    *(root / "examples").glob("*.[ch]pp"),
    *(root / "test").rglob("*.[ch]pp"),
    *(root / "include").rglob("*.hpp"),
]


def plain(text):
    """Without indentation and empty lines, so that a block may be taken out of a function."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


sources = {path: plain(path.read_text()) for path in compiled}
outside = [root / "test_package/CMakeLists.txt", root / "test/install/consumer/CMakeLists.txt"]
commands = {line.strip() for path in outside for line in path.read_text().splitlines()}
refusals = " ".join(re.findall(r'"([^"]*)"', (root / "include/ikebana/grammar/refuse.hpp").read_text()))
refusals = re.sub(r"\s+", " ", refusals)
wrong = []

for page in pages:
    text = page.read_text()
    name = page.relative_to(root)
    for block in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        language, body = block.groups()
        line = text[: block.start()].count("\n") + 1
        if language == "cpp" and not any(plain(body) in source for source in sources.values()):
            wrong.append(f"{name}:{line}: this code stands in no file that is compiled")
        for command in body.splitlines() if language == "cmake" else ():
            if re.sub(r"\s*#.*", "", command).strip() not in commands:
                wrong.append(f"{name}:{line}: no outside project of the tests says `{command}`")
        for message in re.findall(r"static assertion failed: (.*)", body):
            if re.sub(r"\s+", " ", message.strip()) not in refusals:
                wrong.append(f"{name}:{line}: refuse.hpp has no such message")
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.M | re.S)
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
        if not (page.parent / link).exists():
            wrong.append(f"{name}: the link to {link} leads nowhere")
    for path in re.findall(r"`((?:include|examples|test|bench|docs|scripts|cmake)/[\w./-]+)`", text):
        if not (root / path).exists():
            wrong.append(f"{name}: there is no {path}")

print("\n".join(wrong) or f"{len(pages)} pages, all true")
sys.exit(1 if wrong else 0)
