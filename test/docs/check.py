"""README and docs against the tree: code is compiled or run, messages are the library's, links lead somewhere.

Usage: check.py ROOT. Exits 1 and names each place that is not true.
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
compiled = [
    *(root / "examples").rglob("*.[ch]pp"),
    *(root / "test").rglob("*.[ch]pp"),
    *(root / "include").rglob("*.hpp"),
]
run = [*(root / "examples").rglob("*.py")]


def plain(text):
    """Without indentation and empty lines, so that a block may be taken out of a function."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


sources = {
    language: [plain(path.read_text()) for path in paths]
    for language, paths in {"cpp": compiled, "python": run}.items()
}
refusals = " ".join(re.findall(r'"([^"]*)"', (root / "include/ikebana/grammar/refuse.hpp").read_text()))
refusals = re.sub(r"\s+", " ", refusals)
wrong = []

for page in pages:
    text = page.read_text()
    name = page.relative_to(root)
    for block in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        language, body = block.groups()
        line = text[: block.start()].count("\n") + 1
        if language in sources and not any(plain(body) in source for source in sources[language]):
            wrong.append(f"{name}:{line}: this code stands in no file that is compiled or run")
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
