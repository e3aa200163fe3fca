"""README and docs against the tree: code is compiled or run, links lead on, what is told is true.

Usage: check.py ROOT. Exits 1 and names each place that is not true.
"""

import itertools
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
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
    """Without indentation and empty lines, so that a block may be taken out of a function."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


sources = {
    language: [plain(path.read_text()) for path in paths]
    for language, paths in {"cpp": compiled, "python": run}.items()
}
outside = [root / "test_package/CMakeLists.txt", root / "test/install/consumer/CMakeLists.txt"]
commands = {line.strip() for path in outside for line in path.read_text().splitlines()}
refusals = re.findall(r'"([^"]*)"', (include / "grammar/refuse.hpp").read_text())
refusals = re.sub(r"\s+", " ", " ".join(refusals))


def blocks(name, text):
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        line = text[: block.start()].count("\n") + 1
        if language in sources and not any(plain(body) in source for source in sources[language]):
            yield f"{name}:{line}: this code stands in no file that is compiled or run"
        for command in body.splitlines() if language == "cmake" else ():
            if re.sub(r"\s*#.*", "", command).strip() not in commands:
                yield f"{name}:{line}: no outside project of the tests says `{command}`"
        for message in re.findall(r"static assertion failed: (.*)", body):
            if re.sub(r"\s+", " ", message.strip()) not in refusals:
                yield f"{name}:{line}: refuse.hpp has no such message"


def leads(page, path):
    """Where a path in the text may be meant to begin: here, in the tree, in what one includes."""
    return any((base / path).exists() for base in (page.parent, root, root / "include", include))


def links(page, name, text):
    prose = re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", prose):
        if not (page.parent / link).exists():
            yield f"{name}: the link to {link} leads nowhere"
    in_tree = r"`((?:include|examples|test|bench|docs|scripts|cmake)/[\w./-]+|[\w/]+/[\w.]+\.hpp)`"
    for path in re.findall(in_tree, text):
        if not leads(page, path):
            yield f"{name}: there is no {path}"


# What sets something that outlives the trainer or belongs to others, or prints.
GLOBAL = re.compile(
    r"""\b(?:set_default_engine_stub|SetCPUAllocator|resetPeakStats|dlopen|setAllow\w+|set_state
      |set_autocast_\w+|clear_cache|set_num_threads|set_num_interop_threads|omp_set_\w+|manual_seed
      |set_current_seed|seed|setDeterministic\w*|setBenchmark\w*|setFloat32\w+|set_default_dtype\w*
      |setenv|putenv|signal|sigaction|atexit|registerFallback|fallback|TORCH_LIBRARY\w*
      |TORCH_WARN\w*|post_acc_grad_hooks|fputc|fputs|fprintf|printf|push_macro)\s*\(
      |std::c(?:out|err|log)\b""",
    re.X)


def effects():
    """docs/architecture.md names every header that does something to the whole process."""
    section = (root / "docs/architecture.md").read_text()
    section = section[section.index("## What including it does") :].split("\n## ")[0]
    for header in [*include.rglob("*.hpp"), *include.rglob("*.inc")]:
        found = GLOBAL.search(re.sub(r"//.*", "", header.read_text()))
        name = header.relative_to(include).as_posix()
        if found and f"`{name}`" not in section:
            yield f"docs/architecture.md: nothing is said of `{found.group()}` in {name}"


def walk():
    """docs/step.md shows all of step.hpp's function, in order, and names every hook."""
    text = (root / "docs/step.md").read_text()
    shown = plain("".join(body for language, body in BLOCK.findall(text) if language == "cpp"))
    page = (include / "step.hpp").read_text()
    page = page[page.index("namespace ikebana {\n") : page.rindex("}  // namespace")]
    page = plain(page).split("\n")[1:]
    for there, here in itertools.zip_longest(page, shown.split("\n"), fillvalue="the end"):
        if there != here:
            yield f"docs/step.md: step.hpp goes on with `{there}`, the page with `{here}`"
            break
    hooks = (include / "hooks.hpp").read_text()
    hooks = hooks[hooks.index("struct Hooks {") :]
    for hook in re.findall(r"^  [\w:() ]+?[ )](\w+)\(.*\{", hooks, re.M):
        if f"`{hook}`" not in text:
            yield f"docs/step.md: nothing is said of the hook {hook}"


wrong = [*walk(), *effects()]
for page in pages:
    name, text = page.relative_to(root), page.read_text()
    wrong += [*blocks(name, text), *links(page, name, text)]
print("\n".join(wrong) or f"{len(pages)} pages, all true")
sys.exit(1 if wrong else 0)
