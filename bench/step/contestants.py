"""The contestants `python` and `compile` of step.py, and the weights and batches of all of them."""

import argparse
import contextlib
import ctypes
import sys
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.append(str(Path(__file__).resolve().parents[2] / "test" / "parity"))
import nets  # noqa: E402


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("contestant", "model", "precision", "folder", "checkpoint", "counter"):
        parser.add_argument(f"--{name}")
    for name in ("width", "rows", "layers", "heads", "context", "accumulate", "clip", "batches"):
        parser.add_argument(f"--{name}", type=int)
    return parser.parse_args(words)


def make_model(args):
    if args.model == "mlp":
        return nets.MLP(args.width, args.layers)
    return nets.GPT(args.layers, args.width, args.heads, args.context)


def write_data(args):
    """Writes raw elements, as bench/step/setting.hpp reads them."""
    torch.manual_seed(5)
    model, count = make_model(args), args.batches * args.rows
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    if args.model == "mlp":
        inputs, targets = torch.randn(count, args.width), torch.randint(args.width, (count,))
    else:
        text = torch.randint(97, 123, (count, args.context + 1))
        inputs, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    for name, values in (("weights", weights), ("inputs", inputs), ("targets", targets)):
        Path(args.folder, name).write_bytes(values.numpy().tobytes())


def read(args, name, kind):
    path = Path(args.folder, name)
    return torch.from_file(str(path), size=path.stat().st_size // kind.itemsize, dtype=kind).clone()


def read_batches(args):
    kind = torch.float32 if args.model == "mlp" else torch.int64
    inputs = read(args, "inputs", kind).view(args.batches, args.rows, -1)
    targets = read(args, "targets", torch.int64).view(args.batches, args.rows, -1)
    return list(zip(inputs, targets.flatten(2) if args.model == "gpt" else targets.flatten(1)))


def read_weights(args, model):
    weights = read(args, "weights", torch.float32)
    torch.nn.utils.vector_to_parameters(weights, model.parameters())


def every_second(model):
    chosen = {getattr(model, name) for name in model.blocks[::2]}
    return lambda unit, x: (nets.checkpointed if unit in chosen else nets.plain)(unit, x)


def in_segments(model):
    """`run` for a model whose blocks are called one after the other: runs of about sqrt(n)."""
    blocks = [getattr(model, name) for name in model.blocks]
    runs = round(len(blocks) ** 0.5)
    length = -(-len(blocks) // runs)

    def run(unit, x):
        place = blocks.index(unit)
        if place % length:
            return x  # it was computed with the first block of its run
        return nets.checkpointed(nn.Sequential(*blocks[place:place + length]), x)
    return run


def run_of(args, model):
    if args.checkpoint == "every":
        return every_second(model)
    if args.checkpoint == "segments":
        return in_segments(model)
    choices = {"none": nets.plain, "full": nets.checkpointed, "selective": nets.selective}
    return choices[args.checkpoint]


def make_forward(args, model):
    """Logits of an input, with the units checkpointed as the row says."""
    run = run_of(args, model)
    if args.model == "gpt":
        return lambda x: model(x, run).flatten(0, 1)
    if args.checkpoint == "none":
        return model

    def forward(x):
        for layer in model:
            x = run(layer, x)
        return x
    return forward


class Bytes:
    """Bytes of the last step, without those before it: at the end of forward, and at the peak."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library) if library else None
        self.begin = self.kept = 0
        for name in ("bytes_now", "bytes_peak") if library else ():
            getattr(self.library, name).restype = ctypes.c_int64

    def forward_begins(self):
        if self.library:
            self.library.reset_peak()
            self.begin = self.library.bytes_now()

    def forward_ended(self):
        if self.library:
            self.kept = self.library.bytes_now() - self.begin

    def text(self):
        return f"{self.kept} {self.library.bytes_peak() - self.begin}"


def make_step(args, memory):
    model = make_model(args)
    read_weights(args, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    forward = make_forward(args, model)
    if args.contestant == "compile":
        forward = torch.compile(forward)
    mixed = args.precision == "bf16"

    def autocast():
        return torch.autocast("cpu", torch.bfloat16) if mixed else contextlib.nullcontext()

    def accumulated(inputs, targets):
        mean = 0
        for x, y in zip(inputs.chunk(args.accumulate), targets.chunk(args.accumulate)):
            with autocast():
                loss = F.cross_entropy(forward(x), y.flatten()) / args.accumulate
            loss.backward()
            mean = mean + loss.detach()
        return mean

    def at_once(inputs, targets):
        memory.forward_begins()
        with autocast():
            loss = F.cross_entropy(forward(inputs), targets.flatten())
        memory.forward_ended()
        loss.backward()
        return loss.detach()

    backward = accumulated if args.accumulate > 1 else at_once

    def step(inputs, targets):
        optimizer.zero_grad()
        mean = backward(inputs, targets)
        if args.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return mean
    return step


def serve(args):
    memory = Bytes(args.counter)
    step, batches, done, loss = make_step(args, memory), read_batches(args), 0, torch.zeros(())
    for line in sys.stdin:
        word, count = line.split()[0], int(line.split()[1])
        if word == "bytes":
            print(memory.text(), flush=True)
            continue
        begin = time.perf_counter()
        for _ in range(count):
            loss = step(*batches[done % len(batches)])
            done += 1
        print(f"{time.perf_counter() - begin:.9f} {loss.item():.9g}", flush=True)


def main():
    args = parse()
    torch.set_num_threads(1)
    if args.contestant == "data":
        write_data(args)
    else:
        serve(args)


if __name__ == "__main__":
    main()
