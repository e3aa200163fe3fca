"""Goes through docs/tutorial.md as its reader does, in an empty folder outside the tree.

Each block is used in the order of the page. A block after a line that ends in "`name`:" is
written to that file, or added to it if the line begins with "Add". At the end the files are the
files of examples/tutorial. Blocks of commands are run, except for what installs packages. What
they print is compared with the block that follows: words are the same, numbers are close. To
save time compilers do not optimise, programs of the page's middle are the ones that the build has
made of the same files, and so, unless the tests are thorough, is the compiled library.

Usage: tutorial.py walk --programs FOLDER --root ... (see place.py)
"""

import itertools
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from place import Place, expect

NAMED = re.compile(r"`([\w./]+)`:$")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?$")
# The number before one of these depends on the machine, and on when it was interrupted.
MACHINE = ("ms", "s", "steps,")
PROGRESS = re.compile(r"epoch \d+/\d+ step \d+/\d+ ")  # fit writes such a line every ten seconds
INSTALLS = ("sudo apt", "mkdir ", "cd ", "python3 -m venv", ".venv/bin/pip", "git clone")
quick = {"-DCMAKE_BUILD_TYPE=Release": "-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 "
                                       "-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=100",
         " -O2 ": " -O0 "}


def blocks(page):
    """(the line before, language, body) of every fenced block, in the page's order."""
    lines, found, i = page.splitlines(), [], 0
    while i < len(lines):
        if lines[i].startswith("```"):
            end = lines.index("```", i + 1)
            before = next(line for line in reversed(lines[:i]) if line.strip())
            found.append((before, lines[i][3:], "\n".join(lines[i + 1 : end]) + "\n"))
            i = end
        i += 1
    return found


def oracle(root):
    return os.environ.get("IKEBANA_ORACLE") or str(root / ".oracle/bin/python")


# A compiler launcher: what the package would compile of the library is taken from the build.
LAUNCHER = """#!/bin/sh
case "$*" in *ikebana_compiled.dir*) ;; *) exec "$@" ;; esac
for word; do
  case $before in -o) output=$word ;; -MF) depends=$word ;; esac
  before=$word
done
: >"$depends"
case $output in
  *.o) exec ld -r -o "$output" --whole-archive '{library}' ;;
  *) : >"$output" ;;
esac
"""


class Reader:
    """The folder of a reader, who has come to some point of the page."""

    def __init__(self, place, programs):
        self.place, self.programs = place, pathlib.Path(programs)
        self.examples = place.root / "examples/tutorial"
        self.folder = place.folder / "digits"
        self.commands = 0
        venv = self.folder / ".venv"
        (venv / "bin").mkdir(parents=True)
        python = venv / "bin/python"
        python.write_text(f'#!/bin/sh\nexec "{oracle(place.root)}" "$@"\n')
        python.chmod(0o755)
        packages = venv / "lib/python3/site-packages"
        packages.mkdir(parents=True)
        (packages / "torch").symlink_to(place.libtorch)
        place.copy_tree(self.folder / "ikebana")
        self.env = place.environment(CXX=shutil.which("clang++") or place.cxx,
                                     OMP_NUM_THREADS="1")
        if "IKEBANA_TEST_THOROUGH" not in os.environ:
            launcher = place.folder / "launcher"
            launcher.write_text(LAUNCHER.format(library=place.build / "libikebana.a"))
            launcher.chmod(0o755)
            self.env["CMAKE_CXX_COMPILER_LAUNCHER"] = str(launcher)

    def write(self, name, text, adds):
        path = self.folder / name
        expect(adds == path.exists() or name == "train.cpp", f"{name} is written out of order")
        path.write_text((path.read_text() if adds else "") + text)

    def is_final(self, name):
        return (self.folder / name).read_text() == (self.examples / name).read_text()

    def run(self, body):
        """Runs the commands of a block in one shell, and returns what they print."""
        output, script = "", ""
        for command in body.replace("\\\n", "").splitlines():
            target = re.match(r"cmake --build build --target (\w+)$", command)
            if command.startswith(INSTALLS):
                continue
            if command.startswith("build/train") and "Ctrl-C" in command:
                output += self.shell(script)
                script = ""
                self.interrupt(command.split("#")[0].split())
            elif target and not (target[1] == "train" and self.is_final("train.cpp")):
                self.take(target[1])
            else:
                for old, new in quick.items():
                    command = command.replace(old, new)
                command = re.sub(r"^g\+\+ ", self.env["CXX"] + " ", command)
                script += command + "\n"
                self.commands += 1
        return output + self.shell(script)

    def shell(self, script):
        if not script:
            return ""
        return self.place.run("bash", "-euo", "pipefail", "-c", script, env=self.env,
                              cwd=self.folder)

    def take(self, target):
        """The program that the build has made of the file that the reader now has."""
        text = (self.folder / f"{target}.cpp").read_text()
        same = [path.stem for path in self.examples.glob("*.cpp") if path.read_text() == text]
        expect(same, f"no file of examples/tutorial is {target}.cpp at this point of the page")
        (self.folder / "build").mkdir(exist_ok=True)
        shutil.copy(self.programs / same[0], self.folder / "build" / target)

    def interrupt(self, command):
        """Ctrl-C, once a state of the middle of the second epoch was saved."""
        states = self.folder / command[1] / "states"
        # A shell's background processes inherit that they ignore Ctrl-C.
        program = subprocess.Popen(command, cwd=self.folder, env=self.env, preexec_fn=lambda:
                                   signal.signal(signal.SIGINT, signal.SIG_DFL))
        while not list(states.glob("step-*80.safetensors")):
            expect(program.poll() is None, "the training ended before it could be interrupted")
            time.sleep(0.01)
        program.send_signal(signal.SIGINT)
        expect(program.wait() != 0, "the training was not interrupted")


def compare(expected, real):
    """Compares line by line. `...` stands for any lines."""
    lines = [line for line in real.splitlines() if not PROGRESS.match(line)]
    for part in re.split(r"^\s*\.\.\.\s*$", expected, flags=re.M):
        part = part.strip("\n").splitlines()
        end = next((at + len(part) for at in range(len(lines) - len(part) + 1)
                    if all(map(alike, part, lines[at:]))), None)
        expect(end is not None, "the page shows\n" + "\n".join(part) + "\nand there is\n" + real)
        lines = lines[end:]


def alike(shown, real):
    """The same words, and numbers as another machine may round them after some hundred steps."""
    shown, real = shown.split(), real.split()
    if len(shown) != len(real):
        return False
    units = shown[1:] + [""]
    return all(unit in MACHINE or a == b or close(a, b) for a, b, unit in zip(shown, real, units))


def close(a, b):
    if not NUMBER.match(a) or not NUMBER.match(b) or "." not in a + b:
        return False
    return math.isclose(float(a), float(b), rel_tol=0.25, abs_tol=0.05)


def walk(place):
    reader = Reader(place, place.programs)
    page = (place.root / "docs/tutorial.md").read_text()
    page = page[: page.index("\n## Mistakes")]
    commands = len(blocks(page[: page.index("\n## Conan")]))  # outside_conan runs the others
    output, outputs = None, 0
    for i, (before, language, body) in enumerate(blocks(page)):
        name = NAMED.search(before)
        if name:
            reader.write(name[1], body, before.startswith("Add"))
        elif language == "sh" and i < commands:
            output = reader.run(body)
        elif language == "text":
            compare(body, output)
            outputs += 1
    for path in reader.examples.iterdir():
        if path.is_file() and path.name not in ("mistakes.cpp", "epochs.cpp"):
            expect(reader.is_final(path.name), f"{path.name} is another file on the page")
    expect(reader.commands >= 8 and outputs >= 5, "commands or outputs of the page were not found")
    mistakes(place, reader)
    print(f"{reader.commands} commands were run, and {outputs} outputs compared")


def mistakes(place, reader):
    """Tests that errors of a running program are the errors that the page shows. Of a batch these
    have the fields' names, which a program has that is made by g++, or by clang++ from 18 on."""
    section = (place.root / "docs/tutorial.md").read_text().split("\n## Mistakes")[1]
    real = place.run(reader.programs / "mistakes", "states", env=reader.env, cwd=place.folder)
    real = " ".join(real.split())
    shown = re.findall(r"^> (.*?)\n\n", section + "\n\n", re.M | re.S)
    expect(len(shown) >= 5, "the errors of the page were not found")
    for text in shown:
        text = " ".join(text.replace("\n> ", " ").split())
        numbered = itertools.count()
        unnamed = re.sub(r"\b\w+ (?=[A-Z]\w+\[)", lambda _: f"field {next(numbered)} ", text)
        expect(text in real or unnamed in real, f"no mistake has the error: {text}")


here = Place({"walk": walk})
walk(here)
