"""Defines the contestants in Python of step.py and ../gpu/gpu.py, and the weights and batches of
all."""

import argparse
import contextlib
import functools
import sys
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

BENCH = Path(__file__).resolve().parents[1]
sys.path += [str(BENCH / "gpu"), str(BENCH.parent / "test" / "parity")]
import device  # noqa: E402
import nets  # noqa: E402
import resnet  # noqa: E402


def parse(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("contestant", "model", "precision", "folder", "checkpoint", "counter", "device",
                 "recipe"):
        parser.add_argument(f"--{name}")
    for name in ("width", "rows", "layers", "heads", "context", "symbols", "accumulate", "clip",
                 "batches"):
        parser.add_argument(f"--{name}", type=int)
    return parser.parse_args(words)


def make_model(args):
    if args.model == "mlp":
        return nets.MLP(args.width, args.layers)
    if args.model == "resnet":
        return resnet.ResNet(args.width, args.symbols, small=args.context < 64)
    model = nets.GPT(args.layers, args.width, args.heads, args.context)
    if args.symbols:  # other than bytes
        model.token = torch.nn.Embedding(args.symbols, args.width)
        torch.nn.init.normal_(model.token.weight, 0, 0.02)
    return model


def write_batches(args):
    """Writes raw elements, as bench/step/setting.hpp reads them."""
    count = args.batches * args.rows
    if args.model == "mlp":
        inputs, targets = torch.randn(count, args.width), torch.randint(args.width, (count,))
    elif args.model == "resnet":
        inputs = torch.randn(count, 3, args.context, args.context)
        targets = torch.randint(args.symbols, (count,))
    else:
        symbols = (0, args.symbols) if args.symbols else (97, 123)
        text = torch.randint(*symbols, (count, args.context + 1))
        inputs, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    for name, values in (("inputs", inputs), ("targets", targets)):
        Path(args.folder, name).write_bytes(values.numpy().tobytes())


def write_data(args):
    torch.manual_seed(5)
    weights = torch.cat([p.detach().flatten() for p in make_model(args).parameters()])
    Path(args.folder, "weights").write_bytes(weights.numpy().tobytes())
    write_batches(args)


def read(args, name, kind):
    path = Path(args.folder, name)
    return torch.from_file(str(path), size=path.stat().st_size // kind.itemsize, dtype=kind).clone()


def read_batches(args):
    kind = torch.int64 if args.model == "gpt" else torch.float32
    shape = (3, args.context, args.context) if args.model == "resnet" else (-1,)
    inputs = read(args, "inputs", kind).view(args.batches, args.rows, *shape)
    targets = read(args, "targets", torch.int64).view(args.batches, args.rows, -1)
    targets = targets.flatten(2) if args.model == "gpt" else targets.flatten(1)
    if args.model == "resnet":
        inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
    return [(x.to(args.device), y.to(args.device)) for x, y in zip(inputs, targets)]


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


def make_loss(args, model):
    """The mean loss of a batch. With torch.compile on a device the loss is compiled, too: there the
    logits of GPT-2 take a large part of the step."""
    forward, mixed = make_forward(args, model), args.precision == "bf16"
    compiled = functools.partial(torch.compile, mode=device.MODES.get(args.contestant))
    on_cpu = args.device == "cpu"
    if args.contestant in device.MODES and on_cpu:
        forward = compiled(forward)

    def loss(x, y):
        return F.cross_entropy(forward(x), y.flatten())

    compute = compiled(loss) if args.contestant in device.MODES and not on_cpu else loss

    saved = contextlib.nullcontext
    if args.recipe == "activations":
        saved = functools.partial(torch.autograd.graph.save_on_cpu, pin_memory=not on_cpu)

    def in_precision(x, y):
        with saved(), torch.autocast(torch.device(args.device).type, torch.bfloat16, enabled=mixed):
            return compute(x, y)
    return in_precision


def trained_model(args):
    """Makes the model on its device, with the weights of all contestants. A GPT is made without
    memory first: its own first weights would take seconds."""
    with torch.device("meta" if args.model == "gpt" else "cpu"):
        model = make_model(args)
    if args.model == "gpt":
        model.to_empty(device="cpu")
    read_weights(args, model)
    return model.to(args.device)


def make_optimizer(args, model):
    if args.recipe == "8bit":
        import torchao.optim  # installed by who wants it
        return torchao.optim.AdamW8bit(model.parameters(), lr=1e-3)
    return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)


def make_step(args, memory):
    model = trained_model(args)
    optimizer = make_optimizer(args, model)
    loss_of = make_loss(args, model)
    # Under CUDA graphs the gradients of a microbatch lie in memory that the next one writes, so
    # they are added to memory of the parameters' own.
    drops = args.accumulate == 1 or args.contestant != "reduce-overhead"
    for p in () if drops else model.parameters():
        p.grad = torch.zeros_like(p)

    def accumulated(inputs, targets):
        mean = 0
        for x, y in zip(inputs.chunk(args.accumulate), targets.chunk(args.accumulate)):
            loss = loss_of(x, y) / args.accumulate
            loss.backward()
            mean = mean + loss.detach()
        return mean

    def at_once(inputs, targets):
        memory.forward_begins()
        loss = loss_of(inputs, targets)
        memory.forward_ended()
        loss.backward()
        return loss.detach()

    backward = accumulated if args.accumulate > 1 else at_once

    def step(inputs, targets):
        optimizer.zero_grad(set_to_none=drops)
        mean = backward(inputs, targets)
        if args.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return mean
    return step


def main():
    torch.set_num_threads(1)
    rows = list(device.split(sys.argv[1:]))
    for args in map(parse, rows):
        args.device = args.device or "cpu"
        if args.contestant == "data":
            write_data(args)
        else:
            memory = device.Bytes(args.counter)
            device.Session(args, make_step(args, memory), read_batches(args), memory).serve()


if __name__ == "__main__":
    main()
