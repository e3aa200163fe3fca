#!/usr/bin/env python3
"""Which folder may include which: the diagram of docs/architecture.md, held against the headers.

    includes.py ROOT    exits 1 and names each include that the diagram does not allow
    includes.py self    the same on headers made here: every wrong include is found

In the diagram an arrow means "includes", also what is reached through further arrows. A label
begins with the folders and the files of include/ikebana/ that it stands for.
"""
import pathlib
import re
import sys

GATE = "ikebana/detail/torch.hpp"
TORCH = r"torch/|ATen/|c10/|caffe2/|oneapi/dnnl/|nvtx3/"
STANDARD = r"\w+$"
SYSTEM = (r"(?:cpuid|cxxabi|dirent|dlfcn|execinfo|fcntl|fnmatch|malloc|netdb|netinet/in|"
          r"poll|pthread|sched|signal|unistd|sys/\w+)\.h$")
VECTORS = r"[esw]mmintrin\.h$"
# Beyond the diagram: what only one folder may include, and what a folder may not although it could.
ONLY_IN = {TORCH: r"ikebana/detail/torch(?:_bodies|_optim|_c10d|_cuda_graph|_profiler)?\.hpp$",
           r"boost/hana": r"ikebana/grammar/",
           r"(?:jerror|jpeglib|png|zlib)\.h$": r"ikebana/images/impl/",
           r"pcre2\.h$": r"ikebana/tokenizer/impl/",
           r"(?:arrow|parquet)/": r"ikebana/parquet/impl/",
           SYSTEM: r"ikebana/posix/", VECTORS: r"ikebana/(?:state|detail)/"}
AXES = (r"ikebana/(?:bridge/|detail/|error|fake/|hooks|model/|ranks/|run/|"
        r"state/archive|posix/)")
# The bodies of components are not in the compiled form: each program that links one has them.
COMPONENTS = r"ikebana/(?:images|tokenizer|parquet)/"
# Not part of ikebana.hpp: each is usable alone, and no policy of ikebana.hpp needs it.
ALONE = (r"ikebana/(?:(?:modules|bridge|capture|fake|loggers|shard|estimate|memory|metrics|"
         r"pieces|profiling|program|files|samplers|streams|images|tokenizer|parquet)/|"
         r"(?:capture|loggers|shard|estimate|memory|metrics|observe|pieces|profiling|program|"
         r"data|samplers|images|tokenizer|parquet)\.hpp|"
         r"detail/exporting|detail/widen|observe/(?!memory)|"
         r"optimizer/libtorch(?:_|/)|detail/torch_(?:optim|c10d|cuda_graph|profiler)|"
         r"state/files/zip_|"
         r"posix/(?:child|file_map|process_use|process_identity|signal_pipe|sigpipe|"
         r"sockets|stack_trace))")


def header_of(file):
    """The header whose bodies impl/NAME.ipp has; a header itself."""
    return re.sub(r"impl/(\w+)\.ipp$", r"\1.hpp", file)


def place(header):
    """What a header counts as in the diagram: its folder, or its own name."""
    parts = header_of(header).removeprefix("ikebana/").split("/")
    return parts[0] + "/" if len(parts) > 1 else parts[0]


class Diagram:
    """Returns the nodes and the arrows of the mermaid flowchart under "## Which folder"."""

    def __init__(self, text):
        chart = re.search(r"## Which folder.*?```mermaid\n(.*?)```", text, re.S)[1]
        self.node, self.arrows = {}, {}
        for name, label in re.findall(r'^ *(\w+)\["([^"]+)"\]', chart, re.M):
            for item in label.split("<br/>")[0].split():
                self.node[item] = name
        for line in re.findall(r"^ *(\w+(?: *--> *\w+)+) *$", chart, re.M):
            names = re.split(r" *--> *", line)
            for upper, lower in zip(names, names[1:]):
                self.arrows.setdefault(upper, set()).add(lower)

    def below(self, name, seen=None):
        seen = set() if seen is None else seen
        for lower in self.arrows.get(name, ()):
            if lower not in seen:
                seen.add(lower)
                self.below(lower, seen)
        return seen

    def allows(self, header, included):
        upper, lower = self.node.get(place(header)), self.node.get(place(included))
        if upper is None or lower is None:
            return False
        same = upper == lower and ("/" not in place(header) or place(header) == place(included))
        if upper == "axes" and lower != upper and not re.match(AXES, included):
            return False
        return same or lower in self.below(upper)

    def cycles(self):
        return [name for name in self.arrows if name in self.below(name)]


def may_include(diagram, header, included):
    for pattern, where in ONLY_IN.items():
        if re.match(pattern, included):
            return re.match(where, header) is not None
    if re.match(r"ikebana/detail/macros_(?:aside|back)\.inc$", included):
        return True
    if included.startswith("ikebana"):
        return diagram.allows(header, included)
    return re.match(STANDARD, included) is not None


def reached(includes, header, seen):
    if header not in seen:
        seen.add(header)
        for included in includes.get(header, ()):
            reached(includes, included, seen)
    return seen


def circle(includes, header, path=()):
    """A header that includes itself in the end, as the path that leads there. Bodies include the
    header that ends with them, of which they need no more than what stands before them."""
    if header in path:
        return [*path[path.index(header):], header]
    found = (circle(includes, i, (*path, header)) for i in includes.get(header, ())
             if not header.endswith(".ipp") or header not in includes.get(i, ()))
    return next((path for path in found if path), None)


def breaches(diagram, includes, moved=frozenset()):
    for name in diagram.cycles():
        yield f"the diagram's arrows lead from {name} back to it"
    for header in sorted(includes):
        if header in moved:  # it may be below what it includes
            continue
        if place(header) not in diagram.node:
            yield f"{header} is in no node of the diagram"
            continue
        for included in includes[header]:
            if not may_include(diagram, header, included):
                yield f"{header} must not include {included}"
    everything = reached(includes, "ikebana.hpp", set())
    for header in sorted(set(includes) - everything - set(moved)):
        if not re.match(ALONE, header_of(header)):
            yield f"{header} is not reached from ikebana.hpp"
    if path := circle(includes, "ikebana.hpp"):
        yield f"in a circle: {' includes '.join(path)}"
    for header in sorted(reached(includes, "ikebana/checks/policies.hpp", set())):
        if header.startswith("ikebana/") and not re.match(
                r"ikebana/(?:grammar/|checks/policies|detail/macros)", header):
            yield f"checks/policies.hpp must be free of LibTorch, and reaches {header}"


def includes_of(folder):
    files = [f for f in folder.rglob("*") if f.suffix in (".hpp", ".inc", ".ipp")]
    find = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.M)
    return {f.relative_to(folder).as_posix(): find.findall(f.read_text()) for f in files}


MOVED = re.compile(r"#pragma once\n// This header has moved to ([^\n]*)\.\s(?:// )?Version 0\.2 "
                   r"removes this one\.\n((?:#include <ikebana/[^>]+>\n)+)")


def moved_headers(folder):
    """Headers that include the ones to which their contents have moved, as their texts."""
    texts = {f.relative_to(folder).as_posix(): f.read_text() for f in folder.rglob("*.hpp")}
    return {name: text for name, text in texts.items() if "// This header has moved" in text}


def wrong_forwarders(moved, version):
    """Forwarding headers that do not name the new one, or have outlived their version."""
    for name, text in sorted(moved.items()):
        match = MOVED.fullmatch(text)
        if not match or match[1].split(" and ") != re.findall(r"<ikebana/(.*)>", match[2]):
            yield f"{name} forwards and does not name the header that it includes, and no more"
        if version >= 200:
            yield f"{name} forwards, and version 0.2 removes it"


def version_of(include):
    text = (include / "ikebana/detail/version.hpp").read_text()
    numbers = re.findall(r"#define IKEBANA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text)
    major, minor, patch = map(int, numbers)
    return major * 10000 + minor * 100 + patch


def uncompiled(root):
    """Bodies that the compiled form lacks, or has twice."""
    sources = "".join(f.read_text() for f in sorted((root / "src").glob("*.cpp")))
    for file in sorted((root / "include").rglob("*.ipp")):
        name = file.relative_to(root / "include").as_posix()
        if re.match(COMPONENTS, name):
            continue
        count = sources.count(f"#include <{name}>\n")
        if count != 1:
            yield f"{count} files of src/ include {name}, and one must"


def check(root):
    includes = includes_of(root / "include")
    diagram = Diagram((root / "docs" / "architecture.md").read_text())
    moved = moved_headers(root / "include")
    wrong = [*breaches(diagram, includes, moved), *uncompiled(root),
             *wrong_forwarders(moved, version_of(root / "include"))]
    print("\n".join(wrong) or f"{len(includes)} headers include what they may")
    return 1 if wrong or len(includes) < 50 or len(diagram.node) < 20 else 0


CHART = '''## Which folder may include which

```mermaid
flowchart TD
  all["ikebana.hpp"]
  step["step.hpp"]
  core["core/"]
  axes["clip/ precision/<br/>one folder per axis"]
  hooks["hooks.hpp"]
  bridge["bridge/"]
  detail["detail/ error.hpp"]
  grammar["grammar/<br/>free of LibTorch"]
  all --> step --> core --> hooks --> bridge --> detail
  all --> axes --> hooks --> grammar
```
'''


def check_forwarders():
    text = "#pragma once\n// This header has moved to a.hpp. Version 0.2 removes this one.\n"
    for forwarder, version, wrong in ((text + "#include <ikebana/a.hpp>\n", 100, 0),
                                      (text + "#include <ikebana/b.hpp>\n", 100, 1),
                                      (text.replace(" to a.hpp", ""), 100, 1),
                                      (text + "#include <ikebana/a.hpp>\nint a;\n", 100, 1),
                                      (text + "#include <ikebana/a.hpp>\n", 200, 1)):
        assert len(list(wrong_forwarders({"old.hpp": forwarder}, version))) == wrong, forwarder


def self_test():
    diagram = Diagram(CHART)
    everything = {"ikebana.hpp": ["ikebana/clip/a.hpp"], "ikebana/clip/a.hpp": []}
    assert not list(breaches(diagram, everything))
    wrong = (("clip/a.hpp", "ikebana/precision/fp32.hpp"), ("clip/a.hpp", "ikebana/step.hpp"),
             ("clip/a.hpp", "torch/torch.h"), ("clip/a.hpp", "boost/hana.hpp"),
             ("clip/a.hpp", "ikebana/core/core.hpp"), ("clip/a.hpp", "ikebana/nowhere/a.hpp"),
             ("clip/a.hpp", "ikebana/grammar/a.hpp"), ("grammar/a.hpp", "c10/core/Device.h"),
             ("grammar/a.hpp", "ikebana/hooks.hpp"), ("grammar/a.hpp", GATE),
             ("bridge/a.hpp", "ikebana/hooks.hpp"), ("bridge/a.hpp", "unistd.h"),
             ("detail/a.hpp", "ikebana/bridge/a.hpp"), ("core/a.hpp", "ikebana/step.hpp"),
             ("step.hpp", "ATen/ATen.h"), ("hooks.hpp", "emmintrin.h"), ("clip/a.hpp", "poll.h"))
    for header, included in wrong:
        assert not may_include(diagram, f"ikebana/{header}", included), (header, included)
    for header, included in (("clip/a.hpp", "ikebana/hooks.hpp"), ("clip/a.hpp", "vector"),
                             ("clip/a.hpp", "ikebana/clip/b.hpp"), ("detail/torch.hpp", "c10/a.h"),
                             ("grammar/a.hpp", "boost/hana/tuple.hpp"),
                             ("grammar/a.hpp", "ikebana/detail/macros_aside.inc"),
                             ("step.hpp", "ikebana/core/totals.hpp"), ("posix/a.hpp", "unistd.h"),
                             ("step.hpp", "ikebana/detail/text.hpp")):
        assert may_include(diagram, f"ikebana/{header}", included), (header, included)
    lost = {**everything, "ikebana/clip/b.hpp": []}
    assert list(breaches(diagram, lost)) == ["ikebana/clip/b.hpp is not reached from ikebana.hpp"]
    around = {**lost, "ikebana/clip/a.hpp": ["ikebana/clip/b.hpp"],
              "ikebana/clip/b.hpp": ["ikebana/clip/a.hpp"]}
    assert "circle" in "".join(breaches(diagram, around))
    upward = Diagram(CHART.replace("all --> axes", "detail --> core\n  all --> axes"))
    assert "back to it" in "".join(breaches(upward, everything))
    moved = {**everything, "ikebana/detail/a.hpp": ["ikebana/clip/a.hpp"]}
    assert not list(breaches(diagram, moved, {"ikebana/detail/a.hpp": ""}))
    assert list(breaches(diagram, moved))
    tainted = {**everything, "ikebana/checks/policies.hpp": ["ikebana/hooks.hpp"]}
    assert "free of LibTorch" in "".join(breaches(diagram, tainted))
    check_forwarders()
    return 0


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1] == "self" else check(pathlib.Path(sys.argv[1])))
