"""Tests the plan of a run on a device with contestants that only pretend: on a simulated clock, in
which each takes the time that it may take on a GPU, and with each thing going wrong in turn."""

import argparse
import json
import sys
import tempfile
from concurrent.futures import Future
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "step"))
import plan  # noqa: E402
import table  # noqa: E402
import works  # noqa: E402
from process import Failed  # noqa: E402
from run import Run  # noqa: E402

# Seconds from the launch to the first step; the second is for what was compiled before.
SETUP = {"ikebana": (6, 6), "expert": (6, 6), "python": (12, 12), "compile": (60, 25),
         "reduce-overhead": (45, 25)}


class Clock:
    now, limit = 0.0, 480.0

    def __call__(self):
        return self.now

    def left(self):
        return self.limit - self.now

    def patience(self):
        return min(200.0, max(5.0, self.left()))


class Pretender:
    """Answers like a contestant. Several work at the same time: each has a time of its own at which
    it is done, and the clock goes on to that of the one that is waited for."""

    def __init__(self, stage, name, row):
        self.stage, self.name, self.row, self.waiting, self.loss = stage, name, row, [], 10.0
        self.steps = 0
        again = (name, row) in stage.compiled
        stage.compiled.add((name, row))
        self.done = stage.clock() + SETUP[name][again]

    def seconds(self):
        per_row = {"gpt": self.row.context * 4e-6, "resnet": 2e-4, "mlp": 2e-6}[self.row.model]
        return self.row.rows * per_row

    def tell(self, command):
        if command.split()[0] == "next":
            return
        self.done = max(self.done, self.stage.clock()) + 0.05
        self.waiting.append(command.split())

    def answer(self, patience):
        word, count = self.waiting.pop(0)
        if self.stage.trouble(self, word, int(count)):
            raise Failed("does not fit into memory")
        steps = int(count) if word in ("run", "peak", "profile") else 1
        self.steps += steps
        self.done += steps * self.seconds() + (2 if word == "profile" else 0)
        if self.done > self.stage.clock() + patience:
            self.stage.clock.now += patience
            raise Failed(f"no answer within {patience:.0f} s")
        self.stage.clock.now = max(self.stage.clock.now, self.done)
        loss = 10 - 0.01 * self.steps + (self.stage.drift if self.name == "expert" else 0)
        return {"run": [f"{steps * self.seconds()}", f"{loss}"], "peak": ["1000000"],
                "profile": [str(self.stage.trace)], "fit": ["96"], "pause": ["0.01", "0.05"],
                "copy": ["0.02", "1500000000"]}[word]

    def ask(self, command, patience):
        self.tell(command)
        return self.answer(patience)

    def close(self, kill=False):
        self.stage.closed += 1


class Pool:
    """A thread whose work is done at once, on a clock that goes on beside that of the others."""

    def __init__(self, stage):
        self.stage, self.free = stage, 0.0

    def submit(self, function, *arguments):
        clock, begin = self.stage.clock, self.stage.clock.now
        clock.now = max(begin, self.free)
        future = Future()
        try:
            future.set_result(function(*arguments))
        except Failed as failure:
            future.set_exception(failure)
        self.free, clock.now = clock.now, begin
        ordinary = future.result

        def result():
            clock.now = max(clock.now, self.free)
            return ordinary()
        future.result = result
        return future

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class Stage(Run):
    """A run whose contestants, clock, build and data are pretended."""

    def __init__(self, folder, limit=480.0, trouble=None, drift=0.0):
        super().__init__(argparse.Namespace(programs=folder, minutes=8, build=None, json=None,
                                            device="cuda"), folder)
        self.clock, self.drift, self.launched, self.closed = Clock(), drift, 0, 0
        self.clock.limit, self.compiled = limit, set()
        self.trouble = trouble or (lambda process, word, count: False)
        self.trace = Path(folder, "trace.json")
        kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 1000}
        self.trace.write_text(json.dumps({"traceEvents": [kernel]}))

    def say(self, text):
        if "-v" in sys.argv:
            super().say(text)

    def data(self, work):
        return self.folder

    def finish_build(self):
        self.clock.now = max(self.clock.now, 65.0)

    def launch(self, name, work):
        self.launched += 1
        assert work.row.device == "cuda:0", work
        return Pretender(self, name, work.row)

    def conditions(self, side):
        return {"bound": 1e15}

    def compiler(self):
        return "g++"


def run(**options):
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(folder, **options)
        plan.ThreadPoolExecutor = lambda threads: Pool(stage)
        plan.on_device(stage)
    assert stage.closed >= stage.launched, "a process was left"
    table.text_of(stage.results | {"conditions": {}})
    return stage.results, stage.clock()


def cell(results, work, name):
    return results["works"].get(work.name, {}).get(name, {})


def lacking(results):
    """The rows without figures."""
    return [f"{work.name}, {name}" for work in works.WORKS for name in works.CONTESTANTS
            if "ms" not in cell(results, work, name)]


def everything_in_time():
    results, seconds = run()
    late = [f"{works.LARGEST.name}, {name}" for name in plan.COMPILED]
    assert not results["failures"] and seconds <= 480, (results["failures"], seconds)
    assert set(lacking(results)) <= set(late) and len(results["checkpoint"]) == 8, results
    assert [entry.split(":")[0] for entry in results["not_run"]] == lacking(results)
    assert results["save"]["bytes"] == 1.5e9 and results["names"][works.LARGEST.name][-2:] == "96"
    two = cell(results, works.GPT2, "ikebana")
    assert two["share"] == two["flops"] / 1e15 and two["kernels"] == 1 / 3 and two["rounds"] >= 1
    return seconds


def short_of_time():
    for limit in (70, 130, 200, 300, 400):
        results, seconds = run(limit=float(limit))
        assert seconds <= limit + 25, (limit, seconds)
        assert not results["failures"], results["failures"]
        told = " ".join(results["not_run"])
        assert all(name.split(",")[0] in told for name in lacking(results)), (limit, told)


def too_large():
    """Sixty-four rows fit in two microbatches; ikebana's largest batch is too large for another."""
    def trouble(process, word, count):
        gpt2 = process.row.width == 768
        return gpt2 and (process.row.rows == 64 and process.row.accumulate == 1 or
                         process.row.rows == 96 and process.name == "expert")
    results, _ = run(trouble=trouble)
    assert results["names"][works.GPT2.name].endswith("= 2 x 32"), results["names"]
    assert cell(results, works.GPT2, "compile")["rounds"] >= 1 and not results["failures"]
    assert cell(results, works.LARGEST, "expert") == {"failed": "does not fit into memory"}


def other_losses():
    results, _ = run(drift=2.0)
    assert len(results["failures"]) >= len(works.WORKS), results["failures"]
    assert all("of expert is 11" in sentence for sentence in results["failures"])
    results, _ = run(drift=float("nan"))
    assert "expert: the loss is nan" in results["failures"][0], results["failures"]


def one_ends():
    """It is an error, whose reason is told, and the others go on."""
    def trouble(process, word, count):
        if process.name == "expert" and process.row.model == "resnet" and word == "profile":
            raise Failed("ended with -11: no message")
        if process.name == "compile" and process.row.model == "mlp":
            process.done += 1e9  # it hangs
    results, seconds = run(trouble=trouble)
    assert len(results["failures"]) == 2 and seconds <= 480, results["failures"]
    assert "no answer within" in cell(results, works.MLP, "compile")["failed"]
    assert cell(results, works.RESNET, "expert")["kernels"] is None
    assert cell(results, works.RESNET, "python")["kernels"] == 0.2


def the_page():
    """It has a place for each part, and until a run has filled it in, says so in today's tables."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "bench-gpu.md").read_text()
    if table.conditions(table.empty()) in page:
        assert page == table.filled(page, table.empty()), "docs/bench-gpu.md has other tables"


def main():
    works.flops_of_two_rows = lambda row: 1e12
    print(f"the plan takes {everything_in_time():.0f} s")
    for rehearsed in (short_of_time, too_large, other_losses, one_ends, the_page):
        rehearsed()


if __name__ == "__main__":
    main()
