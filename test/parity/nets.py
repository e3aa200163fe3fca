"""Python references of examples/models/gpt.hpp and test/parity/nets.hpp: state dicts match by name.

`loss_mean(batch, run)` is the loss as usual in PyTorch; `loss_sum` returns a sum and the number of
items in it. `run(unit, x)` wraps each unit, as in ikebana: `plain` calls it, `checkpointed`
recomputes its activations in backward.
"""

import functools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


def plain(unit, x):
    return unit(x)


def checkpointed(unit, x, **options):
    """Recomputes, but not with batch norm, because PyTorch's recompute updates its statistics a
    second time."""
    if any(True for _ in unit.buffers()):
        return unit(x)
    return checkpoint(unit, x, use_reentrant=False, **options)


def selective(unit, x):
    """Keeps the outputs of matrix products and attention."""
    forms = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
    attention = [f"_scaled_dot_product_{form}" for form in forms]
    kept = [getattr(torch.ops.aten, name).default for name in ("mm", "addmm", "bmm", *attention)]
    contexts = functools.partial(create_selective_checkpoint_contexts, kept)
    return checkpointed(unit, x, context_fn=contexts)


class CrossEntropy:
    def __init__(self, ignore_index=-100, label_smoothing=0.0, class_dim=1):
        self.options = {"ignore_index": ignore_index, "label_smoothing": label_smoothing}
        self.last = class_dim == -1

    def __call__(self, logits, target, reduction):
        if self.last:
            logits, target = logits.flatten(0, -2), target.flatten()
        return F.cross_entropy(logits, target, reduction=reduction, **self.options)

    def count(self, target):
        """Returns the number of targets that are not masked by `ignore_index`."""
        return (target != self.options["ignore_index"]).sum()


class SquaredError:
    def __call__(self, output, target, reduction):
        return F.mse_loss(output, target, reduction=reduction)

    def count(self, target):
        return target.numel()


class BinaryCrossEntropy:
    def __init__(self, weight=None, pos_weight=None):
        given = {"weight": weight, "pos_weight": pos_weight}
        self.weights = {name: torch.tensor(x) for name, x in given.items() if x}

    def __call__(self, logits, target, reduction):
        options = {name: x.to(logits) for name, x in self.weights.items()}
        options["reduction"] = reduction
        return F.binary_cross_entropy_with_logits(logits, target, **options)

    def count(self, target):
        return target.numel()


class Divergence:
    """Its mean is over rows."""

    def __init__(self, log_target=False):
        self.log_target = log_target

    def __call__(self, output, target, reduction):
        reduction = {"mean": "batchmean"}.get(reduction, reduction)
        return F.kl_div(output, target, reduction=reduction, log_target=self.log_target)

    def count(self, target):
        return target.size(0)


class Net(nn.Module):
    """A model with one unit, itself. A batch is a pair of input and target."""

    objective = CrossEntropy()

    def by_unit(self):
        """Returns parameters of no unit, then unit by unit, which is the order in which ikebana
        sums."""
        return list(self.parameters())

    def outputs(self, x, run):
        return run(self, x)

    def targets(self, batch):
        return batch[1]

    def count(self, batch):
        return self.objective.count(batch[1])

    def loss(self, batch, run, reduction):
        if hasattr(self.objective, "of_batch"):  # which has other fields than input and target
            return self.objective.of_batch(lambda x: self.outputs(x, run), batch, reduction)
        return self.objective(self.outputs(batch[0], run), self.targets(batch), reduction)

    def loss_mean(self, batch, run=plain):
        return self.loss(batch, run, "mean")

    def loss_sum(self, batch, run=plain):
        return self.loss(batch, run, "sum"), self.count(batch)


class MLP(Net, nn.Sequential):
    """Linear layers, all `width` wide, with GELU between them; each layer is a unit."""

    def __init__(self, width, layers=3, dropout=0.0, log_softmax=False, sigmoid=False):
        net = []
        for i in range(layers):
            net += [nn.GELU()] if i > 0 else []
            net += [nn.Dropout(dropout)] if i > 0 and dropout > 0 else []
            net += [nn.Linear(width, width)]
        net += [nn.LogSoftmax(-1)] if log_softmax else []
        net += [nn.Sigmoid()] if sigmoid else []
        super().__init__(*net)

    def outputs(self, x, run):
        for layer in self:
            x = run(layer, x)
        return x


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
    linear = staticmethod(nn.Linear.__call__)

    def __init__(self, symbols, width, classes):
        super().__init__()
        self.embed = nn.Embedding(symbols, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.linear(self.head, self.lstm(self.embed(x))[0]).transpose(1, 2)


class Bag(Net):
    def __init__(self, symbols, width, classes):
        super().__init__()
        self.embed = nn.EmbeddingBag(symbols, width, sparse=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.embed(x))


class Block(nn.Module):
    attention = staticmethod(F.scaled_dot_product_attention)

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
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))

    def attend(self, x):
        q, k, v = x.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind()
        p = self.p if self.training else 0.0
        y = self.attention(q, k, v, dropout_p=p, is_causal=True)
        return y.transpose(1, 2).flatten(2)

    def drop(self, x):
        return F.dropout(x, self.p, self.training)


class GPT(Net):
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
        """As GPT-2: the weights of branches added to the residual are smaller in deeper models."""
        for name, p in self.named_parameters():
            if p.ndim > 1:
                adds = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, 0, residual if adds else std)
            elif not name.rsplit(".", 2)[-2].startswith("norm"):
                nn.init.zeros_(p)

    def by_unit(self):
        named = sorted(self.named_parameters(), key=lambda item: item[0].startswith("block"))
        return [p for _, p in named]

    def forward(self, tokens, run=plain):
        x = self.token(tokens) + self.position.weight[: tokens.size(1)]
        for name in self.blocks:
            x = run(getattr(self, name), x)
        return F.linear(self.norm(x), self.token.weight)

    def outputs(self, tokens, run):
        return self(tokens, run).flatten(0, 1)

    def targets(self, batch):
        return batch[1].flatten()

    def count(self, batch):
        return batch[1].numel()


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
