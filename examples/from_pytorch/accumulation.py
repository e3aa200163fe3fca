"""Gradient accumulation: several batches of a loader make one update. The batches are ragged and
some targets are masked, so the choice of the divisor matters."""

import torch
import torch.nn.functional as F
from side_by_side import net, some_batches
from torch import nn


def ragged_batches(batches):
    """Batches of 3 to 8 rows; in every other one the last two targets are masked."""
    loader = []
    for i, (input, target) in enumerate(some_batches(batches)):
        rows = 3 + i * 5 % 6
        if i % 2:
            target[rows - 2 : rows] = -100
        loader.append((input[:rows], target[:rows]))
    return loader


def start():
    model = net()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


loader = ragged_batches(10)
model, optimizer = start()

for i, (input, target) in enumerate(loader):
    loss = F.cross_entropy(model(input), target) / 4
    loss.backward()
    if (i + 1) % 4 == 0 or i + 1 == len(loader):
        optimizer.step()
        optimizer.zero_grad()

means_of_means = [*model.parameters()]
model, optimizer = start()

for i in range(0, len(loader), 4):
    group = loader[i : i + 4]
    count = sum((target != -100).sum() for _, target in group)
    for input, target in group:
        loss = F.cross_entropy(model(input), target, reduction="sum") / count
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()

trained = [*model.parameters()]
assert not all(torch.allclose(a, b, atol=1e-3) for a, b in zip(trained, means_of_means))
