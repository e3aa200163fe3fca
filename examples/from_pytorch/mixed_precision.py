"""Mixed precision: autocast around forward, and with FP16 a loss scale reduced on overflow."""

import torch
import torch.nn.functional as F
from side_by_side import net, some_batches
from torch import nn

loader = some_batches(40)
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

scaler = torch.amp.GradScaler("cpu", init_scale=2**20, growth_interval=8)
for input, target in loader:
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.cross_entropy(model(input), target)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()

trained = [*model.parameters()]
