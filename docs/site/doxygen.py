"""Runs Doxygen over the headers, and reads what it wrote: Entry by Entry what is public."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import topics

OUTSIDE = re.compile(r"::(?:detail|bridge|refuse)(?:::|$)")
OPERATOR = re.compile(r"operator\W")
SITE = pathlib.Path(__file__).parent
include = SITE.parents[1] / "include"


@dataclasses.dataclass
class Entry:
    """A public name: a type with its specialisations, or the overloads of a function."""

    name: str  # within ikebana: AdamW, Checkpoint<Full>, modules::attention
    topic: topics.Topic
    header: str  # relative to include/
    parts: list  # compounddef or memberdef, in the order of the source
    bases: list = dataclasses.field(default_factory=list)  # compounddef of internal bases

    @property
    def is_type(self):
        return self.parts[0].tag == "compounddef"

    def members(self):
        """The public members, those of internal bases last."""
        for part in [*self.parts, *self.bases] if self.is_type else []:
            for member in part.iter("memberdef"):
                if member.get("prot") == "public" and shown(part, member):
                    yield member


def run(root, out):
    """Doxygen's XML of the headers in out/xml. Exits where it warns."""
    global include
    include = root / "include"
    out.mkdir(parents=True, exist_ok=True)
    given = f"OUTPUT_DIRECTORY = {out}\nINPUT = include/ikebana include/ikebana.hpp\n"
    given += f'INPUT_FILTER = "sed -E -f {os.path.relpath(SITE, root)}/comments.sed"\n'
    if not shutil.which("doxygen"):
        sys.exit("there is no doxygen: `scripts/setup docs` installs it")
    ran = subprocess.run(["doxygen", "-"], cwd=root, text=True, capture_output=True,
                         input=(SITE / "Doxyfile").read_text() + given)
    if ran.returncode or ran.stderr.strip():
        sys.exit("doxygen:\n" + ran.stderr)
    return out / "xml"


def shown(owner, member):
    """False for what has no meaning of its own: destructors, copies, and what is deleted."""
    name, args = member.findtext("name"), member.findtext("argsstring") or ""
    own = owner.findtext("compoundname").split("<")[0].split("::")[-1]
    is_copy = re.match(rf"\((?:const )?{own} ?&&?\w*\)", args.replace(" &", "&"))
    if member.get("kind") == "friend" or name.startswith("~") or args.endswith("=delete"):
        return False
    if name in ("pretty_print", "running_statistics"):
        return False  # of modules, for LibTorch and for a recompute
    if "=0" in args and owner.findtext("compoundname") not in member.findtext("definition"):
        return False  # a base's, which this one overrides and makes visible by `using`
    space = spelled(owner.findtext("compoundname")).split("::")[0]
    hidden = (*topics.HIDDEN.get(own, ()), *topics.HIDDEN.get(f"{space}::*", ()))
    if name in hidden or refuses(member):
        return False
    if name in ("carries_out", own + "Impl"):
        return False
    if "refuse::" in ElementTree.tostring(member, "unicode"):
        return False
    return not (name in (own, "operator=", "operator==") and (is_copy or args.endswith("=default")))


def refuses(member):
    """Whether a function is there only so that calling it is an error of the compiler."""
    at = member.find("location")
    if member.get("kind") != "function" or not (start := int(at.get("bodystart") or 0)) > 0:
        return False
    lines = (include / at.get("bodyfile")).read_text().splitlines()
    body = "".join(lines[start - 1 : int(at.get("bodyend"))])
    return "sizeof(" in body and "refus" in body and "if constexpr" not in body


def spelled(name):
    """Doxygen's `ikebana::Checkpoint< Every< K > >` as `Checkpoint<Every<K>>`."""
    name = name.removeprefix("ikebana::")
    return re.sub(r" ?([<>]) ?", r"\1", name)


def key_of(name, header):
    """By which name something is found: a count that is a value belongs to the same name."""
    name = topics.ALIASES.get(name) or spelled(name)
    if name in ("Accumulate<Max>", "Accumulate<Fit<>>") and header.endswith("accumulate/fit.hpp"):
        return "Accumulate<Fit<N>>"
    name = re.sub(r"(Budget|Segments)<Dynamic>", r"\1<N>", name)
    name = re.sub(r"Every<Dynamic>", "Every<K>", name)
    name = {"Accumulate<Dynamic>": "Accumulate", "Freeze<>": "Freeze",
            "batch_dim<Batch>": "batch_dim",
            "Checkpoint<Only<>>": "Checkpoint<Only<Units...>>"}.get(name, name)
    return name.removesuffix("Impl") if name.startswith("modules::") else name


def topic_of(name, header):
    """The topic of a name; None if it is internal. Exits where the name is neither."""
    path, outer = header.removeprefix("ikebana/"), name.split("<")[0]
    for topic in topics.TOPICS:
        if any(name == n or outer == n and "<" not in name
               or n.endswith("::") and name.startswith(n) for n in topic.names):
            return topic
    if topics.INTERNAL.fullmatch(name):
        return None
    for topic in topics.TOPICS:
        if path.startswith(topic.paths):
            return topic
    if path.startswith(topics.INTERNAL_PATHS):
        return None
    sys.exit(f"{header}: {name} is in no topic of docs/site/topics.py, and not internal there")


def candidates(xml):
    """(name, element) of everything in namespace ikebana outside of detail, bridge and refuse."""
    for compound in ElementTree.parse(xml / "index.xml").getroot().findall("compound"):
        kind, name = compound.get("kind"), compound.findtext("name")
        if kind not in ("class", "struct", "concept", "namespace"):
            continue
        if not name.startswith("ikebana"):
            continue
        if OUTSIDE.search(name) and name not in topics.ALIASES:
            continue
        found = ElementTree.parse(xml / f"{compound.get('refid')}.xml").getroot()[0]
        if kind != "namespace":
            yield name, found
        else:
            for member in found.iter("memberdef"):
                args = member.findtext("argsstring") or ""
                if "->" not in args.split(")")[-1] and not OPERATOR.match(member.findtext("name")):
                    yield f"{name}::{member.findtext('name')}", member


def read(xml):
    """All public names, by name, with the internal bases of types."""
    entries, compounds = {}, {}
    for name, element in candidates(xml):
        header = element.find("location").get("file")
        if element.tag == "compounddef":
            compounds[element.get("id")] = element
        key = key_of(name, header)
        if "checks/" in header or not (topic := topic_of(key, header)):
            continue
        entry = entries.setdefault(key, Entry(key, topic, header, []))
        # The definition says where it is; vocabulary.hpp only declares.
        if "vocabulary" in entry.header:
            entry.header = header
        entry.parts.append(element)
    for entry in entries.values():
        entry.parts.sort(key=lambda p: int(p.find("location").get("line")))
        entry.bases = [*internal_bases(entry.parts, compounds, entries)] if entry.is_type else []
    return dict(sorted(entries.items(), key=lambda item: (item[0].lower(), item[0])))


def internal_bases(parts, compounds, entries):
    for part in parts:
        for base in part.findall("basecompoundref"):
            found = compounds.get(base.get("refid"))
            if found is not None and key_of(found.findtext("compoundname"), "") not in entries:
                yield found
                yield from internal_bases([found], compounds, entries)
