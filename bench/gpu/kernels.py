"""What a profiler's trace (Chrome's format, as Kineto writes it) says of the steps in it."""

import json

# These are categories of what a device does, and the calls by which the host starts it.
ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync",
            "cudaMemsetAsync")


def union(spans):
    """The length of the union of intervals."""
    length, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        length += max(0.0, end - max(begin, until))
        until = max(until, end)
    return length


def figures_of(events, steps, on_device=True):
    """Per step: the kernels, the calls that launched them, and the milliseconds in which at least
    one ran. Copies and memsets count as kernels. A trace of a CPU has operators instead."""
    events = [e for e in events if e.get("ph") == "X" and "dur" in e]
    kinds = ON_DEVICE if on_device else {"cpu_op"}
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") in kinds]
    if not spans:
        raise ValueError("the trace has no event of " + ", ".join(sorted(kinds)))
    begun = LAUNCHES if on_device else ("aten::",)
    launches = sum(e["name"].startswith(begun) for e in events if e.get("cat") not in ON_DEVICE)
    return {"kernels": len(spans) / steps, "launches": launches / steps,
            "busy_ms": union(spans) / 1e3 / steps}


def read(path, steps, on_device=True):
    with open(path, encoding="utf-8", errors="replace") as file:
        return figures_of(json.load(file, strict=False)["traceEvents"], steps, on_device)


def self_test():
    """Tests two steps: kernels that overlap, touch and leave a gap, a graph, and an event that
    is none of them."""
    def event(cat, name, ts, dur):
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur}
    events = [event("kernel", "cudaLaunchKernel_is_only_a_name", 100.5, 10.0),
              event("kernel", "b", 105.0, 20.0), event("gpu_memcpy", "c", 125.0, 5.5),
              event("gpu_memset", "d", 1000.0, 1.0), event("kernel", "inside b", 106.0, 1.0),
              event("cuda_runtime", "cudaLaunchKernelExC", 90.0, 3.0),
              event("cuda_runtime", "cudaGraphLaunch", 95.0, 3.0),
              event("cuda_driver", "cuLaunchKernel", 97.0, 3.0),
              event("cuda_runtime", "cudaMemcpyAsync", 98.0, 1.0),
              event("cuda_runtime", "cudaStreamSynchronize", 99.0, 900.0),
              event("overhead", "Buffer Flush", 0.0, 50.0),
              {"ph": "i", "cat": "kernel", "name": "no duration", "ts": 3.0}]
    found = figures_of(events, 2)
    assert found == {"kernels": 2.5, "launches": 2.0, "busy_ms": 31e-3 / 2}, found
    operators = [event("cpu_op", "aten::mm", 0.0, 2.0), event("cpu_op", "aten::t", 1.0, 0.5)]
    assert figures_of(operators, 1, on_device=False)["busy_ms"] == 2e-3
    try:
        figures_of(operators, 1)
    except ValueError:
        return
    raise AssertionError("a trace without kernels passed")
