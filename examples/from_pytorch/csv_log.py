"""Writes a log to a file: one line of comma-separated values per step."""

import csv
import os
import tempfile

import torch
import torch.nn.functional as F
from side_by_side import net, some_batches
from torch import nn

steps_csv = os.path.join(tempfile.mkdtemp(), "steps.csv")
loader = some_batches(40)
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

with open(steps_csv, "w", newline="") as file:
    log = csv.writer(file)
    log.writerow(["step", "loss", "lr", "grad_norm"])
    for step, (input, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(input), target)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        log.writerow([step, loss.item(), optimizer.param_groups[0]["lr"], norm.item()])

trained = [*model.parameters()]
with open(steps_csv) as file:
    assert len(file.readlines()) == 41
