"""Python's torch reads the snapshots and pages that a history of memory writes.

    snapshots.py TESTS    runs the case of the program TESTS that writes them, and compares
    snapshots.py self     the same on damaged ones: every difference is found
"""

import ast
import contextlib
import copy
import inspect
import io
import json
import os
import pathlib
import pickle
import pickletools
import re
import subprocess
import sys
import tempfile

from torch.cuda import _memory_viz as viz

sys.dont_write_bytecode = True  # into the source tree
from fields import BLOCK, ENTRY, FRAME, OOM, SEGMENT, SNAPSHOT, of_python, shapes  # noqa: E402


def read_by_viz():
    """The names of the fields that _memory_viz.py reads of snapshots."""
    readers = (viz._frame_fmt, viz._frames_fmt, viz._block_extra, viz._write_blocks, viz.segments,
               viz.memory, viz.compare, viz.calc_active, viz.segsum, viz.trace)
    for reader in readers:
        for node in ast.walk(ast.parse(inspect.getsource(reader))):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) \
                    and isinstance(node.slice.value, str):
                yield node.slice.value


def sums(snapshot, expected):
    """Checks that the bytes are the bytes of the counters."""
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    in_use = sum(block["requested_size"] for block in blocks)
    if in_use != expected["in_use"]:
        yield f"blocks of {in_use} bytes, and {expected['in_use']} are in use"
    if any(block["state"] != "active_allocated" for block in blocks):
        yield "a block is not allocated"
    kinds = {}
    for block in blocks:
        kind = block["frames"][0]["name"].split(" of ")[0]
        kinds[kind] = kinds.get(kind, 0) + block["requested_size"]
    before = kinds.pop("allocated before the history", 0)
    if kinds != expected["kinds"] or before != expected["before"]:
        yield f"kinds {kinds}, {before} before, and they are {expected}"
    entries, = snapshot["device_traces"]
    there, peak, now = {}, 0, expected["before"]
    for entry in entries:
        if entry["action"] == "alloc":
            there[entry["addr"]] = entry["size"]
            now += entry["size"]
        elif entry["action"] == "free_completed" and there.pop(entry["addr"], None):
            now -= entry["size"]
        peak = max(peak, now)
    if (now, peak) != (expected["in_use"], expected["peak"]):
        yield f"the trace ends with {now} bytes after a peak of {peak}, not {expected}"
    counts = [sum(entry["action"] == action for entry in entries)
              for action in ("free_requested", "free_completed", "oom")]
    if counts[0] != counts[1] or len(entries) - counts[0] != expected["events"] or not counts[2]:
        yield f"{len(entries)} entries with {counts} frees and refusals, not {expected}"


def of_viz(snapshot, expected):
    """What the functions of _memory_viz.py say."""
    known = {*SNAPSHOT, *SEGMENT, *BLOCK, *ENTRY, *OOM, *FRAME}
    legacy = {"history", "real_size"}  # it is read if the other fields are missing
    if missing := set(read_by_viz()) - known - legacy:
        yield f"_memory_viz reads {missing}"
    lines = viz.memory(snapshot, format_flamegraph=str).splitlines()
    total = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
    if total != expected["in_use"]:
        yield f"a flame graph of {total} bytes"
    if len(viz.segments(snapshot, format_flamegraph=str).splitlines()) != len(lines):
        yield "a flame graph of segments with other blocks"
    with contextlib.redirect_stdout(io.StringIO()) as said:
        viz.compare(snapshot["segments"][1:], snapshot["segments"], format_flamegraph=str)
    if f"only_after = [{snapshot['segments'][0]['address']}]" not in said.getvalue():
        yield f"a comparison says {said.getvalue()}"
    frames = {frame["name"] for trace in snapshot["device_traces"] for entry in trace
              for frame in entry["frames"]}
    if missing := {"activation of block0", "gradient of block1", "forward", "block1", "step 1",
                   "training <1>"} - frames:
        yield f"no frame says {missing}"


def commands(file, snapshot, expected):
    """Runs `python -m torch.cuda._memory_viz stats` and `trace`."""
    def run(action):
        done = subprocess.run([sys.executable, "-W", "ignore", "-m", "torch.cuda._memory_viz",
                               action, str(file)], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else f"failed: {done.stderr}"
    size, stats, trace = viz.Bytes(expected["in_use"]), run("stats"), run("trace")
    for line in (f"segments: {len(snapshot['segments'])}", f"total_reserved: {size}",
                 f"total_allocated: {size}", "total_free: 0.0B"):
        if f"\n{line}\n" not in stats:
            yield f"stats does not say `{line}`: {stats[:500]}"
    entries = f"{len(snapshot['device_traces'][0])} entries"
    if entries not in trace or "OutOfMemoryError" not in trace:
        yield f"trace says {trace[:500]}"


def of_page(page, expected):
    """The data of an HTML page, and that it needs no network."""
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1]
    data = json.loads(text)
    changes = [0] * (len(data["times"]) + 1)
    for size, first, last, *names in data["spans"]:
        changes[first + 1] += size
        if last >= 0:
            changes[last + 1] -= size
        for index, field in zip(names, ("kinds", "units", "phases", "labels"), strict=True):
            data[field][index]
    now = peak = 0
    for change in changes:
        now, peak = now + change, max(peak, now + change)
    if (now, peak, len(data["times"])) != \
            tuple(expected[name] for name in ("in_use", "peak", "events")):
        yield f"the page ends with {now} bytes after a peak of {peak}, not {expected}"
    if not {"activation", "gradient", "parameter", "optimizer state"} < set(data["kinds"]) or \
            "block1" not in data["units"] or "step 1 < training <1>" not in data["labels"]:
        yield f"the page has kinds {data['kinds']}, units {data['units']}, labels {data['labels']}"
    if found := re.search(r"https?:|src=|href=|@import|fetch\(|XMLHttp|WebSocket", page):
        yield f"the page has `{found.group()}`"


def differences(folder):
    expected = json.loads((folder / "expected.json").read_text())
    raw = (folder / "snapshot.pickle").read_bytes()
    wrong = {code.name for code, _, _ in pickletools.genops(raw)} & {"GLOBAL", "REDUCE", "BUILD"}
    if wrong:
        yield f"the pickle has {wrong}"
    snapshot = pickle.loads(raw)
    for check in shapes, sums, of_viz:
        yield from check(snapshot, expected) if check is not shapes else check(snapshot)
    yield from commands(folder / "snapshot.pickle", snapshot, expected)
    yield from of_page((folder / "page.html").read_text(), expected)


def run(tests):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([tests, "-tc=memory snapshot: files for Python"],
                              env=os.environ | {"IKEBANA_MEMORY_FILES": folder})
        if done.returncode:
            sys.exit(f"{tests} failed, so there is nothing to read")
        wrong = list(differences(pathlib.Path(folder)))
    sys.exit("\n".join(wrong) or 0)


def made():
    """Returns a snapshot of one block, and what is to be found in it."""
    frames = [{"name": "activation of block0", "filename": "kind", "line": 0}]
    entry = {"action": "alloc", "addr": 8, "size": 4, "stream": 0, "time_us": 1,
             "compile_context": "N/A", "user_metadata": "", "frames": frames}
    block = {"address": 8, "size": 4, "requested_size": 4, "state": "active_allocated",
             "frames": frames}
    segment = {"device": 0, "address": 8, "total_size": 4, "allocated_size": 4, "active_size": 4,
               "requested_size": 4, "stream": 0, "segment_type": "small",
               "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": [block]}
    refused = {"device_free" if name == "addr" else name: value for name, value in entry.items()}
    snapshot = {"segments": [segment], "allocator_settings": {}, "external_annotations": [],
                "device_traces": [[entry, refused | {"action": "oom"}]]}
    expected = {"in_use": 4, "peak": 4, "before": 0, "events": 2, "kinds": {"activation": 4}}
    return snapshot, expected


def self_test():
    snapshot, expected = made()
    assert not [*shapes(snapshot), *sums(snapshot, expected)]

    def wrong(change):
        damaged = copy.deepcopy(snapshot)
        change(damaged)
        return [*shapes(damaged), *sums(damaged, expected)]

    assert wrong(lambda s: s["segments"][0]["blocks"][0].update(requested_size=3))
    assert wrong(lambda s: s["segments"][0]["blocks"][0].update(address="8"))
    assert wrong(lambda s: s["segments"][0].pop("stream"))
    assert wrong(lambda s: s["device_traces"][0].pop())
    assert wrong(lambda s: s["device_traces"][0][0].update(size=5))
    assert wrong(lambda s: s["device_traces"][0][0].update(category="unknown"))
    assert wrong(lambda s: s["device_traces"][0][0]["frames"][0].update(line="0"))
    freed = [snapshot["device_traces"][0][0] | {"action": f"free_{end}"}
             for end in ("requested", "completed")]
    python = snapshot | {"device_traces": [[*snapshot["device_traces"][0], *freed]], "more": 1}
    assert not list(of_python(python))
    for damaged in (python | {"segments": []}, python | {"device_traces": [[]]},
                    python | {"allocator_settings": []}):
        assert list(of_python(damaged))
    assert {"address", "blocks", "addr", "device_free", "total_size"} < set(read_by_viz())


if __name__ == "__main__":
    self_test() if sys.argv[1] == "self" else run(sys.argv[1])
