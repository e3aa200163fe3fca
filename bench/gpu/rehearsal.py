"""Tests the plan of a run on a device with contestants that only pretend: on a simulated clock, in
which each takes the time that it may take on a GPU, and with each thing going wrong in turn."""

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "step"))
import plan  # noqa: E402
import table  # noqa: E402
import works  # noqa: E402
from pretend import Pool, Stage  # noqa: E402
from process import Failed, Process  # noqa: E402


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
    """Returns the rows without figures."""
    return [f"{work.name}, {name}" for work in works.WORKS for name in works.CONTESTANTS
            if "ms" not in cell(results, work, name)]


def everything_in_time():
    results, seconds = run()
    late = [f"{works.LARGEST.name}, {name}" for name in ("python", *plan.LATE)]
    assert not results["failures"] and seconds <= 480, (results["failures"], seconds)
    assert set(lacking(results)) <= set(late) and len(results["checkpoint"]) == 8, results
    assert len(results["recipe"]) == 6, results["recipe"]
    bars = list(table.offload_bars(results["recipe"]))
    assert [bar[2:] for bar in bars][1:3] == [["0.990", "yes"], ["1.000", "yes"]], bars
    assert bars[3][3] == "NO", bars  # who pretends leaves as much
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


def far_too_large():
    """GPT-2 fits in no way: the rest is run."""
    results, _ = run(trouble=lambda process, word, count: process.row.rows == 64)
    assert results["failures"] == [f"{works.GPT2.name}: microbatches: does not fit into memory in "
                                   "eight microbatches"], results["failures"]
    assert cell(results, works.RESNET, "python")["rounds"] >= 1 and len(results["checkpoint"]) == 8


def processes():
    """Tests real processes, which end and hang."""
    def said(script, seconds):
        with tempfile.TemporaryDirectory() as folder:
            process = Process(["sh", "-c", script], Path(folder, "log"), None)
            try:
                return process.ask("run 1", seconds)
            except Failed as failure:
                return str(failure)
            finally:
                process.close(kill=True)
    assert said("read line; echo $line and more", 20) == ["run", "1", "and", "more"]
    assert said("echo an old line >&2; exit 3", 20) == "ended with 3: an old line"
    assert said("echo CUDA out of memory. Tried >&2; echo x >&2; exit 1", 20).startswith("does not")
    assert said("kill -SEGV $$", 20) == "ended with -11: no message"
    assert said("exec sleep 20", 0.1) == "no answer within 0 s"


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
    for rehearsed in (short_of_time, too_large, far_too_large, other_losses, one_ends, processes,
                      the_page):
        rehearsed()


if __name__ == "__main__":
    main()
