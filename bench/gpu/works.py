"""What gpu.py trains, by which contestants and how it is timed; and the arithmetic of a step."""

import dataclasses
import functools

from rows import Row

CONTESTANTS = ["ikebana", "captured", "expert", "python", "compile", "reduce-overhead"]
IN_CPP = ["ikebana", "captured", "expert"]
ON_CPU = [*IN_CPP, "python"]
CHOICES = {"none": "none", "full": "Checkpoint<Full>", "selective": "Checkpoint<Selective>",
           "segments": "Checkpoint<Segments<>>"}
SIDES = ["ikebana", "python"]
OFFLOADS = {"none": "none", "activations": "Offload<CPU, Activations>",
            "state": "Offload<CPU, OptimizerState>", "parameters": "Offload<CPU>"}
# In Python `activations` is `save_on_cpu(pin_memory=True)`; PyTorch has no more of its own.
MOVES = [("ikebana", choice) for choice in OFFLOADS] + [("python", "none"),
                                                        ("python", "activations")]
# A multiple of 64, to which GPT-2's 50257 symbols are padded: rows of its head begin at addresses
# that tensor cores read without a copy. All contestants have the same.
VOCABULARY = 50304


@dataclasses.dataclass(frozen=True)
class Work:
    name: str
    row: Row
    compared: int = 20  # steps after the first four, at whose end the losses are compared again
    profiled: int = 5  # steps in a trace
    alone: bool = False  # in memory: each contestant is launched for each round and ends after it
    fits: bool = False  # the number of rows is the largest of which a step fits into memory

    def per_step(self):
        return self.row.rows * (self.row.context if self.row.model == "gpt" else 1)

    def unit(self):
        return {"gpt": "tokens", "resnet": "images", "mlp": "rows"}[self.row.model]

    def replace(self, **fields):
        return dataclasses.replace(self, row=dataclasses.replace(self.row, **fields))


def row(model, width, rows, **fields):
    return Row("", model, width, rows, precision="bf16", **fields)


def gpt2(rows, **fields):
    return row("gpt", 768, rows, layers=12, heads=12, context=1024, symbols=VOCABULARY, batches=2,
               **fields)


# The works are in the order of the table. `steps` is the number in a round.
MLP = Work("MLP 3x256, B 256", row("mlp", 256, 256, steps=300, rounds=6), profiled=20)
SMALL = Work("GPT 4x128, T 64, B 12",
             row("gpt", 128, 12, layers=4, heads=4, context=64, steps=100, rounds=6), profiled=10)
RESNET = Work("ResNet-18, 224x224, B 256",
              row("resnet", 64, 256, context=224, symbols=1000, batches=2, steps=8, rounds=5),
              compared=4)
GPT2 = Work("GPT-2 124M, T 1024, B 64", gpt2(64, steps=6, rounds=3), compared=2, profiled=3,
            alone=True)
LARGEST = Work("GPT-2 124M, T 1024, B as memory allows", gpt2(64, steps=6, rounds=3), compared=2,
               profiled=3, alone=True, fits=True)
WORKS = [MLP, SMALL, RESNET, GPT2, LARGEST]
CHECKPOINT = Work("GPT-2 124M, T 1024, B 8", gpt2(8, steps=8, rounds=5), compared=2)


def on_cpu(work):
    """The same in sizes that a CPU does in no time."""
    sizes = {"mlp": dict(width=16, rows=16), "resnet": dict(width=8, rows=8, context=64),
             "gpt": dict(width=32, rows=8, layers=3, heads=2, context=16)}[work.row.model]
    symbols = {1000: 10, VOCABULARY: 320}.get(work.row.symbols, 0)
    accumulate = 2 if work.alone else 1
    small = work.replace(**sizes, symbols=symbols, accumulate=accumulate, steps=2, rounds=1)
    return dataclasses.replace(small, compared=4, profiled=2, alone=False)


@functools.cache
def flops_of_two_rows(of):
    """Products of a forward and backward with two rows, attention in full, as PyTorch's counter has
    them, which counts on tensors without memory. Attention is two products for each head there."""
    import torch
    from contestants import make_forward, make_model
    from torch.utils.flop_counter import FlopCounterMode
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        forward = make_forward(of, make_model(of))
        if of.model == "gpt":
            batch = torch.zeros(2, of.context, dtype=torch.int64)
        elif of.model == "resnet":
            batch = torch.zeros(2, 3, of.context, of.context)
        else:
            batch = torch.zeros(2, of.width)
        forward(batch).sum().backward()
    return counter.get_total_flops()


def flops(work):
    return work.row.rows / 2 * flops_of_two_rows(dataclasses.replace(work.row, rows=2))
