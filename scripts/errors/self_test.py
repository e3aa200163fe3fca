"""Sources made here, whose errors index.py must list, or say why it cannot."""
import pathlib
import tempfile

from page import Page, plain
from sites import INTERNAL, Sites
from tree import Tree

ERRORS = "struct Error : std::runtime_error {\n};\nstruct BadValue : Error {\n};\n"
LISTED = {  # the body of a function -> the entries of the page
    'throw BadValue("a: n is " + std::to_string(v.n) + "; it must be 1 or more.");':
        ["- `a: n is <n>;` **`it must be 1 or more.`**"],
    'std::string what = "a: b"; if (c) what += " and d"; throw Error(what + ". Write e.");':
        ["- `a: b.` **`Write e.`**", "- `a: b and d.` **`Write e.`**"],
    'throw Error(c ? "a: b. Write c." : "a: `d`. Give e.");':
        ["- `a: b.` **`Write c.`**", "- ``a: `d`.`` **`Give e.`**"],
    'auto refuse = [](const char* f) { throw Error("a: " + f + ". Leave it out."); };'
    'refuse("n"); refuse("m");':
        ["- `a: n.` **`Leave it out.`**", "- `a: m.` **`Leave it out.`**"],
    'if (false) return; /* throw */ g("throw");  // throw\n throw Error(cure("n"));':
        ["- `a: n is missing.` **`Give it.`**"],
}
REFUSED = {  # the same -> a part of what is wrong
    'throw Error("a: this is so.");': "nothing says what to do about `a: this is so.`",
    "throw Other(x);": "Other is no error of error.hpp",
    "throw error;": "cannot read this throw",
    'throw Error(c ? "a: b. Write c.");': "cannot read this text",
    "throw Error(text_);": "Error has no text of its own",
}
HEADER = """#include <ikebana/error.hpp>
namespace ikebana {
inline std::string cure(const char* name) {
  return std::string("a: ") + name + " is missing. Give it.";
}
template <class T>
void function(const T& v, bool c) {
  %s
}
}
"""


def pages(body):
    """Returns the entries of a header with one function, and what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        include = pathlib.Path(folder)
        (include / "error.hpp").write_text(ERRORS)
        (include / "a.hpp").write_text(HEADER % body)
        tree = Tree(include)
        sites = Sites(tree)
        page = Page(tree, sites.messages, "")
        entries = [page.entry(m) for m in page.messages]
        return entries, sites.unread + page.wrong, sites.throws


def run():
    for body, expected in LISTED.items():
        entries, wrong, throws = pages(body)
        assert not wrong and entries == expected and throws == 1, (body, entries, wrong, throws)
    for body, expected in REFUSED.items():
        _, wrong, _ = pages(body)
        assert len(wrong) == 1 and expected in plain(wrong[0]), (body, wrong)
    assert pages("throw;")[1] == [] and all(INTERNAL.values())
    return 0
