#!/usr/bin/env python3
"""The tables of hooks in docs/step.md, made of hooks/table.hpp, of the comments of hooks, and of the
mechanisms that have them.

    hooks.py ROOT          writes the tables
    hooks.py ROOT --check  exits 1 if docs/step.md has others, or if docs/extending.md's table of
                           hooks lacks one of a policy
    hooks.py self          the tables of hooks made for this
"""

import pathlib
import re
import sys

BEGIN, END = "<!-- hooks: {} -->", "<!-- end of hooks -->"
TIERS = {"policy": ("policy",), "engine": ("engine", "optional")}
ROW = re.compile(r"F\((\w+), (policy|engine|optional), (\w+),")
# A hook that changes what it is given, and the checks that it is not given a copy.
CHANGES = re.compile(r"F\((\w+), .*\bgiven\.(?:gradients|report|archive|deferred)\b")
CHECKED = re.compile(r"IKEBANA_CHANGES_COPY\((\w+),")
# A class with its bases; of a specialisation also the arguments.
CLASS = re.compile(r"\b(?:struct|class)\s+(\w+)(<[^{};]*?>)?\s*(?:final\s*)?(?::\s*([^{};]+?))?\s*\{")
COMMENT = re.compile(r"//[^\n]*|\"(?:\\.|[^\"\\\n])*\"")


def sources(root):
    """The headers that define hooks."""
    names = "hooks.hpp", "hooks/common.hpp", "hooks/engine.hpp"
    return [root / "include/ikebana" / name for name in names]


def headers(root):
    """The text of each header."""
    return {path: path.read_text() for path in sorted((root / "include/ikebana").rglob("*.hpp"))}


def body_at(text, begin):
    depth = 0
    for mark in re.finditer(r"[{}]", text[begin:]):
        depth += 1 if mark.group() == "{" else -1
        if depth == 0:
            return text[begin + 1 : begin + mark.start()]
    return ""


def outside_braces(body):
    """What stands in a class itself, without the bodies of its functions and classes."""
    depth, kept = 0, []
    for part in re.split(r"([{}])", body):
        depth += (part == "{") - (part == "}")
        if depth == 0:
            kept.append(part)
    return " ".join(kept)


def without_arguments(name):
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name.strip()


def arguments_of(name):
    """The names in the arguments of a template."""
    return [word for word in re.findall(r"\w+", name.partition("<")[2]) if word != "detail"]


def classes(texts):
    """{name with arguments: (bases, names of its member functions, folder)} of all headers. The
    `type` of a trait counts as its base, and an argument where a template derives from it."""
    found = {}
    derive = {match[2] for text in texts.values() for match in re.finditer(
        r"template <class (\w+)>\s*(?:struct|class) (\w+) (?:final )?: public \1\b", text)}
    for path, text in texts.items():
        text = COMMENT.sub(" ", text)
        for match in CLASS.finditer(text):
            name, arguments, bases = match.groups()
            key = name + re.sub(r"\s+", " ", arguments or "")
            members = outside_braces(body_at(text, match.end() - 1))
            bases = re.split(r",(?![^<>]*>)", bases or "")
            for type_of in re.findall(r"\busing type = ([^;]+);", members):
                bases += re.findall(r"\w+", type_of)
            bases = [re.sub(r"\b(?:public|private|virtual|detail::)\s*", "", b) for b in bases]
            bases += [a for b in bases if without_arguments(b) in derive for a in arguments_of(b)]
            found[key] = (list(map(without_arguments, bases)),
                          set(re.findall(r"(?<![.>:\w])(\w+)\s*\(", members)), path.parent.name)
    return found


class Mechanisms:
    """The policies of the library, and the hooks that each implements."""

    def __init__(self, found, axes):
        self.by_name = {}
        for key, entry in found.items():
            self.by_name.setdefault(without_arguments(key), []).append((key, *entry))
        self.hooks, self.axis = {}, {}
        axes = set(axes)
        for key, (bases, members, folder) in found.items():
            policy = re.fullmatch(r"Mechanism<(.*)>", key)
            if not policy or "detail::" in key or "Many<" in key:
                continue
            for name, further in self.policies(policy[1], bases):
                self.hooks[name] = members | self.members(further)
                hooks = {base.removesuffix("Hooks").lower() for base in self.all_bases(further)}
                self.axis[name] = next(iter(hooks & axes), folder)

    def policies(self, name, bases):
        """One, or those for which a trait has a type; none for null choices."""
        if name != "Policy":
            yield name, bases
            return
        for base in bases:
            for key, further, _, _ in self.by_name.get(base.removesuffix("::type"), ()):
                if further and "<" in key:
                    yield key[key.index("<") + 1 : -1], further

    def members(self, bases, seen=()):
        """The member functions of bases, without the bases of hooks.hpp, whose are defaults."""
        names = set()
        for base in bases:
            if base in seen or re.fullmatch(r"\w*Hooks|HooksOf", base):
                continue
            for _, further, members, _ in self.by_name.get(base, ()):
                names |= members | self.members(further, (*seen, base))
        return names

    def all_bases(self, bases, seen=()):
        """The names of these bases and of theirs."""
        names = set(bases)
        for base in names - set(seen):
            for _, further, _, _ in self.by_name.get(base, ()):
                names |= self.all_bases(further, (*seen, *names))
        return names

    def that_have(self, hook, axes):
        """The policies on these axes that implement a hook, as a text."""
        names = []
        for axis in axes:
            every = [name for name, of in self.axis.items() if of == axis]
            having = [name for name in every if hook in self.hooks[name]]
            if len(having) > 3 and len(having) == len(every):
                names.append(f"every policy on {axis}")
            elif len(having) > 8:
                names.append(f"most policies on {axis}")
            else:
                names += grouped(having)
        return ", ".join(dict.fromkeys(names)) or "your own"


PARAMETERS = {"First", "Rest", "Optimizer", "Schedule", "Schedules...", "Units..."}
COUNTS = {"Max": "Fit"}  # the argument of Accumulate that is no number


def grouped(policies):
    """`Precision<BF16 | FP16>` for two choices of a policy; parameters are left out."""
    by_template = {}
    for policy in policies:
        name, _, arguments = policy.partition("<")
        chosen = [a for a in re.split(r", ", arguments[:-1]) if a and a not in PARAMETERS]
        by_template.setdefault(name, []).append(
            ", ".join(COUNTS.get(argument, re.sub(r"<.*", "", argument)) for argument in chosen))
    for name, choices in by_template.items():
        choices = list(filter(None, dict.fromkeys(choices)))
        if any("Where" in choice for choice in choices):
            yield from (f"`{name}<{choice}>`" for choice in choices)
        else:
            yield f"`{name}<" + " \\| ".join(choices) + ">`" if choices else f"`{name}`"


def sentence(comment):
    """The first sentence of a hook's comment, and the number of its place in step.hpp."""
    text = " ".join(re.sub(r"^ *///<? ?", "", line) for line in comment.splitlines())
    number = re.match(r"((?:\d+, )*\d+)\. ", text)
    text = text[number.end() :] if number else text
    first = re.match(r".*?[.!](?= |$)", text + " ")
    return number[1] if number else "", (first[0] if first else text).replace("|", "\\|").strip()


def comments(texts, root):
    """{hook: its comment}."""
    found = {}
    for path in sources(root):
        text = texts[path]
        commented = r"((?:^ *///[^\n]*\n)+)(?: *template[^\n]*\n)*[^\n]*?\b(?!decltype\b)(\w+)\("
        for match in re.finditer(commented, text, re.M):
            found.setdefault(match[2], match[1])
        for match in re.finditer(r"^[^\n/]*?\b(\w+)\([^\n]*(///<[^\n]*)$", text, re.M):
            found[match[1]] = match[2]
    return found


def axes_of(root, found):
    """{base: the axes whose mechanisms have it, in wrapping order}."""
    order = (root / "include/ikebana/grammar/wrapping_order.hpp").read_text()
    order = re.findall(r"axis::(\w+)", re.search(r"using WrappingOrder =(.*?);", order, re.S)[1])
    of_axis = {axis: axis.capitalize() + "Hooks" for axis in order}

    def reaches(name, base):
        return name == base or any(reaches(b, base) for b in found.get(name, ((),))[0])

    def axes(base):
        bases = [b + ("" if b.endswith("Hooks") else "Hooks") for b in base.split("Or")]
        return [axis for axis in order if any(reaches(of_axis[axis], b) for b in bases)]
    return axes, order


def tables(root):
    """{tier: the table as Markdown}."""
    texts = headers(root)
    found = classes(texts)
    said = comments(texts, root)
    axes, order = axes_of(root, found)
    mechanisms = Mechanisms(found, order)
    rows = {tier: [] for tier in TIERS}
    listed = ROW.findall(texts[root / "include/ikebana/hooks/table.hpp"])
    bases = classes({path: texts[path] for path in sources(root)})
    defined = {hook for name, entry in bases.items() if name.endswith("Hooks") for hook in entry[1]}
    missing = defined - {hook for hook, _, _ in listed} - {"decltype", "refuse_loss"}
    if missing:
        raise SystemExit(f"hooks.py: hooks/table.hpp has no row for {', '.join(sorted(missing))}")
    check_tiers(listed, bases)
    check_copies(texts[root / "include/ikebana/hooks/table.hpp"],
                 texts[root / "include/ikebana/checks/hooks.hpp"])
    for hook, tier, base in listed:
        number, text = sentence(said.get(hook, "///"))
        asked = axes(base)
        if not asked or not text:
            raise SystemExit(f"hooks.py: {hook} has {'no comment' if asked else 'no axis'}")
        by = mechanisms.that_have(hook, asked)
        asked = "all" if asked == order else ", ".join(asked)
        place = next(tier_of for tier_of, names in TIERS.items() if tier in names)
        rows[place].append(f"| {number} | `{hook}` | {asked} | {text} | {by} |")
    head = "| # | hook | asked of | what it does | implemented by |\n|---|---|---|---|---|\n"
    return {tier: head + "\n".join(lines) for tier, lines in rows.items()}


def check_tiers(listed, bases):
    """Exits if a hook of one tier stands in the bases of the other."""
    engine = {hook for name, entry in bases.items() if name.endswith("EngineHooks")
              for hook in entry[1]}
    for hook, tier, _ in listed:
        if tier != "optional" and (tier == "engine") != (hook in engine):
            raise SystemExit(f"hooks.py: {hook} is of tier {tier} in hooks/table.hpp, and not in the "
                             "base that has it")


def check_copies(table, checks):
    """Exits if a hook that changes its arguments is not checked for taking them by reference."""
    unchecked = set(CHANGES.findall(re.sub(r",\s*\\\n\s*", ", ", table))) - set(CHECKED.findall(checks))
    if unchecked:
        raise SystemExit("hooks.py: checks/hooks.hpp has no IKEBANA_CHANGES_COPY for "
                         + ", ".join(sorted(unchecked)))


def filled(page, made):
    for tier, table in made.items():
        begin = BEGIN.format(tier)
        if begin not in page:
            raise SystemExit(f"hooks.py: docs/step.md has no {begin}")
        before, _, rest = page.partition(begin)
        page = before + begin + "\n" + table + "\n" + END + rest.partition(END)[2]
    return page


def made_for_this():
    """Mechanisms whose hooks the tables must find."""
    return {pathlib.Path("clip/a.hpp"): """
        struct A : Part { void clip(int); };
        template <class Part> class Around : public Part { void begin() {} };
        struct Inner : ClipHooks { void attach(int); };
        template <> struct Mechanism<Plain> : ClipHooks { int clip(int) { call(); } };
        template <> struct Mechanism<Held> : detail::Around<detail::Inner> {};
        template <auto N> struct Mechanism<Many<N>> : ClipHooks {};
        template <auto N> struct Mechanism<Accumulate<N>> : AccumulateHooks { int split(); };
        template <FitCount Max> struct Mechanism<Accumulate<Max>> : AccumulateHooks {
          int split();
          int state();
        };""", pathlib.Path("memory/b.hpp"): """
        template <> struct Mechanism<Elsewhere> : ClipHooks { void attach(int); };"""}


def refused(check, *arguments):
    try:
        check(*arguments)
    except SystemExit as wrong:
        return str(wrong)
    return ""


def check_itself():
    all_of = Mechanisms(classes(made_for_this()), ["clip", "accumulate"])
    assert all_of.that_have("attach", ["clip"]) == "`Held`, `Elsewhere`"
    assert all_of.that_have("clip", ["clip"]) == "`Plain`"
    assert all_of.that_have("begin", ["clip"]) == "`Held`"
    assert all_of.that_have("end", ["clip"]) == "your own"
    assert all_of.that_have("split", ["accumulate"]) == r"`Accumulate<N \| Fit>`"
    assert all_of.that_have("state", ["accumulate"]) == "`Accumulate<Fit>`"
    engine = {"ClipEngineHooks": ((), {"close"}, ""), "ClipHooks": ((), {"clip"}, "")}
    assert not refused(check_tiers, [("close", "engine", ""), ("clip", "policy", "")], engine)
    assert "close" in refused(check_tiers, [("close", "policy", "")], engine)
    assert "clip" in refused(check_tiers, [("clip", "engine", "")], engine)
    row = "F(clip, policy, ClipHooks, void, \\\n  m.clip(given.gradients))"
    assert not refused(check_copies, row, "IKEBANA_CHANGES_COPY(clip, AnyRanks);")
    assert "clip" in refused(check_copies, row, "IKEBANA_CHANGES_COPY(update, AnyRanks);")
    assert not refused(check_copies, row.replace("gradients", "done"), "")
    print("the tables have each hook of each mechanism")


def unlisted(root):
    """The hooks of policies that no row of the table in docs/extending.md names."""
    page = (root / "docs/extending.md").read_text()
    table = page.split("\n## Which hook\n")[1].split("\n| hook, ")[1].split("\n\n")[0]
    rows = table.splitlines()[2:]
    named = {name for row in rows for name in re.findall(r"`(\w+)", row.split(" | ")[0])}
    listed = ROW.findall((root / "include/ikebana/hooks/table.hpp").read_text())
    return [hook for hook, tier, _ in listed if tier == "policy" and hook not in named]


def main():
    if sys.argv[1:] == ["self"]:
        return check_itself()
    root = pathlib.Path(sys.argv[1])
    path = root / "docs/step.md"
    page = path.read_text()
    new = filled(page, tables(root))
    if sys.argv[2:] == ["--check"]:
        if new != page:
            sys.exit("docs/step.md has other tables of hooks: run docs/site/hooks.py .")
        if lacking := unlisted(root):
            sys.exit(f"docs/extending.md has no row for {', '.join(lacking)}")
        return
    path.write_text(new)


if __name__ == "__main__":
    main()
