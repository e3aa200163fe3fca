"""Defines the Python twin of resnet.hpp, with the same order of parameters."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def convolution(fan_in, fan_out, size, stride):
    return nn.Conv2d(fan_in, fan_out, size, stride=stride, padding=size // 2, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, fan_in, fan_out, stride):
        super().__init__()
        self.conv1 = convolution(fan_in, fan_out, 3, stride)
        self.norm1 = nn.BatchNorm2d(fan_out)
        self.conv2 = convolution(fan_out, fan_out, 3, 1)
        self.norm2 = nn.BatchNorm2d(fan_out)
        self.project = self.norm3 = None
        if fan_in != fan_out or stride != 1:
            self.project = convolution(fan_in, fan_out, 1, stride)
            self.norm3 = nn.BatchNorm2d(fan_out)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        y += x if self.project is None else self.norm3(self.project(x))
        return F.relu(y, inplace=True)


class ResNet(nn.Module):
    """A ResNet-18 if `width` is 64. For small images it has another first layer."""

    def __init__(self, width, classes, small):
        super().__init__()
        self.small = small
        self.stem = convolution(3, width, 3, 1) if small else convolution(3, width, 7, 2)
        self.norm = nn.BatchNorm2d(width)
        fan_in = width
        for i in range(8):
            stride = 2 if i % 2 == 0 and i > 0 else 1
            self.add_module(f"block{i}", BasicBlock(fan_in, width << i // 2, stride))
            fan_in = width << i // 2
        self.head = nn.Linear(8 * width, classes)
        self.to(memory_format=torch.channels_last)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)), inplace=True)
        if not self.small:
            x = F.max_pool2d(x, 3, stride=2, padding=1)
        for i in range(8):
            x = getattr(self, f"block{i}")(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
