#!/usr/bin/env python3
"""The reference of every public name, from the comments of the headers.

    reference.py check ROOT      exits 1 and names each public name, field or member without a
                                 comment, each name without an example, and each example of no name
    reference.py self            the same on headers made here: every fault is found, and no other
"""

import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import doxygen
import examples
import navigation
import text


def without_comment(entries, writer):
    """The public names, fields and members without a comment. An overload shares that of the one
    before it, a specialisation that of its name, and a value that of its enum, which names it."""
    for entry in entries.values():
        if not any(writer.comment(part) for part in entry.parts):
            yield entry.name
        before = None
        for member in entry.members():
            name = member.findtext("name")
            if not writer.comment(member) and name != before:
                yield f"{entry.name}::{name}"
            before = name
        for enum in (e for part in entry.parts for e in part.iter()):
            for value in enum.findall("enumvalue"):
                name = value.findtext("name")
                named = re.search(rf"\b{name}\b", writer.comment(enum))
                if not writer.comment(value) and not named:
                    yield f"{entry.name}::{name}"


def check(entries, writer, folder):
    """Texts about what is missing, and about regions of no name."""
    found, wrong = examples.read(folder)
    known = {f"{e.name}::{m.findtext('name')}" for e in entries.values() for m in e.members()}
    wrong += [f"test/docs/reference: `{name}` is no public name"
              for name in found if name not in known | set(entries)]
    wrong += [f"{name} has no comment" for name in sorted(set(without_comment(entries, writer)))]
    return wrong + [f"{name} has no example" for name in entries if name not in found]


def load(root, out):
    """(entries, writer) from Doxygen's XML, which is written to `out`."""
    entries = doxygen.read(doxygen.run(root, out))
    names = {part.get("id"): e.name for e in entries.values() for part in e.parts}
    return entries, text.Writer(names)


HEADER = """#pragma once
namespace ikebana {
/// Clips.
struct Clip {
  double norm = 1;   ///< the largest
  double bare = 2;
  /// Clips now.
  void now();
  void now(int);
  void never();
};
struct Bare {};
/// Of two.
enum class Two {
  One,  ///< the first
  Other
};
/// A function of two forms.
void form();
void form(int);
namespace detail { struct Hidden {}; }
namespace images {
/// A flip, whose name topics.HIDDEN has.
struct Flip { int name; };
}
}
"""
EXAMPLES = "// example: Clip, Clip::now\nClip clip;\n// end\n// example: Missing\n// end\n"


def self_test():
    """Exits 1 unless what HEADER and EXAMPLES lack is found, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "include/ikebana/clip").mkdir(parents=True)
        (root / "include/ikebana/clip/clip.hpp").write_text(HEADER)
        (root / "include/ikebana.hpp").write_text(
            "#pragma once\n#include <ikebana/clip/clip.hpp>\n")
        (root / "clip.cpp").write_text(EXAMPLES)
        found = check(*load(root, root / "out"), root)
    expected = ["test/docs/reference: `Missing` is no public name", "Bare has no comment",
                "Clip::bare has no comment", "Clip::never has no comment",
                "Two::Other has no comment", "Bare has no example",
                "form has no example", "images::Flip has no example", "Two has no example"]
    if found != expected:
        sys.exit(f"found {found} instead of {expected}")
    print("every fault is found")


def main():
    if sys.argv[1:] == ["self"]:
        return self_test()
    if len(sys.argv) != 3 or sys.argv[1] != "check":
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[2]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        entries, writer = load(root, pathlib.Path(folder))
    navigation.toctrees({path.stem for path in (root / "docs").glob("*.md")})
    wrong = check(entries, writer, root / "test/docs/reference")
    print("\n".join(wrong) or f"{len(entries)} public names are described")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
