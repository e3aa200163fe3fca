"""Fine-tuning: a backbone that is frozen for ten steps and then learns ten times slower than the
head; its batch norm keeps its pretrained statistics."""

import torch
import torch.nn.functional as F
from side_by_side import some_batches
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.backbone(x))


loader = some_batches(20)
torch.manual_seed(1)
model = Classifier()
model(torch.randn(32, 4))

model.backbone.requires_grad_(False)
model.backbone.eval()
optimizer = torch.optim.AdamW(
    [{"params": model.backbone.parameters(), "lr": 1e-3}, {"params": model.head.parameters()}],
    lr=1e-2,
)
for step, (input, target) in enumerate(loader):
    if step == 10:
        model.backbone.requires_grad_(True)
    optimizer.zero_grad()
    F.cross_entropy(model(input), target).backward()
    optimizer.step()

trained = [*model.parameters()]
