#!/usr/bin/env python3
"""What a file with the smallest recipe has to compile, counted in its object so that no machine's
speed matters: functions, and bytes of text without optimisation.

    weight.py FORM OBJECT    exits 1 if a count exceeds its limit
    weight.py self           the same on objects made here

A limit is what was counted when it was last lowered, and two in a hundred. If a change needs
more, raise it in the same commit and say why. If it needs less, lower it.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# By g++ 12.2 -O0 with LibTorch 2.11: functions, kB of text.
LIMITS = {"headers": (11160, 821), "compiled": (2670, 169)}


def counts(file):
    """Functions that the object defines, and their kB."""
    lines = subprocess.run(["nm", "-S", "--defined-only", file], capture_output=True, text=True,
                           check=True).stdout
    sizes = [int(size, 16) for size in re.findall(r"^\w+ (\w+) [tTwW] ", lines, re.M)]
    return len(sizes), sum(sizes) / 1000


def exceeded(form, found):
    for what, count, limit in zip(("functions", "kB of text"), found, LIMITS[form]):
        print(f"{form}: {count:.0f} {what}, limit {limit}")
        if count > limit:
            yield (f"the smallest recipe compiles {count:.0f} {what} in the form `{form}`, and "
                   f"{limit} are allowed: move what is no template out of the headers")


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder, "a.cpp"), pathlib.Path(folder, "a.o")
        source.write_text("int f() { return 1; }\ninline int g() { return 2; }\nint h() "
                          "{ return g(); }\nint i();\nint j = 3;\n")
        compiler = shutil.which("g++") or "c++"
        subprocess.run([compiler, "-c", source, "-o", out], check=True)
        functions, text = counts(out)
        assert functions == 3 and 0 < text < 1, (functions, text)
    assert len(list(exceeded("compiled", (10**6, 0)))) == 1
    assert not list(exceeded("compiled", (0, 0)))
    return 0


def main(form, file):
    wrong = list(exceeded(form, counts(file)))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1] == "self" else main(*sys.argv[1:]))
