"""Trains by LBFGS: steps of AdamW on batches, then an optimizer that computes the loss several
times."""

import torch
import torch.nn.functional as F
from side_by_side import net, some_batches

loader = some_batches(20)
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for input, target in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(input), target).backward()
    optimizer.step()

input, target = (torch.cat(parts) for parts in zip(*loader))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=6)


def closure():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(input), target)
    loss.backward()
    return loss


optimizer.step(closure)

trained = [*model.parameters()]
