#!/usr/bin/env python3
"""The reference of every public name, from the comments of the headers.

    reference.py check ROOT      exits 1 and names each public name, field or member without a
                                 comment, each name without an example, and each example of no name
    reference.py remaining ROOT  writes the lists of what is not there yet, which check permits
build.py calls `write`, which writes a Markdown page per topic.
"""

import functools
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import doxygen
import examples
import text
import topics

SITE = pathlib.Path(__file__).parent
LISTS = {"comment": SITE / "without_comment.txt", "example": SITE / "without_example.txt"}


def without_comment(entries, writer):
    """The public names, fields and members without a comment. An overload shares that of the one
    before it, and a specialisation that of its name."""
    for entry in entries.values():
        if not any(writer.comment(part) for part in entry.parts):
            yield entry.name
        before = None
        for member in entry.members():
            name = member.findtext("name")
            if not writer.comment(member) and name != before:
                yield f"{entry.name}::{name}"
            before = name


def check(entries, writer, folder):
    """What is wrong: (kind, name) of what is missing, and texts about the regions."""
    found, wrong = examples.read(folder)
    known = set(entries) | {f"{e.name}::{m.findtext('name')}" for e in entries.values() for m in e.members()}
    wrong += [f"test/docs/reference: `{name}` is no public name" for name in found if name not in known]
    missing = {"comment": sorted(set(without_comment(entries, writer))),
               "example": sorted(name for name in entries if name not in found)}
    return missing, wrong


def compare(missing):
    """Texts about what is missing and not listed, and about what is listed and not missing."""
    for kind, path in LISTS.items():
        listed = set(path.read_text().splitlines()) if path.exists() else set()
        for name in missing[kind]:
            if name not in listed:
                yield f"{name} has no {kind}"
        for name in sorted(listed - set(missing[kind])):
            yield f"{path.name}: remove `{name}`, which is no public name or has its {kind}"


def load(root, out):
    """(entries, writer) from Doxygen's XML, which is written to `out`."""
    entries = doxygen.read(doxygen.run(root, out))
    names = {part.get("id"): e.name for e in entries.values() for part in e.parts}
    return entries, text.Writer(names)


# The pages


def heading(level, name):
    return f"({text.anchor(name)})=\n{'#' * level} {text.escaped(name)}"


def fence(body):
    return f"```cpp\n{body}\n```"


@functools.cache
def reached(root, header):
    """The headers that a header includes, itself among them."""
    text = (root / "include" / header).read_text() if (root / "include" / header).exists() else ""
    found = re.findall(r"^#include <(ikebana[/\w.]*)>", text, re.M)
    return {header}.union(*(reached(root, each) for each in found))


def included_by(root, header):
    """The header that a program includes for the names of this one."""
    for name in ("ikebana.hpp", "ikebana/shard.hpp", "ikebana/memory.hpp", "ikebana/estimate.hpp"):
        if header in reached(root, name):
            return name
    return header


def declared(entry, part):
    """How a part of an entry is declared."""
    if part.tag != "compounddef":
        return text.declaration(part, entry.name.split("::")[-1])
    kind = part.get("kind")
    name = doxygen.spelled(part.findtext("compoundname")).split("::")[-1].removesuffix("Impl")
    if kind == "concept":
        value = text.tidy(text.text_of(part.find("initializer")))
        return value.replace("template<", "template <").replace("> concept ikebana::", ">\nconcept ", 1)
    bases = [text.tidy(text.text_of(b)) for b in part.findall("basecompoundref") if b.get("prot") == "public"]
    bases = [b.removeprefix("ikebana::") for b in bases if "detail::" not in b and "Methods<" not in b]
    ends = f" : {', '.join(bases)}" if bases and entry.name != "Trainer" else ""
    return "\n".join([*text.template(part), f"{kind} {name}{ends};"])


def guide_of(root, entry):
    """The page that explains a name, at the heading with the name if there is one."""
    page = root / entry.topic.guide
    if not page.exists():
        return ""
    content = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.M | re.S)
    title, at = re.search(r"^# (.*)", content, re.M)[1], ""
    own = entry.name.split("::")[-1].split("<")[0]
    for found in re.findall(r"^##+ (.*)", content, re.M):
        if re.search(rf"\b{re.escape(own)}\b", found):
            at = "#" + slug(found)
            break
    target = "../index.md" if entry.topic.guide == "README.md" else f"../{entry.topic.guide}"
    return f"[{title.replace('`', '')}]({target}{at})"


def slug(title):
    """The anchor that GitHub gives to a heading."""
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def cell(content):
    return re.sub(r"\s*\n\s*", " ", content).replace("|", "\\|")


def table_of_fields(part, writer):
    rows = []
    for member in part.iter("memberdef"):
        if member.get("prot") != "public" or not doxygen.shown(part, member):
            continue
        if member.get("kind") in ("variable", "typedef", "enum"):
            rows.append(f"| {' | '.join(map(cell, field(member, writer)))} |")
    return "\n".join(["| field | type and default | what it is |", "|---|---|---|", *rows]) if rows else ""


def field(member, writer):
    kind, name = member.get("kind"), member.findtext("name")
    value = text.tidy(text.text_of(member.find("initializer"))).removeprefix("= ")
    comment = writer.comment(member)
    if kind == "enum":
        values = [f"`{v.findtext('name')}` {writer.comment(v)}".strip() for v in member.findall("enumvalue")]
        return f"`{name}`", "enum", f"{comment} {'; '.join(values)}"
    type_ = text.tidy(text.text_of(member.find("type")))
    if kind == "typedef":
        return f"`{name}`", f"type, `{type_}`", comment
    type_ = ("static " if member.get("static") == "yes" else "") + type_.replace("static ", "")
    return f"`{name}`", f"`{type_}`" + (f", `{value}`" if value else ""), comment


def functions(entry, writer, shown):
    """A section per member function, with its overloads."""
    groups = {}
    for member in entry.members():
        if member.get("kind") == "function":
            groups.setdefault(member.findtext("name"), []).append(member)
    for name, overloads in groups.items():
        full = f"{entry.name}::{name}"
        yield heading(3, full)
        for member in overloads:
            yield fence(text.declaration(member, name))
            yield writer.comment(member)
        yield from (fence(code) for code in shown.get(full, []))


def section(root, entry, writer, shown):
    """All about one name."""
    part, source = entry.parts[0], f"../sources/include/{entry.header}.md"
    kind = part.get("kind").replace("typedef", "type")
    where = [f"{kind}, `#include <{included_by(root, entry.header)}>`, in [{entry.header}]({source})"]
    if guide := guide_of(root, entry):
        where.append(f"guide: {guide}")
    yield heading(2, entry.name)
    yield "; ".join(where)
    for part in entry.parts:
        yield fence(declared(entry, part))
        yield writer.comment(part)
        if entry.is_type:
            yield table_of_fields(part, writer)
        elif part.get("kind") == "enum":
            yield "\n".join(f"- `{v.findtext('name')}`: {cell(writer.comment(v))}".rstrip(": ")
                            for v in part.findall("enumvalue"))
    for base in entry.bases:
        yield table_of_fields(base, writer)
    for code in shown.get(entry.name, []):
        yield "**Example**"
        yield fence(code)
    yield from functions(entry, writer, shown)


def write(root, entries, writer, out):
    """A page per topic and the index. Returns the headers that they link to."""
    shown, _ = examples.read(root / "test/docs/reference")
    out.mkdir(parents=True, exist_ok=True)
    for topic in topics.TOPICS:
        own = [entry for entry in entries.values() if entry.topic is topic]
        blocks = [f"# {topic.title}", topic.intro]
        for entry in own:
            blocks += section(root, entry, writer, shown)
        (out / f"{topic.page}.md").write_text("\n\n".join(filter(None, blocks)) + "\n")
    (out / "index.md").write_text(index(entries, writer))
    return {f"include/{entry.header}" for entry in entries.values()}


def index(entries, writer):
    """All public names in alphabetical order, with a sentence about each."""
    blocks, letter = ["# All public names", f"The {len(entries)} public names of namespace `ikebana`."], ""
    for entry in entries.values():
        comments = [writer.comment(part) for part in entry.parts]
        about = text.sentence(next(filter(None, comments), ""))
        first = entry.name.split("::")[-1][0].upper()
        if first != letter and "::" not in entry.name:
            letter = first
            blocks.append(f"## {letter}")
        blocks.append(f"- [`{entry.name}`](#{text.anchor(entry.name)}): {about}")
    lines = "\n\n".join(blocks)
    return re.sub(r"\n\n- ", "\n- ", lines) + "\n"


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "remaining"):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        entries, writer = load(root, pathlib.Path(folder))
    missing, wrong = check(entries, writer, root / "test/docs/reference")
    if sys.argv[1] == "remaining":
        for kind, path in LISTS.items():
            path.write_text("".join(name + "\n" for name in missing[kind]))
            print(f"{len(missing[kind])} names without {kind}, listed in {path.name}")
    else:
        wrong += compare(missing)
    print("\n".join(wrong) or f"{len(entries)} public names are described")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
