"""Compares the profiler of ikebana with Python's.

    profile.py PROGRAM    exits 1 and says what differs
    profile.py self       the checks find differences that are made here
    profile.py cost PROGRAM    prints what profiling costs in both (docs/profiler.md)

PROGRAM (program.cpp) writes the events that LibTorch's profiler recorded, and ikebana's averages of
them. Python's torch.autograd.profiler is given the same events and must come to the same averages.
The operators of a GPT and a ResNet, written here in the same way, must be called as often in
Python. The Chrome trace must have what Perfetto, TensorBoard and HTA read.
"""

import collections
import csv
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import types

import torch
from torch.autograd import DeviceType
from torch.autograd import profiler as torch_profiler
from torch.autograd.profiler_util import EventList

USER_ANNOTATION = 1  # libkineto's ActivityType


class Event:
    """A recorded event, as Python's binding of KinetoEvent shows it."""

    def __init__(self, record):
        self.record = record

    def __getattr__(self, name):
        keys = {"name": "name", "start_ns": "start", "end_ns": "end", "start_thread_id": "thread",
                "end_thread_id": "end_thread", "fwd_thread_id": "fwd", "sequence_nr": "seq",
                "correlation_id": "corr", "linked_correlation_id": "linked", "scope": "scope",
                "flops": "flops", "nbytes": "bytes", "is_async": "async", "shapes": "shapes"}
        constants = {"device_type": DeviceType.CPU, "device_index": 0, "device_resource_id": 0,
                     "overload_name": "", "concrete_inputs": [], "kwinputs": {}, "stack": [],
                     "metadata_json": "", "is_hidden_event": False}
        if name == "is_user_annotation":
            return lambda: self.record["activity"] == USER_ANNOTATION
        if name in constants:
            return lambda: constants[name]
        return lambda: self.record[keys[name]]


def python_averages(records, by_shape):
    events = [Event(record) for record in records]
    begin = min(record["start"] for record in records)
    recorded = types.SimpleNamespace(events=lambda: events, trace_start_ns=lambda: begin)
    with_options = torch_profiler.profile(record_shapes=True, profile_memory=True, with_flops=True)
    parsed = EventList(with_options._parse_kineto_results(recorded), profile_memory=True)
    parsed._build_tree()
    rows = collections.OrderedDict()
    for row in parsed.key_averages(group_by_input_shapes=by_shape):
        rows[row.key, str(row.input_shapes) if by_shape else "", row.is_user_annotation] = [
            row.count, row.cpu_time_total, row.self_cpu_time_total, row.cpu_memory_usage,
            row.self_cpu_memory_usage, row.flops]
    return rows


def own_averages(path):
    rows = collections.OrderedDict()
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            rows[row["key"], row["input_shapes"], row["is_user_annotation"] == "1"] = [
                int(row["count"]), float(row["cpu_time_total"]), float(row["self_cpu_time_total"]),
                int(row["cpu_memory_usage"]), int(row["self_cpu_memory_usage"]),
                int(row["flops"])]
    return rows


def compare(name, own, python):
    """Returns what differs; times have three decimals in the file."""
    faults = []
    if list(own) != list(python):
        faults.append(f"{name}: rows {list(own)} instead of {list(python)}")
    for key in own.keys() & python.keys():
        if not all(math.isclose(a, b, abs_tol=6e-4) for a, b in zip(own[key], python[key])):
            faults.append(f"{name}: {key} has {own[key]} instead of {python[key]}")
    return faults


def compare_schedules(path):
    """Returns the steps in which Python's schedule does something else."""
    faults = []
    for line in path.read_text().splitlines():
        *values, step, action = map(int, line.split(","))
        wait, warmup, active, repeat, skip_first, skip_first_wait = values
        python = torch.profiler.schedule(
            wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip_first,
            skip_first_wait=skip_first_wait)(step)
        if python.value != action:
            faults.append(f"schedule {values}: step {step} does {action}, in Python {python}")
    return faults


def leaf(*sizes):
    return torch.randn(sizes).requires_grad_()


def gpt():
    rows, length, width, heads = 4, 16, 32, 4
    w = [leaf(64, width), leaf(3 * width, width), leaf(width, width), leaf(width), leaf(width),
         leaf(4 * width, width), leaf(width, 4 * width), leaf(64, width)]
    tokens = torch.arange(rows * length).remainder(64).view(rows, length)
    x = torch.embedding(w[0], tokens)
    for _ in range(2):
        n = torch.layer_norm(x, (width,), w[3], w[4])
        qkv = torch.nn.functional.linear(n, w[1]).chunk(3, -1)
        q, k, v = (t.view(rows, length, heads, width // heads).transpose(1, 2) for t in qkv)
        scores = torch.matmul(q, k.transpose(-2, -1)) * 0.25
        mixed = torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2)
        x = x + torch.nn.functional.linear(mixed.reshape(rows, length, width), w[2])
        up = torch.nn.functional.gelu(torch.nn.functional.linear(x, w[5]))
        x = x + torch.nn.functional.linear(up, w[6])
    logits = torch.nn.functional.linear(x, w[7]).view(rows * length, 64)
    loss = torch.nn.functional.cross_entropy(logits, tokens.view(rows * length))
    loss.backward(torch.ones_like(loss))


def resnet():
    w = [leaf(8, 3, 3, 3), leaf(8, 8, 3, 3), leaf(10, 8)]
    scale, shift, mean, var = leaf(8), leaf(8), torch.zeros(8), torch.ones(8)

    def norm(t):
        return torch.batch_norm(t, scale, shift, mean, var, True, 0.1, 1e-5, False)

    x = torch.relu(norm(torch.conv2d(torch.randn(4, 3, 16, 16), w[0], None, 1, 1)))
    for _ in range(2):
        x = torch.relu(x + norm(torch.conv2d(x, w[1], None, 1, 1)))
    x = torch.nn.functional.adaptive_avg_pool2d(torch.max_pool2d(x, 2), (1, 1)).flatten(1)
    loss = torch.nn.functional.linear(x, w[2]).square().mean()
    loss.backward(torch.ones_like(loss))


def compare_calls(name, own, work):
    """Returns which of the 20 most frequent operators are not called as often in Python."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        work()
    python = {row.key: row.count for row in profiled.key_averages()}
    calls = {key[0]: values[0] for key, values in own.items() if key[0] != "[memory]"}
    frequent = sorted(calls, key=lambda key: -calls[key])[:20]
    return [f"{name}: {key} was called {calls[key]} times, in Python {python.get(key)}"
            for key in frequent if calls[key] != python.get(key)]


def check_trace(trace):
    """Returns what a Chrome trace lacks that Perfetto, TensorBoard's plugin and HTA read."""
    faults, events = [], trace["traceEvents"]
    for event in events:
        needed = {"X": ("name", "cat", "pid", "tid", "ts", "dur"), "M": ("name", "pid", "args")}
        missing = [key for key in needed.get(event["ph"], ("name", "ts")) if key not in event]
        if missing:
            faults.append(f"an event has no {missing}: {event}")
        elif event["ph"] == "X" and event["dur"] < 0:
            faults.append(f"an event has a negative duration: {event}")
    ranges = [event for event in events if event.get("cat") == "user_annotation"]
    steps = sorted(event["name"] for event in ranges if event["name"].startswith("ProfilerStep#"))
    if steps != ["ProfilerStep#1", "ProfilerStep#2"]:
        faults.append(f"the steps are {steps}")
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    unnamed = {(event["pid"], event["tid"]) for event in events
               if event.get("cat") in ("cpu_op", "user_annotation")} - named
    if unnamed:
        faults.append(f"threads without a name: {unnamed}")
    if not any(event["name"] == "process_name" for event in events):
        faults.append("the process has no name")
    loads = [event for event in ranges if event["name"] == "load 'a' "]
    main = {event["tid"] for event in events if event.get("cat") == "cpu_op"}
    if not loads or main & {event["tid"] for event in loads}:
        faults.append(f"the ranges of other threads are {loads}")
    begin = min(event["ts"] for event in events if event.get("cat") == "cpu_op")
    if any(abs(event["ts"] - begin) > 6e7 for event in loads):
        faults.append("the ranges of other threads have other times")
    if not any(event.get("cat") == "fwdbwd" for event in events):
        faults.append("no arrows lead from forward to backward")
    if "Input Dims" not in next(e for e in events if e["name"] == "aten::addmm" or
                                e["name"] == "aten::mm")["args"]:
        faults.append("operators have no shapes")
    if trace.get("distributedInfo", {}).get("rank") != 0:
        faults.append("no rank is given")
    return faults


def check_files(folder):
    names = sorted(path.name for path in folder.iterdir())
    stem = r"worker\.\d+\."
    wanted = [stem + r"key_averages\.csv", stem + r"pt\.et\.json", stem + r"pt\.trace\.json"]
    if len(names) != 3 or not all(re.fullmatch(w, n) for w, n in zip(wanted, names)):
        return [f"the files are {names}"]
    execution, trace = (json.loads((folder / name).read_text()) for name in names[1:])
    operators = {node["name"] for node in execution["nodes"]}
    faults = [] if "aten::addmm" in operators or "aten::mm" in operators else \
        [f"the execution trace has {operators}"]
    if trace["traceName"] != str(folder / names[2]):
        faults.append(f"the trace says that it is {trace['traceName']}")
    return faults + check_trace(trace)


def check_program(program):
    faults = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ran = subprocess.run([program, name], capture_output=True, text=True, check=True)
        if ran.stderr or ran.stdout:
            faults.append(f"the program wrote: {ran.stdout}{ran.stderr}")
        for work in ("gpt", "resnet", "ranges"):
            records = json.loads((folder / f"{work}.json").read_text())
            for suffix, by_shape in ((".csv", False), (".by_shape.csv", True)):
                faults += compare(work + suffix, own_averages(folder / (work + suffix)),
                                  python_averages(records, by_shape))
        for work in (gpt, resnet):
            faults += compare_calls(work.__name__, own_averages(folder / f"{work.__name__}.csv"),
                                    work)
        faults += compare_schedules(folder / "schedules.csv")
        faults += check_files(folder / "trace")
    return faults


def check_self():
    """Each check finds a fault that is made here."""
    record = {"name": "a", "start": 0, "end": 4000, "thread": 1, "end_thread": 1, "fwd": 0,
              "seq": -1, "corr": 1, "linked": 0, "activity": 0, "scope": 0, "flops": 0, "bytes": 0,
              "async": False, "shapes": []}
    inner = record | {"name": "b", "start": 1000, "end": 2000, "corr": 2}
    python = python_averages([record, inner], False)
    assert [row[1:3] for row in python.values()] == [[4, 3], [1, 1]], python
    assert not compare("same", python, python)
    other = collections.OrderedDict(python)
    other["a", "", False] = [1, 4, 4, 0, 0, 0]
    assert compare("self time", other, python)
    assert compare("rows", collections.OrderedDict(list(python.items())[::-1]), python)
    calls = collections.OrderedDict({("aten::relu", "", False): [4, 0, 0, 0, 0, 0]})
    assert compare_calls("resnet", calls, resnet)
    return []


def python_cost(steps=20):
    """Returns the milliseconds of a step without and with a profiler, and of a window's end."""
    times = [math.inf] * 3
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(steps):
            gpt()
        plain = time.perf_counter()
        profiled = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True,
            profile_memory=True, schedule=torch.profiler.schedule(wait=0, warmup=0, active=99))
        profiled.start()
        started = time.perf_counter()
        for _ in range(steps):
            gpt()
            profiled.step()
        recorded = time.perf_counter()
        profiled.stop()
        profiled.key_averages()
        end = time.perf_counter()
        trial = [(plain - begin) / steps, (recorded - started) / steps, end - recorded]
        times = [min(a, 1000 * b) for a, b in zip(times, trial)]
    return times


def print_cost(program):
    """Prints the least of several rounds, in which both take turns."""
    own, python = [math.inf] * 4, [math.inf] * 3
    for _ in range(3):
        output = subprocess.check_output([program, "cost"], text=True)
        own = [min(a, float(b)) for a, b in zip(own, output.split())]
        python = [min(a, b) for a, b in zip(python, python_cost())]
    print("ms of a step     plain  recorded  added  the end of 20 steps")
    for name, (plain, recorded, end) in (("ikebana", own[:3]), ("torch.profiler", python)):
        print(f"{name:14} {plain:7.3f} {recorded:9.3f} {recorded - plain:6.3f} {end:20.1f}")
    print(f"a Range while nothing records: {own[3]:.1f} ns")


if __name__ == "__main__":
    if sys.argv[1] == "cost":
        sys.exit(print_cost(sys.argv[2]))
    found = check_self() if sys.argv[1] == "self" else check_program(sys.argv[1])
    print("\n".join(found) or "the profiler agrees with Python's")
    sys.exit(1 if found else 0)
