"""Python references of test/parity/more_nets.hpp."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from nets import Net


def conv(fan_in, fan_out, size, stride):
    return nn.Conv2d(fan_in, fan_out, size, stride=stride, padding=size // 2, bias=False)


class ResBlock(nn.Module):
    def __init__(self, fan_in, fan_out, stride):
        super().__init__()
        self.conv1 = conv(fan_in, fan_out, 3, stride)
        self.norm1 = nn.BatchNorm2d(fan_out)
        self.conv2 = conv(fan_out, fan_out, 3, 1)
        self.norm2 = nn.BatchNorm2d(fan_out)
        same = fan_in == fan_out and stride == 1
        self.project = None if same else conv(fan_in, fan_out, 1, stride)

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + (self.project(x) if self.project else x))


class ResNet(Net):
    """A small ResNet in channels_last; each block is a unit."""

    def __init__(self, width, classes):
        super().__init__()
        self.stem = conv(3, width, 3, 1)
        self.norm = nn.BatchNorm2d(width)
        self.block0 = ResBlock(width, width, 1)
        self.block1 = ResBlock(width, 2 * width, 2)
        self.block2 = ResBlock(2 * width, 4 * width, 2)
        self.head = nn.Linear(4 * width, classes)
        self.to(memory_format=torch.channels_last)

    def outputs(self, x, run):
        x = F.relu(self.norm(self.stem(x.contiguous(memory_format=torch.channels_last))))
        for block in (self.block0, self.block1, self.block2):
            x = run(block, x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class LSTMLanguage(Net):
    """Two recurrent layers; the embedding is also the head."""

    def __init__(self, symbols, width):
        super().__init__()
        self.embed = nn.Embedding(symbols, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)

    def forward(self, x):
        return F.linear(self.lstm(self.embed(x))[0], self.embed.weight).transpose(1, 2)
