"""The pages of the reference, as Markdown."""

import functools
import re

import doxygen
import examples
import text
import topics
from anchors import slug


def heading(level, name):
    return f"({text.anchor(name)})=\n{'#' * level} {text.escaped(name)}"


def fence(body):
    return f"```cpp\n{body}\n```"


@functools.cache
def reached(root, header):
    """The headers and bodies that a header includes, itself among them; bodies include headers."""
    waiting, done = [header], set()
    while waiting:
        path = root / "include" / waiting[-1]
        done.add(waiting.pop())
        text = path.read_text() if path.exists() else ""
        found = re.findall(r"^#include <(ikebana[/\w.]*)>", text, re.M)
        waiting += set(found) - done
    return done


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
        value = value.replace("template<", "template <")
        return value.replace("> concept ikebana::", ">\nconcept ", 1)
    internal = {base.get("id") for base in entry.bases}
    bases = [text.tidy(text.text_of(b)) for b in part.findall("basecompoundref")
             if b.get("prot") == "public" and b.get("refid") not in internal]
    bases = [b.removeprefix("ikebana::") for b in bases if "detail::" not in b]
    ends = f" : {', '.join(bases)}" if bases and entry.name != "Trainer" else ""
    lines = [*text.template(part), f"{kind} {name}{ends};"]
    is_plain = len(lines) == 1 or lines[0] == "template <>" and name == entry.name
    # A plain `struct X;` says no more than the heading.
    return "" if is_plain and not ends else "\n".join(lines)


@functools.cache
def parts_of(root, page):
    """(title of the page, heading, text) of the parts of a page, that before the first heading
    too."""
    content = (root / page).read_text()
    title = re.search(r"^# (.*)", content, re.M)[1].replace("`", "")
    content = re.sub(r"^#[^!\s#].*", "", content, flags=re.M)
    before, *rest = re.split(r"^##+ (.*)$", content, flags=re.M)
    return [(title, "", before), *((title, *part) for part in zip(rest[::2], rest[1::2]))]


def weight(own, heading, body):
    """How much a part of a page is about a name: by its heading, and by the code that has it."""
    code = " ".join(re.findall(r"`[^`]+`", body))
    plain = heading.strip("`")
    if own.fullmatch(plain):
        return 10**6
    rare = heading in ("Cost", "Errors", "Guarantee", "By header", "The tree")
    if rare:
        return len(own.findall(code)) / 10
    return 1000 * bool(own.search(plain)) + len(own.findall(code))


def guide_of(root, entry):
    """The page that explains a name, at the part that is most about it; if none is, the first page
    of its topic."""
    *space, name = entry.name.split("<")[0].split("::")
    guides = entry.topic.guides
    if space == ["axis"]:
        guides = next((t.guides[:1] for t in topics.TOPICS if t.page == name), guides)
    own = re.compile(rf"\b{re.escape(name)}\b")
    found = [(weight(own, heading, body), -i, -at, page, title, heading)
             for i, page in enumerate(guides)
             for at, (title, heading, body) in enumerate(parts_of(root, page))]
    most, _, _, page, title, heading = max(found)
    if most < 1000 and 2 * most < sum(each[0] for each in found if each[3] == page):
        heading = ""  # no part is about it more than the others together
    target = "index.md" if page == "README.md" else page
    at, named = (f"#{slug(heading)}", f" > {heading}") if heading else ("", "")
    return f"[{title}{named}](../{target}{at})"


@functools.cache
def errors_by_header(root):
    """(kind, header, anchor) of the headings of docs/errors.md, where errors stand by header."""
    page = root / "docs/errors.md"
    content = page.read_text() if page.exists() else ""
    headings = re.findall(r"^### ((.*): (.*\.hpp))$", content, re.M)
    return [(kind, header, slug(title)) for title, kind, header in headings]


def errors_of(root, header):
    """A link per kind of error of a header and, where it has none, of those of its folder that it
    includes."""
    path = header.removeprefix("ikebana/")
    folder = path.rpartition("/")[0] or "none"
    own = {h.removeprefix("ikebana/") for h in reached(root, header)}
    found = {}
    for kind, each, at in errors_by_header(root):
        if each == path:
            found[kind] = at
        elif each in own and each.startswith(folder + "/") and kind[0:3] in ("Bad", "Non", "Out"):
            found.setdefault(kind, at)
    return ", ".join(f"[{kind}](../docs/errors.md#{at})" for kind, at in found.items())


def cell(content):
    return re.sub(r"\s*\n\s*", " ", content).replace("|", "\\|")


def table_of_fields(part, writer):
    rows = []
    for member in part.iter("memberdef"):
        if member.get("prot") != "public" or not doxygen.shown(part, member):
            continue
        if member.get("kind") in ("variable", "typedef", "enum"):
            rows.append(f"| {' | '.join(map(cell, field(member, writer)))} |")
    head = ["| field | type and default | what it is |", "|---|---|---|"]
    return "\n".join([*head, *rows]) if rows else ""


def field(member, writer):
    kind, name = member.get("kind"), member.findtext("name")
    value = text.tidy(text.text_of(member.find("initializer")))
    value = value.removeprefix("=").strip().replace("& ", "&")
    comment = writer.comment(member)
    if kind == "enum":
        values = [f"`{v.findtext('name')}` {writer.comment(v)}".strip()
                  for v in member.findall("enumvalue")]
        return f"`{name}`", "enum", f"{comment} Values: {'; '.join(values)}."
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
        name = name.removesuffix("Impl")  # a constructor, which the holder has by its own name
        full = f"{entry.name}::{name}"
        yield heading(3, full)
        for member in overloads:
            yield fence(text.declaration(member, name))
            yield text.as_sentence(writer.comment(member))
        yield from examples_of(full, shown)


def examples_of(name, shown):
    for code, file in shown.get(name, []):
        path = f"test/docs/reference/{file}"
        yield f"**Example**, from [{path}](../sources/{path}.md):"
        yield fence(code)


def section(root, entry, entries, writer, shown):
    """All about one name."""
    part, source = entry.parts[0], f"../sources/include/{entry.header}.md"
    kind = part.get("kind").replace("typedef", "type")
    include = f"`#include <{included_by(root, entry.header)}>`"
    where = [f"{kind}, {include}, in [{entry.header}]({source})"]
    if guide := guide_of(root, entry):
        where.append(f"guide: {guide}")
    if errors := errors_of(root, entry.header):
        where.append(f"errors of its header: {errors}")
    yield heading(2, entry.name)
    yield "; ".join(where)
    for part in entry.parts:
        if declaration := declared(entry, part):
            yield fence(declaration)
        yield text.as_sentence(writer.comment(part))
        if entry.is_type:
            yield table_of_fields(part, writer)
        elif any(writer.comment(value) for value in part.findall("enumvalue")):
            yield "\n".join(f"- `{v.findtext('name')}`: {cell(writer.comment(v))}".rstrip(": ")
                            for v in part.findall("enumvalue"))
    for base in entry.bases:
        yield table_of_fields(base, writer)
    for title, mark in (("Choices", f"{re.escape(entry.name)}<"),
                        ("In a recipe", rf"\w+<{re.escape(entry.name)}\b")):
        if found := [name for name in entries if re.match(mark, name)]:
            links = [f"[`{name}`](#{text.anchor(name)})" for name in found]
            yield f"**{title}**: " + ", ".join(links)
    yield from examples_of(entry.name, shown)
    yield from functions(entry, writer, shown)


def write(root, entries, writer, out):
    """A page per topic and the index. Returns the sources that they link to."""
    shown, _ = examples.read(root / "test/docs/reference")
    out.mkdir(parents=True, exist_ok=True)
    for topic in topics.TOPICS:
        own = [entry for entry in entries.values() if entry.topic is topic]
        # The policy of the page stands first, with its choices.
        lead = next(iter(topic.names), "")
        if lead in entries and "vocabulary" in entries[lead].header:
            own.sort(key=lambda entry: entry.name.split("<")[0] != lead)
        blocks = [f"# Reference: {topic.title}", topic.intro]
        for entry in own:
            writer.own = entry.name
            blocks += section(root, entry, entries, writer, shown)
        (out / f"{topic.page}.md").write_text("\n\n".join(filter(None, blocks)) + "\n")
    writer.own = None
    (out / "index.md").write_text(index(entries, writer))
    files = {f"test/docs/reference/{file}" for each in shown.values() for _, file in each}
    return files | {f"include/{entry.header}" for entry in entries.values()}


INDEX = """The {} public names of namespace `ikebana`, in alphabetical order; those of
`ikebana::axis` and `ikebana::modules` stand under A and M. The pages below this one in the
navigation describe them by topic: how a name is declared, which header it needs, its fields with
their defaults, and an example that is compiled and run. A program includes `ikebana.hpp` for all
but what says otherwise."""


def index(entries, writer):
    """All public names in alphabetical order, with a sentence about each."""
    blocks, letter = ["# All public names", INDEX.format(len(entries))], ""
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
