#!/usr/bin/env python3
"""The index of all errors, docs/errors.md, from the texts in the sources.

    index.py ROOT            writes the page
    index.py ROOT --check    exits 1 if the page is not what this would write
    index.py self            the same on sources made here: what cannot be listed is found

Exits 1 and names each error whose text cannot be read, or does not say what to do.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "docs/site")]
import others  # noqa: E402
from literals import unlisted  # noqa: E402
from page import Page  # noqa: E402
from sites import INTERNAL, Sites  # noqa: E402
from tree import Tree  # noqa: E402

# Matches what is no code, read in another way than by cpp.py, so that neither misses a throw.
NO_CODE = re.compile(r'R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//[^\n]*|'
                     r"/\*(?:.|\n)*?\*/")


def count_throws(include):
    """How many `throw` there are."""
    return sum(len(re.findall(r"\bthrow\b", NO_CODE.sub('""', path.read_text())))
               for path in include.rglob("*") if path.suffix in (".hpp", ".ipp", ".inc", ".h"))


def wrong_texts(intro, test):
    """The texts that the introduction shows and no test compares with what is thrown."""
    literals = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', test))
    for block in re.findall(r"^```text\n(.*?)^```$", intro, re.M | re.S):
        text = " ".join(block.split())
        if text not in literals:
            yield f"scripts/errors/intro.md: test/docs/errors.cpp does not compare `{text}`"


def wrong_quotes(intro, messages):
    """The errors that the introduction quotes and nothing throws."""
    known = [re.sub("\ue000[^\ue001]*\ue001", ".+", re.escape(m.text)) for m in messages]
    for quote in re.findall(r"^> (.*)$", intro, re.M):
        if not any(re.fullmatch(pattern, quote) for pattern in known):
            yield f"scripts/errors/intro.md: no error says `{quote}`"


def index(root):
    """The page, and what is wrong."""
    include = root / "include/ikebana"
    tree = Tree(include)
    sites = Sites(tree)
    wrong = list(sites.unread)
    for key in INTERNAL:
        if key not in sites.internal:
            wrong.append(f"{key[0]} throws no {key[1]}, which scripts/errors/sites.py lists")
    throws = count_throws(include)
    if throws != sites.throws:
        wrong.append(f"{throws} throws in include/, of which {sites.throws} were read")
    messages = [*sites.messages, *others.of_cmake(root), *others.of_shell(root),
                *others.of_python(root)]
    intro = (root / "scripts/errors/intro.md").read_text()
    page = Page(tree, messages, intro)
    text = page.text()
    wrong += wrong_quotes(intro, messages)
    wrong += wrong_texts(intro, (root / "test/docs/errors.cpp").read_text())
    wrong += unlisted(tree, text)
    print(f"{throws} throws: {sites.rethrown} pass an exception on, {len(sites.internal)} are "
          f"internal; {len(page.messages)} texts of errors and warnings")
    return text, wrong + page.wrong


def main(root, checks):
    text, wrong = index(root)
    path = root / "docs/errors.md"
    if checks and (not path.exists() or path.read_text() != text):
        wrong.append("docs/errors.md is not what the sources say. Run python3 "
                     "scripts/errors/index.py .")
    elif not wrong:
        path.write_text(text)
    print("\n".join(wrong).replace("\ue000", "<").replace("\ue001", ">"))
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1] == "self":
        import self_test
        sys.exit(self_test.run())
    sys.exit(main(pathlib.Path(sys.argv[1]), "--check" in sys.argv[2:]))
