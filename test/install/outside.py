"""Projects outside the tree that use ikebana in each supported way, build a program and run it.

Usage: outside.py install|subdirectory|package|conan|target --root ... (see place.py)
"""

import os
import pathlib
import re
import shlex
import shutil

from place import Place, expect

quick = "-O0"  # debug information would take a third of the time


def install(place):
    """As in README, without LibTorch, and from the tests' own build; then the package is moved."""
    tree, first, second = place.folder / "tree", place.folder / "a prefix", place.folder / "second"
    place.copy_tree(tree)
    place.run(place.cmake, "--preset", "package", cwd=tree)
    for build, prefix in (tree / "build/package", first), (place.build, second):
        place.run(place.cmake, "--install", build, "--prefix", prefix)
        arrives(place, prefix)
    shutil.rmtree(place.prefix, ignore_errors=True)
    first.rename(place.prefix)


def arrives(place, prefix):
    """Every header is installed, and no file contains a path of the build."""
    headers = {path.relative_to(place.root) for path in (place.root / "include").rglob("*.*")}
    installed = {path.relative_to(prefix) for path in prefix.rglob("*") if path.is_file()}
    arrived = {path for path in installed if path.parts[0] == "include"}
    expect(headers == arrived, f"not what include/ holds: {sorted(headers ^ arrived)}")
    for folder in ("src", "src/components"):
        sources = sorted(path.name for path in (place.root / folder).glob("*.cpp"))
        installed_as = prefix / "share/cmake/ikebana" / folder.removeprefix("src/")
        arrived = sorted(path.name for path in installed_as.iterdir())
        expect(sources == arrived, f"not what {folder}/ holds: {arrived}")
    if (place.root / "LICENSE").exists():
        expect(any(path.name == "LICENSE" for path in installed), "no LICENSE was installed")
    for name in ("pth_to_safetensors.py", "gguf_to_safetensors.py", "export_program.py"):
        script = prefix / "share/ikebana/scripts" / name
        expect(os.access(script, os.X_OK), f"no {name} was installed, which errors name")
    for path in installed:
        text = (prefix / path).read_text()
        for folder in (place.root, place.build, place.folder, place.libtorch):
            found = re.search(rf"(?<![\w}}.-]){re.escape(str(folder))}\b", text)
            expect(not found, f"{path} holds {folder}, a path of this machine")


def project(place, way):
    folder = place.folder / way
    shutil.copytree(place.root / "test/install/consumer", folder)
    shutil.copy(place.root / "test_package/main.cpp", folder)
    place.copy_tree(folder / "ikebana")
    return folder


def build(place, way, *options):
    folder = project(place, way)
    status, _, output = place.configure(folder, f"-DWAY={way}", "-DCMAKE_BUILD_TYPE=Debug",
                                        f"-DCMAKE_CXX_FLAGS_DEBUG={quick}",
                                        f"-DCMAKE_PREFIX_PATH={place.prefix}", *options)
    expect(status == 0, output)
    place.run(place.cmake, "--build", folder / "build")
    place.run(folder / "build/brought")
    return folder


def trains(place, way, *options, libtorch=None):
    folder = build(place, way, f"-DIKEBANA_LIBTORCH={libtorch or place.libtorch}",
                   "-DTORCH_AS=folder", "-DBOOST_BEFORE=ON", *options)
    print(place.run(folder / "build/app"))


def as_zip(place):
    """A LibTorch for a CPU that lies as in the archives of pytorch.org, with the wheel's files."""
    folder, wheel = place.folder / "unpacked/libtorch", pathlib.Path(place.libtorch)
    (folder / "lib").mkdir(parents=True)
    for library in (*wheel.glob("lib/*"), *wheel.parent.glob("nvidia/*/lib/*.so*")):
        if not re.match(r"lib(torch|c10)_(cuda|nvshmem|python)|libtorch\.so", library.name):
            (folder / "lib" / library.name).symlink_to(library)
    for name in ("include", "share"):
        (folder / name).symlink_to(wheel / name)
    (folder / "build-version").write_text("2.11.0+cpu\n")
    return folder


def fastest(place):
    """Returns clang++ if it exists. It takes two thirds of g++'s time, and `subdirectory` tests
    g++."""
    return shutil.which("clang++") or place.cxx


def package(place):
    """With ikebana::pch, header-only, what several ranks need, and LibTorch as an archive has it;
    `outside_tutorial` compiles the library of a package."""
    trains(place, "package", "-DFORM=ikebana::ikebana", "-DWITH_RANKS=ON",
           f"-DCMAKE_CXX_COMPILER={fastest(place)}", libtorch=as_zip(place))
    place.run(place.folder / "package/build/ranks")
    place.run(place.folder / "package/build/parts")
    by_pkg_config(place)


def by_pkg_config(place):
    """Tests that the flags of ikebana.pc suffice for a program."""
    found = place.environment(PKG_CONFIG_PATH=str(place.prefix / "share/pkgconfig"))
    asked = ("pkg-config", f"--define-variable=libtorch={place.libtorch}", "ikebana")
    expect(place.run(*asked, "--modversion", env=found).strip() == place.version(), "other version")
    flags = [shlex.split(place.run(*asked, what, env=found)) for what in ("--cflags", "--libs")]
    program = place.folder / "small.cpp"
    program.write_text("#include <ikebana/loss.hpp>\n"
                       "int main() {\n"
                       "  return ikebana::Loss{at::ones({}), 1}.sum.item<float>() == 1 ? 0 : 1;\n"
                       "}\n")
    place.run(place.cxx, *flags[0], "-O0", program, "-o", place.folder / "small", *flags[1])
    place.run(place.folder / "small")


def target(place):
    """After the consumer's own find_package(Torch), its LibTorch is the one that is used."""
    for way in ("subdirectory", "package", "fetch"):
        build(place, way, "-DTORCH_AS=target")


def conan(place):
    """The package is created without LibTorch or a network, and test_package names what is missing.
    With LibTorch it trains; in a thorough test with the compiled library in it, which
    `outside_tutorial` compiles, too."""
    expect(os.path.exists(place.conan), "conan was not found: `scripts/setup test` installs it")
    tree = place.folder / "tree"
    place.copy_tree(tree)
    env = place.environment(CONAN_HOME=str(place.folder / "home"), CXX=fastest(place))
    place.run(place.conan, "profile", "detect", env=env)
    place.run(place.conan, "remote", "disable", "*", env=env)
    with open(place.folder / "home/profiles/default", "a") as profile:
        profile.write("\n[options]\nikebana/*:boost_from=system\n")  # there is no network
    create = (place.conan, "create", ".", "-s", "build_type=Debug", "-s", "compiler.cppstd=20")
    status, said, output = place.attempt(*create, env=env, cwd=tree)
    expect("Full package reference: ikebana/" in said, f"no package was made:\n{output}")
    expect(status != 0 and "ikebana: LibTorch was not found: set IKEBANA_LIBTORCH" in said, output)
    compiled = "IKEBANA_TEST_THOROUGH" in os.environ
    variables = {"IKEBANA_LIBTORCH": place.libtorch, "CMAKE_CXX_FLAGS_DEBUG": quick,
                 "CMAKE_UNITY_BUILD": "ON", "CMAKE_UNITY_BUILD_BATCH_SIZE": "5"}
    options = ("-o", f"&:header_only={not compiled}",
               "-c", f"tools.cmake.cmaketoolchain:extra_variables={variables}")
    with_torch = {**env, "IKEBANA_LIBTORCH": place.libtorch}
    status, said, output = place.attempt(*create, *options, env=with_torch, cwd=tree)
    expect(status == 0 and "step 199 loss" in said, output)
    expect(("libikebana.a" in said) == compiled, f"not the form that was asked for:\n{output}")
    print(output)
    tutorial_by_conan(place, env)


def tutorial_by_conan(place, env):
    """The commands of docs/tutorial.md find the package for its project; it is not built again."""
    folder = place.folder / "digits"
    shutil.copytree(place.root / "examples/tutorial", folder)
    page = (place.root / "docs/tutorial.md").read_text()
    for command in ("conan install . --output-folder=build/conan -s compiler.cppstd=20",
                    "cmake -S . -B build/conan -DCMAKE_TOOLCHAIN_FILE=conan_toolchain.cmake "
                    "-DCMAKE_BUILD_TYPE=Release"):
        expect(f"\n{command}\n" in page, f"docs/tutorial.md has another command than {command}")
        words = [{"conan": place.conan, "cmake": place.cmake}.get(word, word)
                 for word in command.split()]
        place.run(*words, env={**env, "IKEBANA_LIBTORCH": place.libtorch}, cwd=folder)


tests = {
    "install": install,
    "subdirectory": lambda place: trains(place, "subdirectory", "-DFORM=ikebana::ikebana"),
    "package": package,
    "target": target,
    "conan": conan,
}
here = Place(tests)
tests[here.test](here)
