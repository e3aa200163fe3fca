#!/usr/bin/env python3
"""Parses each header with nothing before it but what it includes itself.

    headers_alone.py chains INCLUDE [ROOT]     prints the headers, a chain on each line; with ROOT
                                               those alone that its pages and examples include
    headers_alone.py parse INCLUDE FOLDER OUTPUT COMPILER HEADER...    parses one chain

In a chain each header includes the one before it, directly or not. So one compilation of a chain
shows each of its headers no more than that header alone would see, and takes the time of the last.
The form is the compiled one: in the other a header sees what the bodies include that the headers
before it end with.
A chain begins with the largest of the PRECOMPILED headers that its first header is or reaches and
would parse anyway. A header that does not reach detail/torch.hpp does not see LibTorch's folders,
so it fails if it uses LibTorch without an #include.
"""

import functools
import pathlib
import re
import subprocess
import sys

GATE = "ikebana/detail/torch.hpp"
OTHER_GATES = ("ikebana/detail/torch_bodies.hpp", "ikebana/detail/torch_optim.hpp",
               "ikebana/detail/torch_c10d.hpp", "ikebana/detail/torch_cuda_graph.hpp",
               "ikebana/detail/torch_profiler.hpp")
# Each includes the next; HeadersAlone.cmake precompiles them, or the last alone, in FOLDER.
PRECOMPILED = {"ikebana.hpp": "all.hpp", "ikebana/hooks.hpp": "hooks.hpp", GATE: "torch.hpp"}
OWN = re.compile(r'^#include [<"](ikebana[^>"]*)', re.M)
# The bodies of components are in the header in both forms.
BODIES = re.compile(r"^#ifndef IKEBANA_COMPILED\n(?:#include .*\n)+#endif\n"
                    r"|^#include <ikebana/\S+/impl/\w+\.ipp>\n", re.M)
FORBIDDEN = re.compile(r'^#include [<"](?:torch|ATen|c10)/.*', re.M)


class Headers:
    def __init__(self, include, root=None):
        self.include, self.root = pathlib.Path(include), root and pathlib.Path(root)

    @functools.cached_property
    def names(self):
        """Returns all headers, beginning with the ones that include the fewest, so that the
        small headers share chains and more of the other chains can begin with hooks.hpp
        precompiled."""
        found = [path.relative_to(self.include).as_posix() for path in self.include.rglob("*.hpp")]
        if self.root:
            public = self.included_by_users()
            found = [name for name in found if name in public or name.count("/") == 1]
        return sorted(found, key=lambda name: (len(self.reached(name)), name))

    def included_by_users(self):
        """Returns the headers that README, pages, examples and benchmarks include."""
        files = [self.root / "README.md", *(self.root / "docs").glob("*.md"),
                 *(path for folder in ("examples", "bench")
                   for path in (self.root / folder).rglob("*.[ch]pp"))]
        return {name for path in files for name in OWN.findall(path.read_text())}

    @functools.cache
    def reached(self, name):
        """Returns every header that `name` includes, directly or not."""
        if not (self.include / name).exists():
            return frozenset()  # the compiler reports it
        text = BODIES.sub("", (self.include / name).read_text())
        direct = OWN.findall(text)
        return frozenset(direct).union(*map(self.reached, direct))

    def follows(self, name, before):
        """Whether `name` may follow `before` in a chain; both with LibTorch, or both without."""
        alike = (GATE in self.reached(name)) == (GATE in self.reached(before))
        return before in self.reached(name) and alike and name not in PRECOMPILED

    def chains(self):
        """As few as there can be: each header gets at most one successor and one predecessor, by
        augmenting paths."""
        after, before = {}, {}

        def find(name, seen):
            for larger in self.names:
                if larger in seen or not self.follows(larger, name):
                    continue
                seen.add(larger)
                if larger not in before or find(before[larger], seen):
                    after[name], before[larger] = larger, name
                    return True
            return False

        for name in self.names:
            find(name, set())
        for name in self.names:
            if name not in before:
                chain = [name]
                while chain[-1] in after:
                    chain.append(after[chain[-1]])
                yield chain

    def split(self, chain):
        """Returns the chain in parts that are chains by what the files include now."""
        parts = [[chain[0]]]
        for name in chain[1:]:
            if self.follows(name, parts[-1][-1]):
                parts[-1].append(name)
            else:
                parts.append([name])
        return parts

    def parse(self, folder, output, compiler, *chain):
        """A failing header is named by the compiler's messages."""
        needed = []
        for part in self.split(chain):
            command = [compiler, f"@{folder}/flags"]
            if precompiled := self.precompiled(folder, part[0]):
                command += [f"@{folder}/torch_flags", "-include", precompiled]
            for name in part:
                command += ["-include", str(self.include / name)]
            command += ["-fsyntax-only", "-x", "c++", "/dev/null",
                        "-MMD", "-MF", f"{output}.d", "-MT", output]
            if subprocess.run(command).returncode:
                sys.exit(f"one of {', '.join(part)} does not compile alone, without warnings: "
                         "it must include what it uses")
            needed.append(pathlib.Path(f"{output}.d").read_text())
        pathlib.Path(f"{output}.d").write_text("".join(needed))
        pathlib.Path(output).touch()

    def precompiled(self, folder, name):
        """Returns the largest of the precompiled headers that `name` is or includes."""
        for header, file in PRECOMPILED.items():
            if header == name or header in self.reached(name):
                if pathlib.Path(folder, f"{file}.gch").exists():
                    return f"{folder}/{file}"
        return None

    def check_gate(self, *chain):
        for name in chain:
            found = FORBIDDEN.search((self.include / name).read_text())
            if found and name not in (GATE, *OTHER_GATES):
                sys.exit(f"{name} includes LibTorch by itself ({found[0]}): include <{GATE}>, "
                         "which keeps X11's and Qt's macros away")


what, include, *rest = sys.argv[1:]
headers = Headers(include, *(rest if what == "chains" else ()))
if what == "chains":
    for chain in headers.chains():
        print(*chain)
else:
    headers.check_gate(*rest[3:])
    headers.parse(*rest)
