"""Doxygen's XML as Markdown: comments, with links to public names, and declarations."""

import re

# Names that are also of plain English: in prose they are no links.
ENGLISH = set("On Run Count Rule Group Unit Units Term Slice Leak Plain Only Every Ranks World "
              "Phase Fit Hooks Observe Tensors Budget Segments Layout Precision Spike Metric "
              "Estimate Without".split())
BLOCKS = {"verbatim", "programlisting", "itemizedlist", "orderedlist", "simplesect", "para"}
PLAIN = re.compile(r"([\\`*_\[\]<>{}|#$~])")


def anchor(name):
    """The target of a name's section: unlike a heading's slug, it is as the name is. Sphinx does
    not tell cases apart, so that of `plain` differs from that of `Plain`."""
    name = re.sub(r"operator(\W+)",
                  lambda op: "operator" + "".join(f"-{ord(c):x}" for c in op[1]), name)
    parts = [("f-" if part[:1].islower() else "") + part for part in name.split("::")]
    return "api-" + re.sub(r"[^A-Za-z0-9_]+", "-", "-".join(parts)).strip("-").lower()

LABEL = re.compile(r"(?<=[.)])\s+(?:(Errors|Memory|Shapes|Sources?|Time|Units)(?=: )"
                   r"|(Cost|State|Throws)(?=:? ))")
# What begins a paragraph of its own, like the labels.
ASIDE = re.compile(r"(?<=\.)\s+(?=(?:Fields|Names|Defaults)(?:, \w+)*(?: and \w+)? (?:are |as )"
                   r"|PyTorch has no )")


def escaped(text):
    return PLAIN.sub(r"\\\1", text)


class Writer:
    """Writes comments; `names` maps the ids of Doxygen to the names that have a section. A name is
    no link in the section `own`, which is about it."""

    def __init__(self, names):
        self.names = names
        self.own = None

    def inline(self, element, in_code=False):
        text = self.plain(element.text, in_code)
        for child in element:
            text += self.child(child, in_code) + self.plain(child.tail, in_code)
        return text

    def plain(self, text, in_code):
        text = re.sub(r"\s+", " ", text or "")
        if in_code:
            return text
        pages = re.split(r"\b(docs/[\w-]+\.md)", text)
        pages[1::2] = [f"[{page}](../{page})" for page in pages[1::2]]
        pages[::2] = map(escaped, pages[::2])
        return "".join(pages)

    def child(self, child, in_code):
        inner = self.inline(child, in_code or child.tag == "computeroutput")
        if child.tag == "computeroutput":
            ends = "``" if "`" in inner else "`"
            is_name = len(child) == 1 and not (child.text or child[0].tail)
            link = self.target(child[0]) if is_name else ""
            return f"[{ends}{inner}{ends}]({link})" if link else ends + inner + ends
        if child.tag == "ref" and not in_code:
            link = self.target(child) if child.text not in ENGLISH else ""
            return f"[{inner}]({link})" if link else inner
        if child.tag in ("emphasis", "bold"):
            return {"emphasis": "*", "bold": "**"}[child.tag].join(("", inner, ""))
        signs = {"linebreak": "\n", "sp": " ", "ndash": "-", "nonbreakablespace": " "}
        return signs.get(child.tag, inner)

    def target(self, element):
        name = self.names.get(element.get("refid")) if element.tag == "ref" else None
        return f"#{anchor(name)}" if name and name != self.own else ""

    def blocks(self, element):
        """The paragraphs, lists and code of a description."""
        for child in element:
            if child.tag in ("verbatim", "programlisting"):
                yield f"```cpp\n{code(child)}\n```"
            elif child.tag in ("itemizedlist", "orderedlist"):
                mark = "- " if child.tag == "itemizedlist" else "1. "
                yield "\n".join(mark + "\n".join(self.blocks(item)) for item in child)
            elif child.tag in ("para", "simplesect", "sect1"):
                yield from self.pieces(child)

    def pieces(self, element):
        """A paragraph: its text, and the blocks within it, in their order."""
        text = self.plain(element.text, False)
        for child in element:
            if child.tag in BLOCKS:
                yield from filter(None, [text.strip()])
                yield from self.blocks([child])
                text = ""
            elif child.tag != "title":
                text += self.child(child, False)
            text += self.plain(child.tail, False)
        yield from filter(None, [text.strip()])

    def comment(self, element):
        """The whole comment of a compound, a member or a value of an enumeration."""
        found = [element.find(tag) for tag in ("briefdescription", "detaileddescription")]
        text = "\n\n".join(text for part in found if part is not None for text in self.blocks(part))
        text = re.sub(r"^(\d+)\.(?=\s|$)", r"\1\\.", text, flags=re.M)  # which begins no list
        text = LABEL.sub(lambda label: f"\n\n**{label[1] or label[2]}**", text)
        return ASIDE.sub("\n\n", text)


def code(element):
    lines = ["".join(text_of(x) for x in line) for line in element.iter("codeline")]
    return "\n".join(lines) or text_of(element).strip("\n")


def text_of(element):
    if element is None:
        return ""
    own = " " if element.tag == "sp" else element.text or ""
    return own + "".join(text_of(child) + (child.tail or "") for child in element)


def tidy(text):
    """A type or an expression as clang-format would write it."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"(?<=\w)< (?=\S)", "<", text)
    text = re.sub(r"(?<=[\w>*&.]) >", ">", text)
    text = re.sub(r" ([&*]+)(?=[\w. ,)>]|$)", r"\1 ", text)
    return re.sub(r" +([,)>]|\.\.\.)|( ) +", r"\1\2", text).strip()


def expression(text):
    text = re.sub(r"(?<=\w)< (?=\S)", "<", re.sub(r"\s+", " ", text).strip())
    return re.sub(r"(?<=[\w>.]) >(?=[,)>:(]|$| [&|{])", ">", text)


def sentence(markdown):
    """The first sentence of a comment, without links."""
    markdown = re.sub(r"^(\d+,? ?)+\\?\.\s+", "", markdown)  # the place in the step
    ends = r"(?<=\.)(?<!e\.g\.)(?<!i\.e\.)(?<!al\.)\s|(?<=[.:])\s(?![a-z])"
    first = re.split(ends, markdown.split("\n\n")[0] + " ")[0].rstrip(":")
    first = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", first.strip())
    return capital(first) + ("" if first[-1:] in ".;" else ".")


def as_sentence(comment):
    """A comment as it stands alone: with a capital and a full stop, which those after a line
    lack."""
    return capital(comment) + "." * bool(re.search(r"\w$", comment)) if comment else ""


def capital(text):
    """With a capital at its beginning, unless that is code, such as `x / 2` or
    `cross_entropy(...)`."""
    is_word = re.match(r"[a-z]+[ ,.;]", text) and text[1] != " "
    return text[:1].upper() + text[1:] if is_word else text


def template(element):
    """The lines `template <...>` and `requires ...` before a declaration."""
    params = element.find("templateparamlist")
    if params is None:
        return []
    each = []
    for param in params:
        text = f"{text_of(param.find('type'))} {text_of(param.find('declname'))}".strip()
        value = text_of(param.find("defval"))
        each.append(tidy(text) + (f" = {tidy(value)}" if value else ""))
    lines = [f"template <{', '.join(each)}>"]
    requires = expression(text_of(element.find("requiresclause")))
    return lines + ([f"  requires {requires}"] if requires else [])


def declaration(element, name):
    """A member or a name of a namespace as it is declared, without its body."""
    kind, lines = element.get("kind"), template(element)
    args = re.sub(r"(?<=[\w)]) ?=(?!=) ?", " = ", tidy(element.findtext("argsstring") or ""))
    words = ["static"] if element.get("static") == "yes" and kind != "variable" else []
    is_virtual = element.get("virt", "non-virtual") != "non-virtual"
    words += ["virtual"] if is_virtual and "override" not in args else []
    words += [word for word in ("explicit",) if element.get(word) == "yes"]
    if kind == "typedef":
        return "\n".join([*lines, f"using {name} = {tidy(text_of(element.find('type')))};"])
    if kind == "enum":
        values = ", ".join(value.findtext("name") for value in element.findall("enumvalue"))
        return f"enum {'class ' if element.get('strong') == 'yes' else ''}{name} {{ {values} }};"
    type_ = tidy(text_of(element.find("type"))).removeprefix("virtual ")
    head = " ".join(filter(None, [*words, type_, name]))
    value = tidy(text_of(element.find("initializer")))
    value = "" if "detail::" in value else value
    lines.append(wrapped(head, args) if kind == "function" else f"{head}{args} {value}".strip())
    return "\n".join(lines) + ";"


def wrapped(head, args):
    """A function's head in one line, or with a line per parameter."""
    if len(head) + len(args) <= 84 or args.count(",") == 0:
        return head + args
    close, depth, at = args.rindex(")"), 0, []
    for i, mark in enumerate(args[:close]):
        depth += (mark in "<({") - (mark in ">)}")
        if mark == "," and depth == 1:
            at.append(i)
    cuts = [args[i + 1:j].strip() for i, j in zip([0, *at], [*at, close])]
    return head + "(\n    " + ",\n    ".join(cuts) + args[close:]
