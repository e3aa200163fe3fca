#!/usr/bin/env python3
"""Refusals, compiled as a user would see them.

    refuse.py refused COMPILER FOLDER TORCH PROGRAM...       each is refused, in its expected words
    refuse.py counterparts COMPILER FOLDER TORCH PROGRAM...  the legal counterpart of each compiles
    refuse.py former COMPILER FOLDER TORCH                   former names compile, with a warning
    refuse.py missing COMPILER REQUIRED                      fails if required, else is skipped
    refuse.py self                                           these checks find faulty diagnostics

The programs are the arguments and the rows of recipes.table; those of `former` are the rows of
former_names.table, whose counterparts are compiled with the others. All are one unit per mode, so
that a compiler parses LibTorch once; each diagnostic is then checked with the program that it
points into.
FOLDER holds the compiler's `flags`; TORCH is a header that the build has precompiled for this
compiler, and is left out if it does not exist.

The expected words are in backticks in a program's leading comment: the refusal with the types at
fault, what its sentence says was written, then parts of its message. Namespace ikebana is left out.
If the error is the compiler's own, the comment begins with "The compiler:", and all are of its
message.
"""
import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MOST_LINES = 15  # the most lines of diagnostics before the first that points into the user's file
SKIPPED = 77
CHAIN = re.compile(r"In file included from|\s+from ")
DYNAMIC = "-9223372036854775808"  # stands for a count that comes as a value
FIT = re.compile(r"\((?:ikebana::)?FitCount\)(\d*)")  # how compilers write Fit<Max>


def compile_all(compiler, folder, torch, name, programs, *arguments):
    """Returns the compiler's exit status and its diagnostics. `main` becomes the program's name.
    All other names in the programs differ already."""
    unit = folder / f"{name}.cpp"
    unit.write_text(f'#include "{HERE / "net.hpp"}"\n' + "".join(
        f'#define main {p.stem}\n#include "{p}"\n#undef main\n' for p in programs))
    is_clang = "clang" in subprocess.check_output([compiler, "--version"], text=True)
    unlimited = "-ferror-limit=0" if is_clang else "-fmax-errors=0"
    precompiled = ["-include", torch] if os.path.exists(torch) else []
    command = [compiler, f"@{folder / 'flags'}", "-fdiagnostics-color=never", *precompiled,
               "-fsyntax-only", unlimited, *arguments, "-Wno-return-type", unit]
    done = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def programs_in(table, folder):
    """The programs of a table, each as a file in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for row in table.read_text().strip().split("\n\n")[1:]:
        name, refused, legal, *words = [line.strip() for line in row.splitlines()]
        program = folder / f"{name}.cpp"
        program.write_text("".join(f"// {line}\n" for line in words) + "int main() {\n"
                           f"#ifdef COUNTERPART\n  {legal}\n#else\n  {refused}\n#endif\n"
                           "  trainer.step(Batch{});\n}\n")
        yield program


def diagnostics(output):
    """Splits the output into parts of one error or warning each, with its context and notes. g++
    writes the context first. Either compiler may write the chain of includes before a context,
    an error or a note."""
    parts, chain = [[]], []
    for line in output.splitlines():
        if CHAIN.match(line):
            chain.append(line)
            continue
        is_main = re.search(r"\b(?:error|warning): ", line)
        if is_main or re.search(r": In [^:]", line):
            if any(re.search(r"\b(?:error|warning): ", former) for former in parts[-1]):
                parts.append([])
        parts[-1] += chain + [line]
        chain = []
    return [part for part in parts if part]


def plain(text):
    """Without the namespace and with one spelling of `> >`, `T &`, Dynamic and Fit."""
    text = re.sub(r"\s+", " ", text.replace("ikebana::", "").replace(DYNAMIC + "L", "")
                  .replace(DYNAMIC, ""))
    text = FIT.sub(r"Fit<\1>", text)
    return re.sub(r" (?=[>*&])", "", text)


def sentence(text):
    """What was written, as the condition says it: g++ prints the text, clang the sum."""
    found = re.search(r'possible<\S*Sentence<\d+>\{"(.*)"\}>. evaluates to false', text)
    if found:
        return plain(found[1].replace("`", ""))
    found = re.search(r"requirement 'possible<(.*?)>'(?: \"|: )ikebana: ", text)
    pieces = found[1].split(" + ") if found else []
    part = r'^"(.*)"$|^(?:quoted|list_of|name|names_of)<(.*)>$'
    texts = [re.sub(part, r"\1\2", p) for p in pieces]
    short = "(?:^|(?<=, ))ikebana::(?:axis|hook)::"
    return plain("".join(re.sub(short, "", text) for text in texts))


def expected(program):
    """The words, and whether they are the compiler's own."""
    comment = re.match(r"(?://.*\n)*", program.read_text())[0]
    return re.findall("`([^`]+)`", comment), comment.startswith("// The compiler: ")


def lines_before(program, part):
    """Lines before the first that points into the program; the chain of includes is not counted."""
    lines = [line for line in part if not CHAIN.match(line)]
    return next((n for n, line in enumerate(lines) if f"/{program.name}:" in line), None)


def programs_of(part, programs):
    return [p for p in programs if lines_before(p, part) is not None]


def complaints(program, parts, chain):
    """What is wrong with the diagnostics of one program; `chain` lines more come before each."""
    words, by_compiler = expected(program)
    if len(words) < 3 and not (by_compiler and words):
        yield "its comment must name the refusal, its sentence and its message, each in backticks"
        return
    if len(parts) != 1:
        yield f"{len(parts)} errors and warnings, and there should be one error"
        return
    text = "\n".join(parts[0])
    error = next((line for line in parts[0] if " error: " in line), "")
    if not error:
        yield "a warning, and no error"
    if not by_compiler and plain(words[0]) not in plain(text):
        yield f"the refusal is not {words[0]}"
    if not by_compiler and plain(words[1]) not in sentence(text):
        yield f"the sentence is not: {words[1]}, but: {sentence(text)}"
    for word in words if by_compiler else words[2:]:
        if plain(word) not in plain(error):
            yield f"the message does not say: {word}"
    if lines_before(program, parts[0]) + chain > MOST_LINES:
        yield f"more than {MOST_LINES} lines before the user's own code"


def check(output, programs):
    """Whether every part belongs to one program, and every program has the one that it should."""
    parts = diagnostics(output)
    chain = max((sum(bool(CHAIN.match(line)) for line in part) for part in parts), default=0)
    good = True
    for part in parts:
        if len(programs_of(part, programs)) != 1:
            print("This belongs to no program, or to several:", *part, sep="\n")
            good = False
    for program in programs:
        own = [part for part in parts if programs_of(part, programs) == [program]]
        wrong = list(complaints(program, own, chain))
        lines = f"{lines_before(program, own[0]) + chain:4} lines before user code" if own else ""
        print(f"{program.stem:28} {lines}{'  FAILED' if wrong else ''}")
        if wrong:
            print(*(f"    {line}" for line in wrong), "", *sum(own, []), sep="\n")
            good = False
    return good


def warned(output, programs):
    """Whether every program has warnings of its former name, and there is nothing else."""
    parts = [("\n".join(part), programs_of(part, programs)) for part in diagnostics(output)]
    named, good = set(), True
    for text, owners in parts:
        words = [word for program in owners for word in expected(program)[0]]
        if len(owners) == 1 and " error: " not in text and "deprecated" in text and all(
                plain(word) in plain(text) for word in words):
            named.add(owners[0])
        else:
            print("This is no warning of a program's former name:", text, sep="\n")
            good = False
    for program in sorted(set(programs) - named):
        print(f"{program.stem}: no warning says: {', '.join(expected(program)[0])}")
        good = False
    return good


def former(compiler, folder, torch, programs):
    status, output = compile_all(compiler, folder, torch, "former", programs)
    print(f"{len(programs)} former names: {'refused' if status else 'compiled'}")
    return 0 if warned(output, programs) and status == 0 else 1


def refused(compiler, folder, torch, programs):
    _, output = compile_all(compiler, folder, torch, "refused", programs)
    return 0 if check(output, programs) else 1


def counterparts(compiler, folder, torch, programs):
    status, output = compile_all(compiler, folder, torch, "counterparts", programs,
                                 "-DCOUNTERPART", "-Wall", "-Wextra")
    print(f"{len(programs)} legal counterparts: {'refused' if status else 'compiled'}", output,
          sep="\n")
    return 1 if status or "warning: " in output else 0


def missing(compiler, required):
    print(f"{compiler} was not found, so its refusals are not tested: install it, then configure "
          "again")
    return 1 if required == "ON" or os.environ.get("CI") else SKIPPED


GXX = """In file included from ikebana.hpp:2,
                 from unit.cpp:1:
refuse.hpp: In instantiation of 'struct ikebana::refuse::Twice<ikebana::AdamW>':
/a.cpp:8:32:   required from here
refuse.hpp:5:17: error: static assertion failed: ikebana: one is enough. Remove the other.
refuse.hpp:5:17: note: 'ikebana::refuse::possible<ikebana::refuse::Sentence<9>{"`AdamW` is \
written twice"}>' evaluates to false
"""
CLANG = """In file included from unit.cpp:1:
refuse.hpp:5:3: error: static_assert failed due to requirement 'possible<quoted<ikebana::AdamW> + \
" is written " + "twice">' "ikebana: one is enough. Remove the other."
In file included from unit.cpp:1:
refuse.hpp:9:1: note: in instantiation of class 'ikebana::refuse::Twice<ikebana::AdamW>'
/a.cpp:8:32: note: in instantiation of class 'ikebana::Trainer<Net, ikebana::AdamW>'
"""


GXX_WARNING = """/a.cpp:4:9: warning: 'Old' is deprecated: use New [-Wdeprecated-declarations]
vocabulary.hpp:7:8: note: declared here
"""
CLANG_WARNING = """/a.cpp:4:9: warning: 'Old' is deprecated: use New [-Wdeprecated-declarations]
vocabulary.hpp:7:10: note: 'Old' has been explicitly marked deprecated here
"""


def self_test():
    """One refusal and one warning as each compiler prints it, and with one fault at a time."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "a.cpp")
        program.write_text("// `Twice<AdamW>` `AdamW is written twice`\n// `enough` `Remove`\n")
        faulty = {""}
        for good in GXX, CLANG:
            faulty |= {good + good, good + "/a.cpp:9:1: warning: unused",
                       good + "other.hpp:1:1: error: in no program", "\n" * 15 + good,
                       good.replace("Twice", "Thrice"), good.replace("written", "named"),
                       good.replace("Remove", "Drop"), good.replace("error", "warning")}
        with contextlib.redirect_stdout(io.StringIO()):
            wrong = [text for text in (GXX, CLANG) if not check(text, [program])]
            wrong += [text for text in faulty if check(text, [program])]
            program.write_text("// `use New`\n")
            for good in GXX_WARNING, CLANG_WARNING:
                wrong += [good] * (not warned(good, [program]))
                unwelcome = {"", good + "/a.cpp:9:1: warning: unused", good.replace("New", "Old"),
                             good.replace("a.cpp", "b.hpp"), good.replace("warning", "error")}
                wrong += [text for text in unwelcome if warned(text, [program])]
                faulty |= unwelcome
    print(f"{len(faulty)} faulty diagnostics, {len(wrong)} taken for another", *wrong, sep="\n")
    return 1 if wrong else 0


def main():
    command, *rest = sys.argv[1:]
    if command == "missing":
        return missing(*rest)
    if command == "self":
        return self_test()
    compiler, folder, torch, *programs = rest
    folder = pathlib.Path(folder).resolve()
    programs = [pathlib.Path(p).resolve() for p in programs]
    if command != "former":
        programs += programs_in(HERE / "recipes.table", folder / command)
    if command != "refused":
        programs += programs_in(HERE / "former_names.table", folder / command)
    return {"refused": refused, "counterparts": counterparts, "former": former}[command](
        compiler, folder, torch, programs)


sys.exit(main())
