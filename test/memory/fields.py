"""The fields of a snapshot of memory in PyTorch's format, and their types.

    fields.py cuda    exits 1 if Python's own snapshot of a GPU has others
"""

import sys

FRAME = {"name": str, "filename": str, "line": int}
BLOCK = {"address": int, "size": int, "requested_size": int, "state": str, "frames": list}
SEGMENT = {"device": int, "address": int, "total_size": int, "allocated_size": int,
           "active_size": int, "requested_size": int, "stream": int, "segment_type": str,
           "segment_pool_id": tuple, "is_expandable": bool, "frames": list, "blocks": list}
ENTRY = {"action": str, "addr": int, "size": int, "stream": int, "time_us": int,
         "compile_context": str, "user_metadata": str, "frames": list}
OOM = {"device_free" if name == "addr" else name: kind for name, kind in ENTRY.items()}
SNAPSHOT = {"segments": list, "device_traces": list, "allocator_settings": dict,
            "external_annotations": list}


def typed(what, value, fields):
    """The fields of a dictionary, and their types, are these and no others."""
    types = {name: type(one) for name, one in value.items()}
    if types != fields:
        yield f"{what} has {types}, not {fields}"


def shapes(snapshot):
    """As torch.cuda.memory._snapshot() documents them."""
    yield from typed("the snapshot", snapshot, SNAPSHOT)
    frames = []
    for segment in snapshot["segments"]:
        yield from typed("a segment", segment, SEGMENT)
        frames += segment["frames"]
        for block in segment["blocks"]:
            yield from typed("a block", block, BLOCK)
            frames += block["frames"]
    for entry in (entry for trace in snapshot["device_traces"] for entry in trace):
        yield from typed("an entry", entry, OOM if entry["action"] == "oom" else ENTRY)
        frames += entry["frames"]
    for frame in frames:
        yield from typed("a frame", frame, FRAME)


def lacking(what, value, fields):
    """A dictionary of Python's that lacks a field of these, or has it with another type. An entry
    has frames only if they were recorded."""
    types = {name: type(value[name]) if name in value else None for name in fields}
    if types != fields:
        yield f"{what} of Python's has {types}, and not {fields}"


def of_python(snapshot):
    yield from lacking("the snapshot", snapshot, SNAPSHOT)
    entries = [entry for trace in snapshot["device_traces"] for entry in trace]
    actions = {entry["action"] for entry in entries}
    if not snapshot["segments"] or not {"alloc", "free_requested", "free_completed"} <= actions:
        yield f"a snapshot of {len(snapshot['segments'])} segments, with the actions {actions}"
    for segment in snapshot["segments"]:
        yield from lacking("a segment", segment, SEGMENT)
        for block in segment["blocks"]:
            yield from lacking("a block", block, BLOCK)
            for frame in block["frames"]:
                yield from lacking("a frame", frame, FRAME)
    for entry in entries:
        yield from lacking("an entry", {"frames": [], **entry},
                           OOM if entry["action"] == "oom" else ENTRY)


def on_gpu():
    import torch

    torch.cuda.memory._record_memory_history()
    kept = [torch.ones(1000, device="cuda") * 2 for _ in range(3)]
    del kept[0]
    wrong = list(of_python(torch.cuda.memory._snapshot()))
    sys.exit("\n".join(wrong) or print("snapshots: Python's has the fields and types of ikebana's"))


if __name__ == "__main__":
    on_gpu()
