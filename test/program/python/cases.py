"""What is exported and trained: each model with its batches, its loss and its dynamic sizes.

A batch is a dict of tensors: the inputs of `forward` by name, nested ones with a dot between, and
`target`, which only the loss reads.
"""

import dataclasses
from typing import Any, Callable

import models
import torch
import torch.nn.functional as F
import unusual_models as unusual
from torch.export import Dim

ROWS = Dim("rows", min=2, max=4096)
INSIDE = "inside"  # the model returns its loss


def classes_last(logits, target, reduction):
    return F.cross_entropy(logits.flatten(0, -2), target.flatten(), reduction=reduction)


LOSSES = {
    "cross_entropy": lambda x, y, reduction: F.cross_entropy(x, y, reduction=reduction),
    "cross_entropy.last": classes_last,
    "mse": lambda x, y, reduction: F.mse_loss(x, y, reduction=reduction),
    "bce": lambda x, y, reduction: F.binary_cross_entropy_with_logits(x, y, reduction=reduction),
}


@dataclasses.dataclass
class Case:
    """`make` gives the model, `draw` a batch; `dynamic` names sizes as torch.export does."""

    make: Callable[[], torch.nn.Module]
    draw: Callable[[], dict[str, Any]]
    loss: str
    dynamic: Any
    output: str = ""  # which output is compared with the target
    kwargs: tuple = ()  # inputs that are given by name
    decomposed: bool = False
    long: bool = False  # not a part of `ctest`
    half: bool = True  # also trained in BF16
    # The reference is the graph, since eager Python calls other kernels. Not in BF16: in Python the
    # graph's checks of dtypes fail under autocast.
    by_graph: bool = False
    steps: int = 50


def numbers(*sizes):
    return torch.randn(*sizes)


def below(n, *sizes):
    return torch.randint(n, sizes)


def tokens(symbols, rows, length):
    text = below(symbols, rows, length + 1)
    return {"tokens": text[:, :-1].clone(), "target": text[:, 1:].clone()}


def images(rows, size, classes, channels=3):
    return {"images": numbers(rows, channels, size, size), "target": below(classes, rows)}


def pixels(rows, size, classes, channels=3):
    return {"images": numbers(rows, channels, size, size),
            "target": below(classes, rows, size, size)}


def clicks(rows):
    return {"dense": numbers(rows, 6), "sparse": below(20, rows, 3, 2),
            "target": below(2, rows).float()}


def columns(rows, width, classes):
    return {"x": numbers(rows, width), "target": below(classes, rows)}


def tagged(rows, length):
    text = below(40, rows, length)
    return {"tokens": text, "target": (text * 7 + 1) % 5}


def pooled(rows):
    mask = torch.rand(rows, 5) > 0.3
    return {"features.left": numbers(rows, 5, 8), "features.right": numbers(rows, 5, 8),
            "mask": mask, "target": below(4, rows)}


def masked(rows):
    text = below(32, rows, 7)
    return {"tokens": text, "labels": text.roll(-1, 1).masked_fill(torch.rand(rows, 7) < 0.3, -100)}


def in_order(names):
    return [{0: ROWS} for _ in range(names)]


CASES = {
    "gpt": Case(models.GPT, lambda: tokens(64, 8, 16), "cross_entropy.last",
                [{0: ROWS, 1: Dim("length", min=2, max=16)}]),
    "resnet": Case(models.ResNet, lambda: images(8, 16, 5), "cross_entropy", in_order(1)),
    "lstm": Case(models.Tagger, lambda: tagged(8, 9), "cross_entropy.last", in_order(1),
                 half=False),
    "vit": Case(models.ViT, lambda: images(8, 16, 5), "cross_entropy", in_order(1)),
    "vae": Case(models.VAE, lambda: {"images": torch.rand(8, 1, 8, 8)}, INSIDE, in_order(1)),
    "mlp": Case(models.MLP, lambda: {"input": numbers(16, 16), "target": numbers(16, 16)}, "mse",
                in_order(1)),
    "unet": Case(models.UNet, lambda: pixels(8, 16, 3), "cross_entropy", in_order(1), long=True),
    "dlrm": Case(models.DLRM, lambda: clicks(16), "bce", in_order(2), long=True),
    "pooled": Case(
        models.Pooled, lambda: pooled(8), "cross_entropy",
        {"features": {"left": {0: ROWS}, "right": {0: ROWS}}, "mask": {0: ROWS}},
        output="logits", kwargs=("mask",), long=True),
    "shared": Case(models.Shared, lambda: columns(8, 16, 4), "cross_entropy", in_order(1),
                   long=True),
    "rotary": Case(models.RotaryGPT, lambda: tokens(48, 8, 12), "cross_entropy.last",
                   [{0: ROWS, 1: Dim("length", min=2, max=64)}], long=True),
    "regions": Case(models.Regions, lambda: columns(8, 16, 4), "cross_entropy", in_order(1),
                    long=True),
    "masked": Case(models.Masked, lambda: masked(8), INSIDE, in_order(2), half=False, long=True),
    "windowed": Case(
        models.Windowed, lambda: {"x": numbers(8, 11, 8), "target": below(3, 8)}, "cross_entropy",
        [{0: ROWS, 1: Dim("length", min=5, max=64)}], long=True),
    "spectral": Case(
        unusual.Spectral, lambda: {"input": numbers(8, 16), "target": below(4, 8)},
        "cross_entropy", in_order(1), long=True),
    "wave": Case(unusual.Wave, lambda: {"x": numbers(8, 1, 20), "target": numbers(8, 1, 20)}, "mse",
                 in_order(1), long=True),
    "quantized": Case(unusual.VectorQuantized, lambda: {"x": numbers(8, 8)}, INSIDE, in_order(1),
                      half=False, long=True),
    "noisy": Case(unusual.Noisy, lambda: columns(8, 16, 4), "cross_entropy", in_order(1),
                  half=False, long=True),
    "complex": Case(unusual.Complex, lambda: {"x": numbers(8, 6, 8), "target": below(3, 8, 6)},
                    "cross_entropy.last", in_order(1), half=False, long=True),
    "shifted": Case(unusual.Shifted, lambda: {"x": numbers(8, 4, 4, 8), "target": below(5, 8)},
                    "cross_entropy", in_order(1), half=False, long=True),
    "warped": Case(unusual.Warped, lambda: pixels(8, 8, 3, 1), "cross_entropy",
                   in_order(1), half=False, long=True),
    "normed": Case(models.Normed, lambda: columns(8, 16, 4), "cross_entropy", in_order(1)),
    "decomposed": Case(models.Normed, lambda: columns(8, 16, 4), "cross_entropy", in_order(1),
                       decomposed=True),
}


def inputs_of(case, batch):
    """Returns the arguments of forward: `features.left` is the entry left of the dict features."""
    given = {}
    for name, x in batch.items():
        if name == "target":
            continue
        head, dot, key = name.partition(".")
        if dot:
            given.setdefault(head, {})[key] = x
        else:
            given[name] = x
    kwargs = {name: given.pop(name) for name in case.kwargs}
    return tuple(given.values()), kwargs


def loss_of(case, outputs, batch):
    """The loss as a Python user computes it, its sum and the number of items in it."""
    if case.loss == INSIDE:
        total, count = outputs["sum"], outputs["count"]
        return total / count, total, count
    if case.output:
        outputs = outputs[case.output]
    target, loss = batch["target"], LOSSES[case.loss]
    items = (target != -100).sum() if target.dtype == torch.int64 else target.numel()
    total = loss(outputs, target, "sum")
    # Its mean adds in another order than its sum; docs/parity.md has such rows.
    mean = total / items if case.loss == "bce" else loss(outputs, target, "mean")
    return mean, total, items
