#!/usr/bin/env python3
"""Refusals, compiled as a user would see them.

    refuse.py precompile COMPILER FOLDER           net.hpp, once for all programs
    refuse.py alone COMPILER FOLDER PROGRAM...     each is refused, in its expected words
    refuse.py together COMPILER FOLDER PROGRAM...  all in one unit: one error each, no more
    refuse.py twins COMPILER FOLDER PROGRAM...     all legal twins in one unit: they compile
    refuse.py missing COMPILER REQUIRED            fails where it is required, else is skipped

The expected words are in backticks in a program's leading comment: first the refusal with the types
at fault, then parts of its message. Namespace ikebana is left out there.
"""
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MOST_LINES = 15  # of diagnostics before the first that points into the user's file
SKIPPED = 77


def compile_with(compiler, folder, *arguments):
    """The compiler's exit status, and what it says in plain words."""
    command = [compiler, f"@{folder / 'flags'}", "-fdiagnostics-color=never", *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, "LC_ALL": "C"}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def is_fresh(made, depfile):
    if not made.exists() or not depfile.exists():
        return False
    needs = depfile.read_text().replace("\\\n", " ").split(":", 1)[1].split()
    return all(os.path.exists(n) and os.stat(n).st_mtime <= made.stat().st_mtime for n in needs)


def precompile(compiler, folder):
    """Both compilers take net.hpp.gch for net.hpp, which therefore has a twin beside it."""
    header, made, depfile = folder / "net.hpp", folder / "net.hpp.gch", folder / "net.d"
    if not header.exists():
        header.write_text(f'#include "{HERE / "net.hpp"}"\n')
    if is_fresh(made, depfile):
        print("net.hpp is precompiled already")
        return 0
    # clang would otherwise leave LibTorch's templates to be instantiated by every program.
    extra = ["-fpch-instantiate-templates"] if is_clang(compiler) else []
    status, said = compile_with(compiler, folder, *extra, "-x", "c++-header", header, "-o", made,
                                "-MD", "-MF", depfile)
    with depfile.open("a") as more:
        more.write(f" {folder / 'flags'} {os.path.realpath(compiler)}\n")
    print(said)
    return status


def is_clang(compiler):
    return "clang" in subprocess.check_output([compiler, "--version"], text=True)


def plain(text):
    """Without the namespace and with one spelling of `> >` and `T &`."""
    text = re.sub(r"\s+", " ", text.replace("ikebana::", ""))
    return re.sub(r" (?=[>*&])", "", text)


def expected(program):
    comment = []
    for line in program.read_text().splitlines():
        if not line.startswith("//"):
            break
        comment.append(line)
    return re.findall("`([^`]+)`", "\n".join(comment))


def lines_before(program, said):
    """Lines before the first that points into the program; an include chain does not."""
    for number, line in enumerate(said.splitlines()):
        if re.search(rf"{re.escape(program.name)}:\d+", line) and not re.match(
                r"In file included from|\s+from ", line):
            return number
    return None


def errors_of(said):
    return [line for line in said.splitlines() if re.search(r"\berror: ", line)]


def complaints(program, status, said):
    """What is wrong with this refusal."""
    errors = errors_of(said)
    words = expected(program)
    if len(words) < 2:
        yield "its first line must hold the refusal and words of its message, each in backticks"
    if status == 0 or not errors:
        yield "it compiles, and should not"
        return
    if len(errors) != 1:
        yield f"{len(errors)} errors, and there should be one"
    if "warning: " in said:
        yield "a warning beside the error"
    if words and plain(words[0]) not in plain(said):
        yield f"the refusal is not {words[0]}"
    for word in words[1:]:
        if plain(word) not in plain(errors[0]):
            yield f"the message does not say: {word}"
    lines = lines_before(program, said)
    if lines is None or lines > MOST_LINES:
        yield f"{lines} lines before the user's own code; {MOST_LINES} are allowed"


def alone(compiler, folder, *programs):
    """Stopped at the first error, which is ten times faster; `together` looks at what follows."""
    failed = 0
    for program in map(pathlib.Path, programs):
        begin = time.monotonic()
        status, said = compile_with(compiler, folder, "-include", folder / "net.hpp",
                                    "-fsyntax-only", "-Wfatal-errors", program)
        wrong = list(complaints(program, status, said))
        failed += bool(wrong)
        print(f"{program.stem:28} {lines_before(program, said)!s:>4} lines before user code, "
              f"{time.monotonic() - begin:4.1f} s{'  FAILED' if wrong else ''}", flush=True)
        if wrong:
            print(*(f"    {line}" for line in wrong), "", said, sep="\n")
    print(f"{len(programs) - failed} of {len(programs)} refusals are as expected")
    return 1 if failed else 0


def compile_all(compiler, folder, name, programs, *arguments):
    """Names in the programs differ, so that they fit into one unit; `main` is renamed."""
    unit = folder / f"{name}.cpp"
    unit.write_text("".join(f'#define main {p.stem}\n#include "{p}"\n#undef main\n'
                            for p in map(pathlib.Path.resolve, map(pathlib.Path, programs))))
    return compile_with(compiler, folder, "-include", folder / "net.hpp", "-fsyntax-only",
                        *arguments, "-Wno-return-type", unit)


def together(compiler, folder, *programs):
    unlimited = "-ferror-limit=0" if is_clang(compiler) else "-fmax-errors=0"
    _, said = compile_all(compiler, folder, "together", programs, unlimited)
    errors = errors_of(said)
    well = (len(errors) == len(programs) and all("ikebana: " in line for line in errors)
            and "warning: " not in said)
    print(f"{len(programs)} programs, {len(errors)} errors")
    if not well:
        print("A program gives other errors than its refusal, or two give the same refusal:", said)
    return 0 if well else 1


def twins(compiler, folder, *programs):
    status, said = compile_all(compiler, folder, "twins", programs, "-DTWIN", "-Wall", "-Wextra")
    print(f"{len(programs)} legal twins: {'refused' if status else 'compiled'}", said, sep="\n")
    return 1 if status or "warning: " in said else 0


def missing(compiler, required):
    print(f"{compiler} was not found, so its refusals are not tested: install it, then configure "
          "again")
    return 1 if required == "ON" or os.environ.get("CI") else SKIPPED


def main():
    command, compiler, *rest = sys.argv[1:]
    if command == "missing":
        return missing(compiler, *rest)
    folder = pathlib.Path(rest[0])
    commands = {"precompile": precompile, "alone": alone, "together": together, "twins": twins}
    return commands[command](compiler, folder, *rest[1:])


sys.exit(main())
