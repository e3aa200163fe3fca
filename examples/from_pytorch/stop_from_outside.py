"""Stops from another thread: a window's button, a signal, a time limit."""

import threading

import torch
import torch.nn.functional as F
from side_by_side import net, some_batches
from torch import nn

loader = some_batches(40)
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
tenth_step = threading.Event()


def on_step(step):
    """For the test: the tenth step lasts until the stop is requested."""
    if step == 9:
        tenth_step.set()
        stop.wait()


stop = threading.Event()


def train():
    for step, (input, target) in enumerate(loader):
        optimizer.zero_grad()
        F.cross_entropy(model(input), target).backward()
        optimizer.step()
        on_step(step)
        if stop.is_set():
            break


training = threading.Thread(target=train)
training.start()
tenth_step.wait()
stop.set()
training.join()

trained = [*model.parameters()]
