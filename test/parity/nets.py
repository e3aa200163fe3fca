"""Python twins of examples/gpt.hpp and test/parity/nets.hpp: their state dicts match by name.

`loss_sum(batch, run)` gives a sum and the number of items in it. `run(unit, x)` is put around each
unit, as in ikebana: `plain` calls it, `checkpointed` computes its activations again in backward.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def plain(unit, x):
    return unit(x)


def checkpointed(unit, x):
    return checkpoint(unit, x, use_reentrant=False)


def cross_entropy(logits, target):
    """Summed over the targets that are not masked by -100."""
    return F.cross_entropy(logits, target, reduction="sum"), (target != -100).sum()


def squared_error(output, target):
    return F.mse_loss(output, target, reduction="sum"), target.numel()


class Net(nn.Module):
    """A model with one unit, itself; its objective is a function of output and target."""

    objective = staticmethod(cross_entropy)

    def loss_sum(self, batch, run=plain):
        return self.objective(run(self, batch[0]), batch[1])


class MLP(nn.Sequential):
    """Linear layers, all `width` wide, with GELU between them; each layer is a unit."""

    objective = staticmethod(cross_entropy)

    def __init__(self, width, layers=3, dropout=0.0):
        between = [nn.GELU(), *([nn.Dropout(dropout)] if dropout > 0 else [])]
        layers = [[nn.Linear(width, width), *between] for _ in range(layers - 1)]
        super().__init__(*(layer for group in layers for layer in group), nn.Linear(width, width))

    def loss_sum(self, batch, run=plain):
        x = batch[0]
        for layer in self:
            x = run(layer, x)
        return self.objective(x, batch[1])


class ConvNet(Net):
    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(2 * width)
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.conv1(x))), 2)
        x = F.relu(self.norm2(self.conv2(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Tagger(Net):
    def __init__(self, symbols, width, classes):
        super().__init__()
        self.embed = nn.Embedding(symbols, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.lstm(self.embed(x))[0]).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.drop(self.out(self.attend(self.qkv(self.norm1(x)))))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))

    def attend(self, x):
        q, k, v = x.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
        p = self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return y.transpose(1, 2).flatten(2)

    def drop(self, x):
        return F.dropout(x, self.p, self.training)


class GPT(nn.Module):
    """A byte-level GPT; each block is a unit, and the embedding is also the head."""

    def __init__(self, layers=4, width=128, heads=4, context=64, dropout=0.0):
        super().__init__()
        self.token = nn.Embedding(256, width)
        self.position = nn.Embedding(context, width)
        self.blocks = [f"block{i}" for i in range(layers)]
        for name in self.blocks:
            self.add_module(name, Block(width, heads, dropout))
        self.norm = nn.LayerNorm(width)
        self.initialise(0.02, 0.02 / (2 * layers) ** 0.5)

    def initialise(self, std, residual):
        """As GPT-2: small weights, and what is added to the residual smaller the deeper the model."""
        for name, p in self.named_parameters():
            if p.ndim > 1:
                nn.init.normal_(p, 0, residual if name.endswith(("out.weight", "down.weight")) else std)
            elif not name.rsplit(".", 2)[-2].startswith("norm"):
                nn.init.zeros_(p)

    def forward(self, tokens, run=plain):
        x = self.token(tokens) + self.position.weight[: tokens.size(1)]
        for name in self.blocks:
            x = run(getattr(self, name), x)
        return F.linear(self.norm(x), self.token.weight)

    def loss_sum(self, batch, run=plain):
        logits, target = self.forward(batch[0], run).flatten(0, 1), batch[1].flatten()
        return F.cross_entropy(logits, target, reduction="sum"), target.numel()
