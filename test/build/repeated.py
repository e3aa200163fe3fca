#!/usr/bin/env python3
"""Whether what several files repeat is the same in all of them: the version, the date of the
release, and the parts of the long tests.

    repeated.py ROOT         exits 1 and names each file that differs, or that no longer says it
    repeated.py self ROOT    the same on copies of these files with one thing changed each time
"""
import pathlib
import re
import shutil
import sys
import tempfile

HEADER = "include/ikebana/detail/version.hpp"  # CMake, Conan and pkg-config read it
CHANGES = "CHANGELOG.md"
# Each file with a pattern whose group is the version, and how much of the version that is.
FULL, MINOR = 3, 2
PLACES = [
    (CHANGES, r"^## (\d[\d.]*) \(", FULL),
    ("CITATION.cff", r"^version: (\S+)", FULL),
    ("packaging/vcpkg/ikebana/vcpkg.json", r'"version-semver": "([^"]+)"', FULL),
    ("README.md", r"find_package\(ikebana ([\d.]+)", MINOR),
    ("README.md", r"ikebana/\[~([\d.]+)\]", MINOR),
    ("docs/tutorial.md", r"find_package\(ikebana ([\d.]+)", MINOR),
    ("docs/tutorial.md", r"ikebana/\[~([\d.]+)\]", MINOR),
    ("examples/tutorial/CMakeLists.txt", r"find_package\(ikebana ([\d.]+)", MINOR),
    ("examples/tutorial/conanfile.txt", r"ikebana/\[~([\d.]+)\]", MINOR),
    ("test_package/CMakeLists.txt", r"find_package\(ikebana ([\d.]+)", MINOR),
    ("test/install/consumer/CMakeLists.txt", r"find_package\(ikebana ([\d.]+)", MINOR),
    ("test/install/finding.py", r"find_package\(ikebana ([\d.]+)", MINOR),
    ("test/install/finding.py", r'in \{"([\d.]+)": 0', MINOR),
]
READERS = "CMakeLists.txt", "conanfile.py", "docs/site/conf.py"  # they read it from the header
LONG, CHOICE = "scripts/long", ".github/workflows/long.yml"


def version_breaches(text):
    version = re.findall(r"define IKEBANA_VERSION_\w+ (\d+)", text(HEADER))
    for name, pattern, length in PLACES:
        found = re.findall(pattern, text(name), re.M)
        expected = ".".join(version[:length])
        for one in found[:1] if name == CHANGES else found:  # the newest that has a date
            if one != expected:
                yield f"{name}: {one} is not {expected}, the version of {HEADER}"
        if not found:
            yield f"{name}: nothing matches {pattern}"
    for name in READERS:
        if HEADER.split("/")[-1] not in text(name):
            yield f"{name}: it does not read {HEADER}"


def date_breaches(text):
    changed = re.search(r"^## \d[\d.]* \(([\d-]+)\)", text(CHANGES), re.M)
    cited = re.search(r"^date-released: (\S+)", text("CITATION.cff"), re.M)
    if not changed or not cited or changed[1] != cited[1]:
        yield f"CITATION.cff: date-released is not the date of the newest version in {CHANGES}"


def part_breaches(text):
    parts = re.search(r"^all=\(([^)]+)\)", text(LONG), re.M)[1].split()
    if re.findall(r"^ +- (\w+)$", text(CHOICE), re.M) != parts:
        yield f"{CHOICE}: its choices are not the parts of {LONG}: {' '.join(parts)}"


def breaches(root):
    def text(name):
        return (root / name).read_text()
    return [*version_breaches(text), *date_breaches(text), *part_breaches(text)]


def self_test(root):
    names = {name for name, *_ in PLACES} | {HEADER, *READERS, LONG, CHOICE}
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for name in names:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, copy / name)
        assert not breaches(copy)

        def after(name, old, new):
            text = (copy / name).read_text()
            (copy / name).write_text(re.sub(old, new, text, flags=re.M))
            found = {breach.split(":")[0] for breach in breaches(copy)}
            (copy / name).write_text(text)
            return found

        assert after(HEADER, r"MINOR \d+", "MINOR 77") == {name for name, *_ in PLACES}
        full = {name for name, _, length in PLACES if length == FULL}
        assert after(HEADER, r"PATCH \d+", "PATCH 77") == full
        for name, pattern, _ in PLACES:
            assert name in after(name, pattern, "")
        for name in READERS:
            assert after(name, "version.hpp", "other.hpp") == {name}
        assert after("CITATION.cff", "^date-released: .*", "date-released: 2001-01-01")
        assert after(CHOICE, "- soak", "- soaked") == {CHOICE}
    return 0


def main(arguments):
    if arguments[0] == "self":
        return self_test(pathlib.Path(arguments[1]))
    found = breaches(pathlib.Path(arguments[0]))
    print("\n".join(found) or "the version and the parts of the long tests are the same everywhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
