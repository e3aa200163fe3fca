#!/usr/bin/env python3
"""Which folder may know which: the tree of docs/architecture.md, held against the headers.

    includes.py ROOT    exits 1 and names each include that the house does not allow
    includes.py self    the same on headers made here: every wrong include is found
"""
import pathlib
import re
import sys

GATE = "ikebana/detail/torch.hpp"
TORCH = r"torch/|ATen/|c10/|caffe2/"
MACROS = r"ikebana/detail/macros_(?:aside|back)\.inc$"
STANDARD = r"\w+$"
SYSTEM = (r"(?:dlfcn|fcntl|fnmatch|signal|unistd|[esw]mmintrin"
          r"|sys/(?:file|ioctl|mman|stat))\.h$")

# What a folder may include besides the standard library and itself. An axis folder is one that is
# not named here: it knows the hooks and the ground below them, and no other axis.
GROUND = rf"{SYSTEM}|ikebana/(?:bridge|detail)/|ikebana/error\.hpp$"
MAY_INCLUDE = {
    "grammar": rf"boost/hana|{MACROS}",
    "bridge": rf"{SYSTEM}|{GATE}$|ikebana/error\.hpp$",
    "modules": rf"{GATE}$|ikebana/(?:error|loss)\.hpp$|ikebana/bridge/",
    "state": rf"{GROUND}|ikebana/model\.hpp$",
    "data": rf"{GROUND}|ikebana/(?:batch|grammar/refuse_data|state/archive)\.hpp$",
    "detail": rf"{GROUND}|ikebana/[^/]*$|ikebana/(?:grammar|state)/",
    "parameters": rf"{GROUND}|ikebana/hooks\.hpp$",
}
AXIS = rf"{GROUND}|ikebana/(?:hooks|run|parameters/rule|state/archive)\.hpp$"
# Not part of ikebana.hpp: usable alone, and nothing of a recipe needs them.
ALONE = r"ikebana/(?:modules|bridge)/"


def may_include(header, included):
    folder = header.split("/")[1] if header.count("/") == 2 else ""
    if header == GATE or re.match(STANDARD, included):
        return True
    if re.match(TORCH, included):
        return False
    if folder == "":  # a page of the house may include everything but LibTorch
        return re.match(rf"ikebana/|{SYSTEM}", included) is not None
    own = rf"ikebana/{folder}/"
    return re.match(rf"{own}|{MAY_INCLUDE.get(folder, AXIS)}", included) is not None


def reached(includes, header, seen):
    if header not in seen:
        seen.add(header)
        for included in includes.get(header, ()):
            reached(includes, included, seen)
    return seen


def circle(includes, header, path=()):
    """A header that includes itself in the end, as the path that leads there."""
    if header in path:
        return [*path[path.index(header):], header]
    found = (circle(includes, i, (*path, header)) for i in includes.get(header, ()))
    return next((path for path in found if path), None)


def breaches(includes):
    for header in sorted(includes):
        for included in includes[header]:
            if not may_include(header, included):
                yield f"{header} must not include {included}"
    everything = reached(includes, "ikebana.hpp", set())
    for header in sorted(set(includes) - everything):
        if not re.match(ALONE, header):
            yield f"{header} is not reached from ikebana.hpp"
    if path := circle(includes, "ikebana.hpp"):
        yield f"in a circle: {' includes '.join(path)}"


def includes_of(folder):
    files = [f for f in folder.rglob("*") if f.suffix in (".hpp", ".inc")]
    find = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.M)
    return {f.relative_to(folder).as_posix(): find.findall(f.read_text()) for f in files}


def judge(root):
    includes = includes_of(root / "include")
    wrong = list(breaches(includes))
    print("\n".join(wrong) or f"{len(includes)} headers include what they may")
    return 1 if wrong or len(includes) < 50 else 0


def self_test():
    everything = {"ikebana.hpp": ["ikebana/clip/a.hpp"], "ikebana/clip/a.hpp": []}
    assert not list(breaches(everything))
    wrong = (("clip/a.hpp", "ikebana/precision/fp32.hpp"), ("clip/a.hpp", "ikebana/step.hpp"),
             ("clip/a.hpp", "torch/torch.h"), ("clip/a.hpp", "boost/hana.hpp"),
             ("grammar/a.hpp", "c10/core/Device.h"), ("grammar/a.hpp", "ikebana/hooks.hpp"),
             ("grammar/a.hpp", GATE), ("bridge/a.hpp", "ikebana/hooks.hpp"),
             ("bridge/a.hpp", "ikebana/clip/a.hpp"), ("detail/a.hpp", "ikebana/clip/a.hpp"),
             ("modules/a.hpp", "ikebana/trainer.hpp"), ("parameters/a.hpp", "ikebana/core/core.hpp"),
             ("step.hpp", "ATen/ATen.h"))
    for header, included in wrong:
        assert not may_include(f"ikebana/{header}", included), (header, included)
    for header, included in (("clip/a.hpp", "ikebana/hooks.hpp"), ("clip/a.hpp", "vector"),
                             ("clip/a.hpp", "ikebana/clip/b.hpp"), ("detail/torch.hpp", "c10/a.h"),
                             ("grammar/a.hpp", "boost/hana/tuple.hpp"),
                             ("step.hpp", "ikebana/core/totals.hpp")):
        assert may_include(f"ikebana/{header}", included), (header, included)
    lost = {**everything, "ikebana/clip/b.hpp": []}
    assert list(breaches(lost)) == ["ikebana/clip/b.hpp is not reached from ikebana.hpp"]
    round_about = {**lost, "ikebana/clip/a.hpp": ["ikebana/clip/b.hpp"],
                   "ikebana/clip/b.hpp": ["ikebana/clip/a.hpp"]}
    assert "circle" in "".join(breaches(round_about))
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1] == "self" else judge(pathlib.Path(sys.argv[1])))
