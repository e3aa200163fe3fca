"""The training loop has a model, a loss, an optimizer, a schedule, clipping, and an evaluation."""

import torch
import torch.nn.functional as F
from side_by_side import net, some_batches
from torch import nn

loader = some_batches(40)
model = net()

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
for input, target in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(input), target)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()

model.eval()
with torch.no_grad():
    losses = [F.cross_entropy(model(input), target) for input, target in loader]
model.train()
loss = sum(losses) / len(losses)

trained = [*model.parameters()]
