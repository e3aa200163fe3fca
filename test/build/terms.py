#!/usr/bin/env python3
"""Keeps retired names and phrases out of the tree.

    terms.py ROOT    exits 1 and prints file:line, the retired term and its replacement
    terms.py self    the same on sources made here: every retired term is found, and nothing else

retired_terms.txt lists the terms. A name is a whole identifier (or a few tokens) and is searched
for in code: in C++ and Python outside of comments and strings, anywhere between backticks, and in
the code blocks of a page. A phrase is a regular expression in which a space matches any white
space; it is searched for in comments, in strings and in pages, also where it is broken across
lines, and its case does not matter. A text is the same, but it is searched for in strings only. A
comment is a regular expression as well, but it is searched for in comments only, outside of
backticks, its case matters, and `^` is the beginning of a block of comments, or of a comment behind
code. A section may name the files that its terms are about; one that does not is about headers,
examples and documentation. No header has in its code one of the macros that
detail/macros_aside.inc sets aside.
"""
import fnmatch
import functools
import pathlib
import re
import sys

LIST = pathlib.Path(__file__).with_name("retired_terms.txt")
SUFFIXES = {".hpp", ".ipp", ".inc", ".cpp", ".py", ".md", ".txt", ".cmake"}
# These files have old names beside the new ones.
SKIPPED = {"docs/migrate.md", "include/ikebana/hooks/table.hpp",
           "include/ikebana/checks/hooks.hpp", "test/refuse/hook_renamed.cpp",
           "test/build/retired_terms.txt", "test/build/terms.py"}
DEFAULT = "README.md", "include/", "examples/", "docs/"  # of a section that names no files
OTHERS = "test", "bench", "scripts", "src", "cmake"  # files_of finds these, too
GAP = "\0"  # stands for what is not searched, so that no phrase reaches across it

CPP = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | R"(?P<end>[^()\s]*)\((?P<raw>.*?)\)(?P=end)"
      | (?P<include>^[ \t]*\#[ \t]*include[^\n]*)
      | "(?P<string>(?:\\.|[^"\\\n])*)"
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
    """, re.X | re.S | re.M)
PYTHON = re.compile(
    r'''(?P<comment>\#[^\n]*)
      | (?:"""(?P<long>.*?)""") | '{3}(?P<plain>.*?)'{3}
      | "(?P<string>(?:\\.|[^"\\\n])*)" | '(?P<single>(?:\\.|[^'\\\n])*)'
    ''', re.X | re.S)
CMAKE = re.compile(r"(?P<comment>\#[^\n]*)")
LANGUAGES = {".py": PYTHON, ".txt": CMAKE, ".cmake": CMAKE}
PROSE = "comment", "raw", "string", "long", "plain", "single"
BACKTICKS = re.compile(r"`([^`\n]+)`")
SECTION = re.compile(r"\[(names|phrases|texts|comments)((?: [\w/*.]+)*)\]")
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```$", re.M | re.S)


def blank(text, keep=""):
    """Everything but line breaks and `keep` replaced, in the same length."""
    return re.sub(rf"[^\n{keep}]+", lambda found: GAP * len(found.group()), text)


def unmarked(comment):
    return re.sub(r"^[ \t]*(?://[/!]*<?|/\*+|\*+/|\*|\#+)|\*/$",
                  lambda mark: " " * len(mark.group()), comment, flags=re.M)


def split(text, language):
    """Two texts as long as `text`: its code and its prose, with gaps in place of the other."""
    code, prose, end = [], [], 0
    for found in language.finditer(text):
        between = text[end: found.start()]
        code.append(between)
        prose.append(blank(between, " \t"))
        code.append(blank(found.group()))
        prose.append(prose_of(found))
        end = found.end()
    code.append(text[end:])
    prose.append(blank(text[end:], " \t"))
    return "".join(code), "".join(prose)


def prose_of(found):
    """A comment without its marks, a string without its quotes, or a gap."""
    groups = found.groupdict()
    kind = next((kind for kind in PROSE if groups.get(kind) is not None), None)
    if kind is None:
        return blank(found.group())
    if kind == "comment":
        return unmarked(found.group())
    before, after = found.start(kind) - found.start(), found.end() - found.end(kind)
    return " " * before + groups[kind] + " " * after


def comments_of(text, language):
    """Returns the comments of `text`, as long as it, with gaps in place of code and strings, and
    with backticks in place of what stands between them."""
    parts, end = [], 0
    for found in language.finditer(text):
        parts.append(blank(text[end: found.start()], " \t"))
        is_comment = found.groupdict().get("comment") is not None
        parts.append((unmarked if is_comment else blank)(found.group()))
        end = found.end()
    comments = "".join([*parts, blank(text[end:], " \t")])
    return BACKTICKS.sub(lambda quoted: "`" * len(quoted.group()), comments)


def strings_of(text, language):
    """Returns the strings of `text`, as long as it, with gaps in place of code and comments."""
    parts, end = [], 0
    for found in language.finditer(text):
        is_comment = found.groupdict().get("comment") is not None
        parts += [blank(text[end: found.start()], " \t"),
                  blank(found.group()) if is_comment else prose_of(found)]
        end = found.end()
    return "".join([*parts, blank(text[end:], " \t")])


def of_page(text):
    """The code of a page is its code blocks and what stands between backticks."""
    code = list(blank(text))
    for found in [*BLOCK.finditer(text), *BACKTICKS.finditer(BLOCK.sub(
            lambda block: blank(block.group()), text))]:
        code[found.start(1): found.end(1)] = found.group(1)
    return "".join(code), text


def parts_of(name, text):
    """The text in which each kind of term is searched for."""
    suffix = pathlib.PurePosixPath(name).suffix
    if suffix == ".md":
        code, prose = of_page(text)
        return {"names": code, "macros": code, "phrases": prose, "texts": "", "comments": ""}
    language = LANGUAGES.get(suffix, CPP)
    code, prose = split(text, language)
    quoted = list(code)
    for found in BACKTICKS.finditer(prose):
        quoted[found.start(1): found.end(1)] = found.group(1)
    return {"names": "".join(quoted), "macros": code, "phrases": prose,
            "texts": strings_of(text, language), "comments": comments_of(text, language)}


def read_terms(lines):
    """(kind, old, pattern, files, new) for each line `old -> new` below a section's head."""
    kind, files = None, []
    for line in lines:
        if head := SECTION.fullmatch(line.strip()):
            kind, files = head[1], head[2].split()
        elif line.strip() and not line.startswith("#"):
            old, new = line.rstrip("\n").split(" -> ")
            yield kind, old.strip(), pattern_of(kind, old.strip()), files, new.strip()


def macro_terms(text):
    """Terms for the names that `text` sets aside, since X11 or Qt may have defined them."""
    for name in re.findall(r"^#undef (\w+)", text, re.M):
        yield ("macros", name, pattern_of("macros", name), ["include/*.hpp"],
               "another name, for X11 or Qt defines it")


@functools.lru_cache(maxsize=None)
def pattern_of(kind, old):
    spaced = re.sub(r" +", r"\\s+", old)
    if kind == "comments":
        between = r"(?:\A|(?<=\0)|(?<=\n\n))\s*"  # code or an empty line is between two blocks
        return re.compile(between + spaced[1:] if spaced[0] == "^" else spaced)
    if kind not in ("phrases", "texts"):
        begin, end = r"(?<!\w)" * old[0].isidentifier(), r"(?!\w)" * old[-1].isidentifier()
        return re.compile(begin + re.escape(old) + end)
    return re.compile(rf"(?<![\w-])(?:{spaced})(?![\w-])", re.I)


def possible(parts, terms):
    """Returns the terms that the text may contain: each name that is a substring of the code, and
    all phrases or texts, unless one search for any of them finds nothing."""
    found = {"comments": True}
    for kind in ("phrases", "texts"):
        any_of = "|".join(old for of, old, *_ in terms if of == kind)
        found[kind] = any_of and pattern_of(kind, any_of).search(parts[kind])
    return [term for term in terms
            if (found[term[0]] if term[0] in found else term[1] in parts[term[0]])]


def is_about(files, name):
    if files:
        return any(fnmatch.fnmatch(name, f"{file}*") for file in files)
    return name.startswith(DEFAULT) or "/" not in name


def breaches(name, text, terms):
    parts = parts_of(name, text)
    terms = [term for term in terms if is_about(term[3], name)]
    for kind, _, pattern, _, new in possible(parts, terms):
        for found in pattern.finditer(parts[kind]):
            start = found.end() - len(found.group().lstrip())
            line = text.count("\n", 0, start) + 1
            yield line, f"{name}:{line}: `{' '.join(found.group().split())}`: use {new}"


def files_of(root):
    yield root / "README.md"
    for folder in ("include", "examples", "docs", *OTHERS):
        yield from sorted((root / folder).rglob("*"))


def search(root):
    terms = [*read_terms(LIST.read_text().splitlines()),
             *macro_terms((root / "include/ikebana/detail/macros_aside.inc").read_text())]
    wrong, count = [], 0
    for path in files_of(root):
        name = path.relative_to(root).as_posix()
        if path.is_file() and path.suffix in SUFFIXES and name not in SKIPPED:
            count += 1
            wrong += [breach for _, breach in sorted(breaches(name, path.read_text(), terms))]
    print("\n".join(wrong) or f"{count} files without any of {len(terms)} retired terms")
    return 1 if wrong or count < 100 else 0


TERMS = """
[names]
Homecoming -> ReduceGradients
.rest( -> .to_masters(
[phrases]
words? of (?:a|the) recipe -> policies
the house -> the architecture
[phrases include]
the page -> step.hpp
[comments include test]
^[Oo]f\\b(?! ranks) -> what it does
\\bin vain\\b -> without effect
\\b(?i:true|null) where\\b -> if
\\b[Tt]hose (?:that|of)\\b -> the noun
[texts include]
for ever -> without end
[phrases test]
laws? -> guarantee
"""
MACROS = "#undef Bool\n#undef None\n"
FOUND = (  # file, text, line
    ("a.hpp", "int a;\nHomecoming b;", 2),
    ("a.hpp", "// see `Homecoming`", 1),
    ("a.hpp", "m.rest(x);", 1),
    ("a.hpp", "// the words of\n/// the recipe", 1),
    ("a.hpp", "int a;  ///< A word\n  ///< of a recipe", 1),
    ("a.hpp", 'throw Error("the "\n    "House rule");', 1),
    ("a.hpp", 'auto a = R"(in\nthe house)";', 2),
    ("a.hpp", "/* in the\n * house */", 1),
    ("a.py", '"""In\nthe house."""', 2),
    ("a.py", "f()  # the house", 1),
    ("CMakeLists.txt", "add()\n# the\n# house", 2),
    ("a.md", "all of\nthe\nhouse", 2),
    ("a.md", "`Homecoming`", 1),
    ("a.md", "```cpp\nHomecoming a;\n```", 2),
    ("include/a.hpp", "// the page", 1),
    ("include/a.hpp", "enum A {\n None };", 2),
    ("include/a.hpp", "int a;\n\n  /// Of\n  /// units", 3),
    ("include/a.hpp", "// A file\n\n/// Of units", 3),
    ("include/a.hpp", "int a;  ///< of a unit\nint b;", 1),
    ("include/a.hpp", "f({a,  // of a\n   b});", 1),
    ("include/a.hpp", "// it waits in\n// vain", 1),
    ("include/a.hpp", "/// True where it is", 1),
    ("include/a.hpp", "// it is null\n// where it is", 1),
    ("include/a.hpp", "int a;\n/// A size, or those\n/// of it", 2),
    ("include/a.hpp", 'throw Error("waits " + a + " For "\n  "ever");', 1),
    ("test/a.py", "a = 1  # Of units", 1),
    ("test/a.cpp", "// the laws", 1),
)
NOT_FOUND = (
    ("a.hpp", "// Homecoming is a word; the rest(s) of it. In other words, a recipe."),
    ("a.hpp", '#include "the house.hpp"\nauto a = "Homecoming";'),
    ("a.hpp", "int the, house; int a_Homecoming, Homecomings;"),
    ("a.hpp", "// the\nint a;\n// house"),
    ("a.hpp", 'f("the", "house", \'"\', 1\'000);  // the household, the-house'),
    ("a.py", "the = house"),
    ("a.md", "Homecoming, and the page"),
    ("include/a.hpp", "// the memory page; a `None`"),
    ("a.hpp", "enum A { None };"),
    ("include/a.hpp", "// A list.\n// Of units; of none\nf(\"Of units in vain\");  // units"),
    ("include/a.hpp", "int a;  // the name\n        // of a unit\nint b;  // of ranks"),
    ("include/a.hpp", "// It says `those of` and `true where`, or says where; for ever."),
    ("include/a.hpp", 'f("for", "ever", "for everything");'),
    ("a.hpp", "// Of units; true where"),
    ("a.hpp", 'f("for ever");'),
    ("test/a.cpp", "// the house, the flaw"),
    ("include/a.md", "Of units, in vain, those of, for ever"),
)


def self_test():
    terms = [*read_terms(TERMS.splitlines()), *macro_terms(MACROS)]
    for name, text, line in FOUND:
        assert [at for at, _ in breaches(name, text, terms)] == [line], (name, text)
    for name, text in NOT_FOUND:
        assert not list(breaches(name, text, terms)), (name, text)
    message = next(breach for _, breach in breaches("a.md", "in the\nhouse", terms))
    assert message == "a.md:1: `the house`: use the architecture", message
    assert len(list(read_terms(LIST.read_text().splitlines()))) > 50
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1] == "self" else search(pathlib.Path(sys.argv[1])))
