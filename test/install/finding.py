"""Where the source tree and the package search for LibTorch and Boost.

Usage: finding.py rules|refusals --root ... (see place.py)
"""

import itertools
import os

from place import Place, expect

ways = {
    "subdirectory": "add_subdirectory(ikebana)",
    "package": "find_package(ikebana 0.1 REQUIRED)",
}
version = "#define TORCH_VERSION_MAJOR {}\n#define TORCH_VERSION_MINOR {}\n"
numbers = itertools.count()


def fake_libtorch(folder, major=2, minor=11):
    """Makes a folder with the files by which LibTorch is recognized."""
    (folder / "share/cmake/Torch").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "lib/libtorch_cpu.so").touch()
    (folder / "include/torch/csrc/api/include").mkdir(parents=True)
    (folder / "include/torch/headeronly").mkdir()
    (folder / "include/torch/headeronly/version.h").write_text(version.format(major, minor))
    return folder


def ask(place, command, *options, env=None, project=None):
    """Configures a project of one command: a new one, or `project` again."""
    if project is None:
        project = place.folder / str(next(numbers))
        place.copy_tree(project / "ikebana")
    lines = ["cmake_minimum_required(VERSION 3.10)", "project(asks LANGUAGES NONE)", command,
             'message(STATUS "found: ${ikebana_FOUND}, ${ikebana_NOT_FOUND_MESSAGE}")']
    (project / "CMakeLists.txt").write_text("\n".join(lines) + "\n")
    package = place.prefix / "share/cmake/ikebana"
    return place.configure(project, f"-Dikebana_DIR={package}", *options, env=env)


def rule(place, way, names):
    """Names a different LibTorch by each of `names`, all at once: the first must be found."""
    project = place.folder / f"{way}_{len(names)}"
    place.copy_tree(project / "ikebana")
    asks = project / "ikebana" if way == "subdirectory" else project
    folders = {name: fake_libtorch(project / name.replace(" ", "_") / "torch") for name in names}
    venv = asks / ".venv/lib/python3.11/site-packages/torch"
    options, env, path = [], {}, None
    for name, folder in folders.items():
        value = folder / "share/cmake/Torch" if "Torch_DIR" in name else folder
        if name == ".venv":
            folders[name] = fake_libtorch(venv)
        elif name == "python3":
            path = place.fake_python(f"{way}_python_{len(names)}", f'echo "{folder}"')
        elif name == "IKEBANA_PYTHON":
            python = place.fake_python(f"{way}_named_{len(names)}", f'echo "{folder}"')
            options.append(f"-DIKEBANA_PYTHON={python}/python3")
        elif name == "IKEBANA_LIBTORCH":
            options.append(f"-D{name}={os.path.relpath(folder)}")
        elif name.startswith("env "):
            env[name.removeprefix("env ")] = str(value)
        else:
            options.append(f"-D{name}={value}")
    status, said, output = ask(place, ways[way], *options, project=project,
                               env=place.environment(path=path, **env))
    expected = f"in {folders[names[0]]} " if names else "ikebana: LibTorch was not found: set"
    expect(status == (0 if names else 1) and expected in said,
           f"{way}: {names[:1]} should stand first:\n{output}")


def rules(place):
    """The first of all places that are named is used; without it, the next."""
    order = ["IKEBANA_LIBTORCH", "env IKEBANA_LIBTORCH", "IKEBANA_PYTHON", "Torch_DIR",
             "env Torch_DIR", "CMAKE_PREFIX_PATH", "env CMAKE_PREFIX_PATH", ".venv", "python3"]
    for way in ways:
        for first in range(len(order) + 1):
            rule(place, way, order[first:])
    python_by_name(place)


def python_by_name(place):
    """The python3 of PATH, which IKEBANA_PYTHON names, comes before the wheel in .venv."""
    for way, command in ways.items():
        project = place.folder / f"{way}_by_name"
        place.copy_tree(project / "ikebana")
        asks = project / "ikebana" if way == "subdirectory" else project
        fake_libtorch(asks / ".venv/lib/python3.11/site-packages/torch")
        folder = fake_libtorch(project / "of_python/torch")
        path = place.fake_python(f"{way}_by_name_python", f'echo "{folder}"')
        status, said, output = ask(place, command, "-DIKEBANA_PYTHON=python3", project=project,
                                   env=place.environment(path=path))
        expect(status == 0 and f"in {folder} " in said, output)


def refusals(place):
    """Everything missing is one clear error, which ends only a build that needs the package."""
    empty, old = place.folder / "empty", fake_libtorch(place.folder / "old", 2, 7)
    good = f"-DIKEBANA_LIBTORCH={fake_libtorch(place.folder / 'good')}"
    empty.mkdir()
    no_boost = ("-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON", f"-DCMAKE_FIND_ROOT_PATH={empty}",
                "-DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY")
    lacks = {
        "LibTorch was not found: set IKEBANA_LIBTORCH, in CMake": (),
        "which holds no LibTorch: name the folder": (f"-DIKEBANA_LIBTORCH={empty}",),
        "which has no torch: name a Python": (f"-DIKEBANA_PYTHON={place.without_torch}/python3",),
        "is too old: use 2.8 or newer": (f"-DIKEBANA_LIBTORCH={old}",),
        "boost/hana.hpp was not found: install libboost-dev": (good, *no_boost),
    }
    for sentence, options in lacks.items():
        for way, command in ways.items():
            status, said, output = ask(place, command, *options)
            expect(status != 0 and said.count(sentence) == 1, f"{way}:\n{output}")
        status, said, output = ask(place, "find_package(ikebana 0.1 QUIET)", *options)
        expect(status == 0 and "found: 0, ikebana: " in said and sentence in said, output)
    torch_target(place)
    again(place)
    versions(place, good)
    components(place, good)


def torch_target(place):
    """A LibTorch that find_package(Torch) found is too old as well, or as good."""
    refused = "LibTorch 2.7.1 of the find_package(Torch) called before is too old: use 2.8"
    for number, answer in {"2.7.1": 1, "2.8.0": 0}.items():
        for command in ways.values():
            lines = ("add_library(torch INTERFACE IMPORTED)", f"set(Torch_VERSION {number})",
                     command)
            status, said, output = ask(place, "\n".join(lines))
            expect(status == answer and (refused in said) == bool(answer), output)


def again(place):
    """Tests that a LibTorch that is named after a first try is found, in the same build folder."""
    project = place.folder / "again"
    place.copy_tree(project / "ikebana")
    for command in ways.values():
        status, _, output = ask(place, command, project=project)
        expect(status != 0, output)
        env = place.environment(IKEBANA_LIBTORCH=str(place.folder / "good"))
        status, _, output = ask(place, command, env=env, project=project)
        expect(status == 0, output)
        (project / "build/CMakeCache.txt").unlink()


def versions(place, good):
    """0.1 is compatible with 0.1 only: before 1.0 a minor version may change what a name means."""
    for asked, answer in {"0.1": 0, "0.1.0": 0, "0.0": 1, "0.2": 1, "1.0": 1}.items():
        status, _, output = ask(place, f"find_package(ikebana {asked} REQUIRED)", good)
        expect(status == answer, f"asked for {asked}:\n{output}")


def components(place, good):
    for asked, answer in {"compiled": 0, "ikebana pch": 0, "cuda": 1}.items():
        command = f"find_package(ikebana REQUIRED COMPONENTS {asked})"
        status, said, output = ask(place, command, good)
        expect(status == answer and (answer == 0 or "no component cuda; there are" in said), output)
    for asked, hidden, sentence in (
            ("images tokenizer", "-Wdev", ""),
            ("images", "-DCMAKE_DISABLE_FIND_PACKAGE_JPEG=ON", "images needs libjpeg-turbo"),
            ("parquet", f"-DIKEBANA_ARROW={place.folder}", "parquet needs Arrow's C++ libraries")):
        command = f"enable_language(CXX)\nfind_package(ikebana REQUIRED COMPONENTS {asked})"
        status, said, output = ask(place, command, good, hidden)
        expect((status == 0) == (not sentence) and sentence in said, output)
    status, _, output = ask(place, "find_package(ikebana REQUIRED OPTIONAL_COMPONENTS cuda)", good)
    expect(status == 0, output)


tests = {"rules": rules, "refusals": refusals}
here = Place(tests)
tests[here.test](here)
