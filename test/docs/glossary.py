"""Checks docs/glossary.md: its order, its entries, its links, and that no term of the pages lacks.

Usage: glossary.py ROOT. Exits 1 and names each place that is wrong.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root / "docs/site"))
from anchors import anchors  # noqa: E402

pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
BLOCK = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
# A page writes a term that it explains in bold.
TERM = re.compile(r"\*\*((?!the |an? )[a-z]+(?: [a-z]+)?)\*\*")
NO_TERMS = {"docs/bench.md", "docs/bench-gpu.md", "docs/clip.md"}  # what they mark are columns
MOST_SENTENCES = 4


def wrong_entry(name, text):
    """What is missing in an entry."""
    explained, _, rest = text.partition("*In PyTorch:*")
    pytorch, _, links = rest.partition("*More:*")
    if not explained.strip() or not pytorch.strip() or "](" not in links:
        yield f"{name}: write what it is, `*In PyTorch:*` and `*More:*` with a link"
    if len(re.findall(r"[.;] ", explained)) >= MOST_SENTENCES:
        yield f"{name}: more than {MOST_SENTENCES} sentences; say less"
    for path, anchor in re.findall(r"\]\(([^)#]*)#([^)]*)\)", text):
        if anchor not in anchors((root / "docs" / path).read_text()):
            yield f"{name}: {path} has no heading #{anchor}"


glossary = (root / "docs/glossary.md").read_text()
entries = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", glossary, re.M | re.S)
names = [name for name, _ in entries]
wrong = [w for entry in entries for w in wrong_entry(*entry)]
wrong += [f"{b} stands behind {a}" for a, b in zip(names, names[1:]) if a.lower() >= b.lower()]
for page in pages:
    path, text = page.relative_to(root).as_posix(), page.read_text()
    for term in () if path in NO_TERMS else TERM.findall(BLOCK.sub("", text)):
        if not re.search(rf"\b{term}\b", " ".join(glossary.lower().split())):
            wrong.append(f"{path} marks the term {term}, which docs/glossary.md lacks")
    for anchor in re.findall(r"\]\(\S*glossary\.md#([\w-]+)\)", text):
        if anchor not in anchors(glossary):
            wrong.append(f"{path} links to #{anchor}, which docs/glossary.md lacks")
print("\n".join(wrong) or f"{len(names)} terms")
sys.exit(1 if wrong or len(names) < 50 else 0)
