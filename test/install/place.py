"""The tests of outside projects share a folder for each, a bare environment, and commands."""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

exported = ("CMakeLists.txt", "CMakePresets.json", "cmake", "include", "src", "conanfile.py",
            "test_package", "scripts", "LICENSE")


class Place:
    """The folders of one test: `folder` is new and empty; `prefix` has the installed package."""

    def __init__(self, tests):
        parser = argparse.ArgumentParser()
        parser.add_argument("test", choices=tests)
        for name in ("root", "build", "folder", "libtorch", "cmake", "generator", "cxx", "conan"):
            parser.add_argument(f"--{name}", required=True)
        parser.add_argument("--programs")
        given = parser.parse_args()
        self.test, self.cmake, self.conan = given.test, given.cmake, given.conan
        self.generator, self.cxx, self.libtorch = given.generator, given.cxx, given.libtorch
        self.programs = given.programs
        self.root, self.build = pathlib.Path(given.root), pathlib.Path(given.build)
        self.prefix = pathlib.Path(given.folder) / "moved prefix"
        self.folder = pathlib.Path(given.folder) / given.test
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.without_torch = self.fake_python("without_torch", "exit 1")

    def version(self):
        header = (self.root / "include/ikebana/detail/version.hpp").read_text()
        return ".".join(re.findall(r"define IKEBANA_VERSION_\w+ (\d+)", header))

    def fake_python(self, name, script):
        """Makes a folder for PATH whose python3 runs `script`."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        (folder / "python3").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "python3").chmod(0o755)
        return folder

    def environment(self, path=None, **more):
        """This process's environment without any LibTorch, and with a python3 that has none."""
        hidden = ("IKEBANA_LIBTORCH", "Torch_DIR", "CMAKE_PREFIX_PATH", "BOOST_ROOT")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        folders = [str(path or self.without_torch), os.path.dirname(self.cmake), kept["PATH"]]
        return {**kept, "CXX": self.cxx, "PATH": os.pathsep.join(folders), **more}

    def copy_tree(self, to):
        """Copies what the library needs of the tree, which has a LibTorch in .venv."""
        to.mkdir(parents=True)
        for name in exported:
            source = self.root / name
            if source.is_dir():
                shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("build"))
            elif source.exists():
                shutil.copy(source, to)

    def attempt(self, *command, env=None, cwd=None):
        """Exit status, output with each white space as one space, and output."""
        done = subprocess.run([str(word) for word in command], env=env or self.environment(),
                              cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, " ".join(done.stdout.split()), done.stdout

    def run(self, *command, env=None, cwd=None):
        status, _, output = self.attempt(*command, env=env, cwd=cwd)
        expect(status == 0, f"{' '.join(map(str, command))}\n{output}")
        return output

    def configure(self, project, *options, env=None, build="build"):
        return self.attempt(self.cmake, "-S", project, "-B", project / build, "-G", self.generator,
                            *options, env=env)


def expect(true, otherwise):
    if not true:
        sys.exit(f"FAILED: {otherwise}")
