"""The examples of the reference: regions of test/docs/reference/*.cpp, which are compiled and run.

A region goes from a line `// example: AdamW` to a line `// end`, and is shown under each of the
names in its first line: `// example: pad, PadOptions`, or of members, `// example: Trainer::fit`.
"""

import pathlib
import re
import textwrap

REGION = re.compile(r"^ *// example: (.+)\n((?:.*\n)*?) *// end$", re.M)
BEGIN = re.compile(r"^ *// (?:example:|end$)", re.M)


def names_of(line):
    """The names of a region; a comma within <> separates nothing."""
    return [name.strip() for name in re.split(r",(?![^<]*>)", line)]


def read(folder):
    """{name: [(code, file's name), ...]} of all files, and what is wrong with their marks."""
    found, wrong = {}, []
    for path in sorted(pathlib.Path(folder).glob("*.cpp")):
        text = path.read_text()
        regions = [*REGION.finditer(text)]
        if len(BEGIN.findall(text)) != 2 * len(regions):
            wrong.append(f"{path.name}: a region has no `// example: names` or no `// end`")
        for region in regions:
            for name in names_of(region[1]):
                code = textwrap.dedent(region[2]).strip("\n")
                found.setdefault(name, []).append((code, path.name))
    return found, wrong
