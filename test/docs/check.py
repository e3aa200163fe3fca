"""Compares README and docs with the tree: code is compiled or run, links and paths exist, and
descriptions of step.hpp and of effects on the process are complete.

Usage: check.py ROOT. Exits 1 and names each place that is wrong.
"""

import itertools
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root / "docs/site"))
import hooks  # noqa: E402
from anchors import anchors  # noqa: E402

include = root / "include/ikebana"
pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
compiled = [
    *(root / "examples").rglob("*.[ch]pp"),
    *(root / "test").rglob("*.[ch]pp"),
    *(root / "include").rglob("*.hpp"),
]
run = [*(root / "examples").rglob("*.py"), *(root / "test/state/python").glob("*.py")]
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.M | re.S)


def plain(text):
    """Returns the text without indentation and empty lines, so that a block may be a part of a
    function."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


sources = {
    language: [plain(path.read_text()) for path in paths]
    for language, paths in {"cpp": compiled, "python": run}.items()
}
outside = [root / "test_package/CMakeLists.txt", root / "test/install/consumer/CMakeLists.txt",
           root / "examples/tutorial/CMakeLists.txt"]
commands = {line.strip() for path in outside for line in path.read_text().splitlines()}
refusals = "".join(path.read_text() for path in sorted((include / "grammar").glob("refuse*.hpp")))
refusals = re.sub(r"\s+", " ", " ".join(re.findall(r'"([^"]*)"', refusals)))


def blocks(name, text):
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        line = text[: block.start()].count("\n") + 1
        if language in sources and not any(plain(body) in source for source in sources[language]):
            yield f"{name}:{line}: this code stands in no file that is compiled or run"
        for command in body.splitlines() if language == "cmake" else ():
            if re.sub(r"\s*#.*", "", command).strip() not in commands:
                yield f"{name}:{line}: no outside project of the tests has the line `{command}`"
        for message in re.findall(r"static assertion failed: (.*)", body):
            if re.sub(r"\s+", " ", message.strip()) not in refusals:
                yield f"{name}:{line}: no refuse*.hpp has such a message"


def exists(page, path):
    """Whether a path exists relative to the page, the tree or a folder of headers."""
    return any((base / path).exists() for base in (page.parent, root, root / "include", include))


def links(page, name, text):
    prose = re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", prose):
        if not (page.parent / link).exists():
            yield f"{name}: the target of the link {link} does not exist"
    in_tree = r"`((?:include|examples|test|bench|docs|scripts|cmake)/[\w./-]+|[\w/]+/[\w.]+\.hpp)`"
    for path in re.findall(in_tree, text):
        if not exists(page, path) and page.name != "migrate.md":  # which has old paths
            yield f"{name}: {path} does not exist"


# Calls that set global state, or print.
GLOBAL = re.compile(
    r"""\b(?:set_default_engine_stub|SetCPUAllocator|resetPeakStats|dlopen|setAllow\w+|set_state
      |set_autocast_\w+|clear_cache|set_num_threads|set_num_interop_threads|omp_set_\w+|manual_seed
      |set_current_seed|seed|setDeterministic\w*|setBenchmark\w*|setFloat32\w+|set_default_dtype\w*
      |setenv|putenv|signal|sigaction|atexit|registerFallback|fallback|TORCH_LIBRARY\w*
      |TORCH_WARN\w*|post_acc_grad_hooks|fputc|fputs|fprintf|printf|push_macro)\s*\(
      |std::c(?:out|err|log)\b""",
    re.X)


def effects():
    """docs/architecture.md names every header that affects the whole process."""
    section = (root / "docs/architecture.md").read_text()
    section = section[section.index("## What including it does") :].split("\n## ")[0]
    for header in [*include.rglob("*.?pp"), *include.rglob("*.inc")]:
        found = GLOBAL.search(re.sub(r"//.*", "", header.read_text()))
        name = re.sub(r"impl/(\w+)\.ipp", r"\1.hpp", header.relative_to(include).as_posix())
        if found and f"`{name}`" not in section:
            yield f"docs/architecture.md does not mention {name}, which calls `{found.group()}`"


def walk():
    """docs/step.md shows the whole function of step.hpp, in order, and has the tables of hooks;
    docs/extending.md names each hook of a policy."""
    text = (root / "docs/step.md").read_text()
    shown = plain("".join(body for language, body in BLOCK.findall(text) if language == "cpp"))
    page = (include / "step.hpp").read_text()
    page = page[page.index("namespace ikebana {\n") : page.rindex("}  // namespace")]
    page = plain(page).split("\n")[1:]
    for there, here in itertools.zip_longest(page, shown.split("\n"), fillvalue="the end"):
        if there != here:
            yield f"docs/step.md: step.hpp continues with `{there}`, the page with `{here}`"
            break
    if hooks.filled(text, hooks.tables(root)) != text:
        yield "docs/step.md has other tables of hooks: run python3 docs/site/hooks.py ."
    for hook in hooks.unlisted(root):
        yield f"docs/extending.md: the table of hooks has no row for {hook}"


def sections(page, name, text):
    """The headings that links to pages name are there."""
    for link, at in re.findall(r"\]\(([\w./-]*\.md|)#([^)]+)\)", BLOCK.sub("", text)):
        target = page.parent / link if link else page
        if target.exists() and at not in anchors(target.read_text()):
            yield f"{name}: {link or 'this page'} has no heading for #{at}"


wrong = [*walk(), *effects()]
for page in pages:
    name, text = page.relative_to(root), page.read_text()
    wrong += [*blocks(name, text), *links(page, name, text), *sections(page, name, text)]
print("\n".join(wrong) or f"{len(pages)} pages are right")
sys.exit(1 if wrong else 0)
