"""Loads the weights that train.cpp wrote into the same model and compares the predictions.

Usage: read_weights.py FOLDER
"""

import pathlib
import sys

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(8, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + self.conv2(F.gelu(self.norm(self.conv1(x))))


class Reader(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.block1 = ResidualBlock(width)
        self.block2 = ResidualBlock(width)
        self.block3 = ResidualBlock(width)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.stem(x))))
        return self.head(self.dropout(x.amax((2, 3))))


folder = pathlib.Path(sys.argv[1])
model = Reader()
model.load_state_dict(load_file(folder / "weights.safetensors"))
model.eval().requires_grad_(False)

sample = load_file(folder / "sample.safetensors")
output, expected = model(sample["input"]), sample["output"]
same = (output.argmax(1) == expected.argmax(1)).sum().item()
print(f"{same} of {len(expected)} digits are read as in C++")
torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)

torch.jit.trace(model, sample["input"]).save(folder / "model.ts")
loaded = torch.jit.load(folder / "model.ts")
print("TorchScript gives the same:", torch.equal(loaded(sample["input"]), output))
