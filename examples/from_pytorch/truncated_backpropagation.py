"""Truncated backpropagation through time: the state of a recurrent net is passed from window to
window, without gradients."""

import torch
import torch.nn.functional as F
from torch import nn


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x, state):
        hidden, after = self.lstm(x, state)
        return self.head(hidden).squeeze(2), after


torch.manual_seed(0)
song, wanted = torch.randn(4, 120, 3), torch.randn(4, 120)
loader = zip(song.split(10, dim=1), wanted.split(10, dim=1))
torch.manual_seed(1)
model = Recurrent()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

state = None
for input, target in loader:
    optimizer.zero_grad()
    output, state = model(input, state)
    F.mse_loss(output, target).backward()
    optimizer.step()
    state = [s.detach() for s in state]

trained = [*model.parameters()]
