"""The benchmark `shard`: the policies on shard beside loops by hand and Python's DDP and FSDP2, on
two ranks of this machine, over Gloo, with one thread each.

Every contestant is two processes, its ranks, which train the same model from the same weights on
the same batches, and wait while another contestant runs. A round is a few steps of each, in a new
random order; figures are medians over rounds of ratios within a round. Writes Markdown.
"""

import argparse
import contextlib
import dataclasses
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import bars

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "step"))
import step as single  # noqa: E402  the benchmark on one rank

RANKS = 2
LINK = "tbf rate 800mbit burst 256kb latency 200ms"


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    layers: int
    width: int
    context: int
    rows: int  # the rows of both ranks
    steps: int  # in a round
    model: str = "gpt"
    precision: str = "fp32"
    checkpoint: str = "none"
    heads: int = 4
    batches: int = 4

    def options(self, folder):
        fields = dataclasses.asdict(self) | {"folder": folder}
        return [w for k, v in fields.items() if k not in ("name", "steps")
                for w in (f"--{k}", str(v))]


SHAPES = [Shape("GPT 4x128", 4, 128, 64, 24, steps=4), Shape("GPT 6x384", 6, 384, 32, 4, steps=2)]
# Computes about as long as the slow link takes for the messages of DDP, so that they can overlap.
SLOW_SHAPE = Shape("GPT 6x256", 6, 256, 64, 48, steps=2)


class Contestant:
    """The ranks of one contestant."""

    def __init__(self, name, shape, folder, programs):
        self.name = name
        self.ranks = [
            subprocess.Popen(command(name, shape, folder, programs) + place(rank, folder, name),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env=os.environ | single.ENVIRONMENT) for rank in range(RANKS)]

    def run(self, steps):
        """Of a step: seconds until both ranks were done, CPU seconds and bytes sent of a rank, and
        the loss of the last one."""
        answers = list(zip(*self.ask(f"run {steps}")))
        wall, cpu, sent, loss = (list(map(float, column)) for column in answers)
        return {"wall": max(wall) / steps, "cpu": statistics.mean(cpu) / steps,
                "sent": statistics.mean(sent) / steps, "loss": statistics.mean(loss)}

    def ask(self, line):
        for rank in self.ranks:
            rank.stdin.write(line + "\n")
            rank.stdin.flush()
        answers = [rank.stdout.readline().split() for rank in self.ranks]
        if not all(len(a) == 4 for a in answers):
            raise SystemExit(f"shard: a rank of `{self.name}` ended")
        return answers

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait()


def place(rank, folder, name):
    return ["--contestant", name, "--rank", str(rank), "--size", str(RANKS),
            "--store", f"{folder}/meets_{name}"]


def command(name, shape, folder, programs):
    kind = name.split("_")[0]
    program = {"python": [sys.executable, HERE / "python.py"],
               "hand": [programs / "shard_hand"]}.get(kind, [programs / "shard_ikebana"])
    return [str(word) for word in [*program, *shape.options(folder)]]


@contextlib.contextmanager
def data(shape):
    """Makes a folder with the weights and batches of all contestants."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, HERE.parent / "step" / "contestants.py",
                        *shape.options(folder), "--contestant", "data"], check=True)
        yield folder


def measure(shape, names, rounds, programs):
    """Makes the rounds of each contestant."""
    with data(shape) as folder, contextlib.ExitStack() as stack:
        running = {}
        for name in names:
            running[name] = Contestant(name, shape, folder, programs)
            stack.callback(running[name].close)
        for contestant in running.values():
            contestant.run(max(2, shape.steps))  # warm-up
        results, draw = {name: [] for name in names}, random.Random(0)
        for _ in range(rounds):
            for name in draw.sample(names, len(names)):
                results[name].append(running[name].run(shape.steps))
        check_losses(shape, results)
        return results, os.path.getsize(f"{folder}/weights")


def check_losses(shape, results):
    """All contestants must have computed the same: the time of a wrong step means nothing."""
    losses = {name: rounds[-1]["loss"] for name, rounds in results.items()}
    first = next(iter(losses.values()))
    for name, loss in losses.items():
        if not abs(loss - first) <= 1e-4 * abs(first):
            raise SystemExit(f"shard: {shape.name}: after the same steps the losses are {losses}")


def held(shape, names, programs):
    """Returns what shard_memory counts of each: bytes at rest, between microbatches, at the
    update, and, if only the embedding of positions is trained, at the peak."""
    results = {}
    with data(shape) as folder:
        for name in names:
            lines = []
            for frozen in ("0", "1"):
                base = [str(programs / "shard_memory"), *shape.options(folder), "--frozen", frozen]
                ranks = [subprocess.Popen(base + place(rank, folder, name + frozen) +
                                          ["--contestant", name],
                                          stdout=subprocess.PIPE, text=True)
                         for rank in range(RANKS)]
                lines.append([list(map(int, r.communicate()[0].split())) for r in ranks])
            (rest, between, update, _), peak = map(max, zip(*lines[0])), max(
                line[3] for line in lines[1])
            results[name] = {"rest": rest, "between": between, "update": update, "gathered": peak}
    return results


def show(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def speed(shape, args):
    results, parameters = measure(shape, bars.CONTESTANTS, args.rounds, args.programs)
    print(f"\n{shape.name}, context {shape.context}, {shape.rows // RANKS} rows a rank, "
          f"{parameters / 2**20:.2f} MiB of parameters, {args.rounds} rounds, "
          f"load {os.getloadavg()[0]:.1f}\n")
    show("contestant", "CPU ms of a rank", "wall ms", "bytes sent over P", "last loss")
    show(*["---"] * 5)
    for name, rounds in results.items():
        median = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
        show(f"`{name}`", f"{1e3 * median['cpu']:.1f}", f"{1e3 * median['wall']:.1f}",
             f"{median['sent'] / parameters:.3f}", f"{rounds[-1]['loss']:.6f}")
    return list(bars.of_speed(shape, results)) + list(bars.of_bytes_sent(shape, results, RANKS))


def slow_link(shape, args):
    """Runs the same in a network of its own, whose loopback is slow."""
    if os.environ.get("IKEBANA_SLOW_LINK") != "1":
        setup = f"ip link set lo up && tc qdisc add dev lo root {LINK} && exec "
        inner = [sys.executable, __file__, *sys.argv[1:]]
        joined = setup + " ".join(f"'{word}'" for word in inner)
        done = subprocess.run(["unshare", "-n", "sh", "-c", joined], text=True,
                              env=os.environ | {"IKEBANA_SLOW_LINK": "1"})
        if done.returncode != 0:
            print("\nThe slow link was not measured: `unshare -n` or `tc` is not permitted here.")
        return []
    results, _ = measure(shape, bars.ON_SLOW_LINK, max(5, args.rounds // 2), args.programs)
    print(f"\n{shape.name} on a loopback with {LINK}\n")
    bars.show_all(bars.of_slow_link(shape, results))
    return []


def environment(programs):
    import torch  # slow to load
    own = subprocess.run([programs / "shard_hand", "--environment", "1"], text=True, check=True,
                         stdout=subprocess.PIPE).stdout.strip()
    return (f"{own}, Python {platform.python_version()} with torch {torch.__version__}, "
            f"{RANKS} ranks with 1 thread each on {os.cpu_count()} processors")


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, help="the folder of shard_ikebana and the others")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="shapes whose name holds this")
    return parser.parse_args()


def main():
    args = parse()
    args.programs = args.programs.resolve()
    if os.environ.get("IKEBANA_SLOW_LINK") == "1":
        return slow_link(SLOW_SHAPE, args)
    print(environment(args.programs))
    lines = []
    for shape in SHAPES:
        if args.only in shape.name:
            lines += speed(shape, args)
            lines += bars.of_memory(shape, held(shape, bars.HELD, args.programs), RANKS)
    if lines:
        print()
        bars.show_all(lines)
    if args.only in SLOW_SHAPE.name:
        slow_link(SLOW_SHAPE, args)


if __name__ == "__main__":
    main()
