#!/usr/bin/env python3
"""Makes a bundle by scripts/gpu-bundle, and configures and builds preset gpu from it where there is
no network, no Boost and no doctest: in namespaces of its own, over which empty folders are mounted.

Usage: bundle.py --root R --folder F --parity PROGRAM --libtorch L --cxx C --cmake C --generator G

Exits with 77 if the system permits no namespaces.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

NOT_RUN = 77
LIMIT = 30 << 20
FILES = "CMakeLists.txt", "CMakePresets.json"
FOLDERS = "cmake", "include", "src", "scripts", "test", "bench", "examples"
HEADERS = "boost/hana.hpp", "doctest/doctest.h"
PACKAGES = "/usr/lib/cmake/doctest", "/usr/lib/*/cmake/Boost-*", "/usr/lib/*/cmake/boost_headers-*"


def run(command, status=0, **options):
    """The output of a command that must end with `status`."""
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    if done.returncode != status:
        sys.exit(f"FAILED: {shlex.join(map(str, command))} ended with {done.returncode}\n"
                 f"{done.stdout}")
    return done.stdout


def expect(true, otherwise):
    if not true:
        sys.exit(f"FAILED: {otherwise}")


class Bare:
    """A machine without a network and what a bundle holds. Its python3 is one whose LibTorch is
    `libtorch`, which needs no import."""

    def __init__(self, given, folder):
        self.cxx, folder = given.cxx, pathlib.Path(folder)
        self.empty, bin = folder / "empty", folder / "bin"
        for new in self.empty, bin:
            new.mkdir()
        stub = bin / "python3"
        stub.write_text(f"""#!/bin/sh
case "$2" in *find_spec*) echo {shlex.quote(given.libtorch)} ;;
*) exec {shlex.quote(sys.executable)} "$@" ;; esac
""")
        stub.chmod(0o755)
        hidden = ("IKEBANA_LIBTORCH", "IKEBANA_GPU_BUNDLE", "IKEBANA_PYTHON", "BOOST_ROOT",
                  "Torch_DIR", "CMAKE_PREFIX_PATH", "CPLUS_INCLUDE_PATH")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        path = os.pathsep.join((str(bin), os.path.dirname(given.cmake), kept["PATH"]))
        self.environment = {**kept, "PATH": path, "CXX": given.cxx}
        mounts = [f"mount --bind {shlex.quote(str(self.empty))} {shlex.quote(str(place))}"
                  for place in self.places()]
        self.prefix = ["unshare", "-rmn", "sh", "-ec", "\n".join((*mounts, 'exec "$@"')), "sh"]

    def places(self):
        """The folders to hide."""
        for header in HEADERS:
            out = subprocess.run([self.cxx, "-M", "-x", "c++", "-"], text=True,
                                 input=f"#include <{header}>\n", capture_output=True).stdout
            found = [word for word in out.split() if word.endswith(f"/{header}")]
            yield from (pathlib.Path(word).parents[header.count("/") - 1] for word in found[:1])
        for pattern in PACKAGES:
            yield from pathlib.Path("/").glob(pattern[1:])

    def run(self, *command, status=0, cwd=None, **variables):
        return run([*self.prefix, *command], status, cwd=cwd,
                   env={**self.environment, **variables})

    def is_bare(self):
        for header in HEADERS:
            said = self.run("sh", "-c", f"echo '#include <{header}>' | {self.cxx} -E -x c++ -",
                            status=1)
            expect("No such file" in said or "not found" in said, said)
        routes = self.run("cat", "/proc/self/net/route")
        expect(len(routes.splitlines()) <= 1, f"there is a network:\n{routes}")


def bundle(given, folder):
    """Makes a bundle by the script, from what is installed. It refuses a folder that it did not
    make."""
    make = given.root / "scripts/gpu-bundle"
    env = {**os.environ, "CXX": given.cxx}
    (folder / "mine").mkdir()
    said = run([make, folder / "mine", given.parity], status=1, env=env)
    expect("exists and is not a bundle: name a new folder" in said, said)
    print(run([make, folder / "bundle.tar.gz", given.parity], env=env))
    made = folder / "bundle"
    size = sum(file.stat().st_size for file in made.rglob("*"))
    expect(size < LIMIT, f"the bundle has {size} bytes")
    for name in ("MANIFEST", "licences/boost.txt", "licences/doctest.txt"):
        expect((made / name).exists(), f"the bundle has no {name}")
    references = sorted(file.stem for file in made.glob("reference/*.safetensors"))
    expect({"gpt.fp32", "lstm.fp32", "resnet.sgd"} <= set(references), references)
    moved = folder / "moved"
    moved.mkdir()
    run(["tar", "-xzf", folder / "bundle.tar.gz", "-C", moved])
    shutil.rmtree(made)
    return moved / "bundle"


def refuses(bare, tree, configure):
    """Each of these is one sentence that says how a bundle is made."""
    said = bare.run("scripts/gpu", "test", "cpu", status=1, cwd=tree)
    expect("IKEBANA_GPU_BUNDLE is not set: make a bundle where there is a network" in said, said)
    for name in "none", "empty":
        place = bare.empty if name == "empty" else tree / "none"
        said = bare.run("scripts/gpu", "test", "cpu", status=1, cwd=tree,
                        IKEBANA_GPU_BUNDLE=str(place))
        expect("which holds no bundle (no MANIFEST): make a bundle" in said, said)
        said = bare.run(*configure, status=1, cwd=tree, IKEBANA_GPU_BUNDLE=str(place))
        said = " ".join(said.split())
        expect("has no MANIFEST: make a bundle where there is a network" in said, said)


def copied(root, tree):
    """Copies the source tree, without a LibTorch in .venv."""
    for name in FOLDERS:
        shutil.copytree(root / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(root / name, tree)
    return tree


def arguments():
    parser = argparse.ArgumentParser()
    for name in "root", "folder":
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    for name in "parity", "libtorch", "cxx", "cmake", "generator":
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args()


def main():
    given = arguments()
    namespaces = subprocess.run(["unshare", "-rmn", "true"], text=True, capture_output=True)
    if namespaces.returncode != 0:
        print(f"not run: this system permits no namespaces: {namespaces.stderr.strip()}")
        sys.exit(NOT_RUN)
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    bare = Bare(given, given.folder)
    bare.is_bare()
    made, tree = bundle(given, given.folder), copied(given.root, given.folder / "tree")
    configure = [given.cmake, "--preset", "gpu", "-G", given.generator, "-DIKEBANA_PYTHON=python3"]
    refuses(bare, tree, configure)
    said = bare.run(*configure, cwd=tree, IKEBANA_GPU_BUNDLE=str(made))
    expect(f"in {given.libtorch}" in said, said)
    bare.run(given.cmake, "--build", "--preset", "gpu", "--target", "gpu_bundle", cwd=tree)
    print(bare.run("build/gpu/test/gpu/gpu_bundle", cwd=tree))


if __name__ == "__main__":
    main()
