"""Small models that do what few models do: buffers that training changes, random numbers of all
kinds, complex numbers, parameters that are computed, windows and grids."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrizations


class Spectral(nn.Sequential):
    """Each forward in training writes to buffers, within no_grad, before it reads the weights."""

    def __init__(self, width=16, classes=4):
        super().__init__(
            parametrizations.spectral_norm(nn.Linear(width, width)), nn.LeakyReLU(0.2),
            parametrizations.spectral_norm(nn.Linear(width, classes)),
        )


class Wave(nn.Module):
    """Causal convolutions, whose weights are computed from a direction and a length."""

    def __init__(self, width=8, layers=3):
        super().__init__()
        self.enter = nn.Conv1d(1, width, 1)
        self.layers = nn.ModuleList(
            parametrizations.weight_norm(nn.Conv1d(width, 2 * width, 3, dilation=2**i))
            for i in range(layers))
        self.exit = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        x = self.enter(x)
        for i, layer in enumerate(self.layers):
            y, gate = layer(F.pad(x, (2 * 2**i, 0))).chunk(2, 1)
            x = x + torch.tanh(y) * torch.sigmoid(gate)
        return self.exit(x)


class VectorQuantized(nn.Module):
    """Training moves the code book, counts its entries and its steps; evaluation does not."""

    def __init__(self, width=8, codes=16, size=4):
        super().__init__()
        self.encode, self.decode = nn.Linear(width, size), nn.Linear(size, width)
        self.register_buffer("book", torch.randn(codes, size))
        self.register_buffer("sizes", torch.ones(codes))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        z = self.encode(x)
        index = (z[:, None] - self.book).square().sum(-1).argmin(-1)
        code = self.book[index]
        if self.training:
            chosen = F.one_hot(index, len(self.book)).float()
            self.sizes.mul_(0.9).add_(chosen.sum(0), alpha=0.1)
            found = chosen.T @ z.detach() / self.sizes[:, None]
            self.book.copy_(0.9 * self.book + 0.1 * found)
            self.steps += 1
        decoded = self.decode(z + (code - z).detach())
        loss = (decoded - x).square().sum() + 0.25 * (code.detach() - z).square().sum()
        return {"sum": loss, "count": x.numel()}


class Noisy(nn.Module):
    """Random numbers of many kinds; the noise of rrelu is drawn after autograd has saved it."""

    def __init__(self, width=16, classes=4):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.noises = nn.ModuleList(
            [nn.RReLU(), nn.AlphaDropout(0.1), nn.FeatureAlphaDropout(0.1), nn.Dropout1d(0.1)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        for layer, noise in zip(self.layers, self.noises, strict=True):
            x = x + noise(layer(x))
        if self.training:
            keep = torch.empty(x.shape[0], 1).bernoulli_(0.8)
            x = x * keep / 0.8 + 0.1 * torch.randn_like(x) + 0.1 * torch.rand(x.shape)
            x = x + 0.01 * torch.poisson(torch.ones_like(x)) + 0.01 * torch.randint(3, x.shape)
        return F.gumbel_softmax(self.head(x), tau=0.7, hard=True) + self.head(x)


class Complex(nn.Module):
    """Rotations by complex numbers, and a spectrum with weights."""

    def __init__(self, length=6, width=8, classes=3):
        super().__init__()
        self.q = nn.Linear(width, width)
        angles = torch.outer(torch.arange(length).float(), torch.rand(width // 2))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))
        self.filter = nn.Parameter(0.1 * torch.randn(length, width // 2 + 1, 2))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        pairs = self.q(x).unflatten(-1, (x.shape[-1] // 2, 2))
        turned = torch.view_as_real(torch.view_as_complex(pairs) * self.turns).flatten(-2)
        spectrum = torch.fft.rfft(x) * torch.view_as_complex(self.filter)
        return self.head(turned + torch.fft.irfft(spectrum, n=x.shape[-1]))


class Shifted(nn.Module):
    """Attention within windows that are shifted, with a table of relative positions."""

    def __init__(self, width=8, heads=2, classes=5, window=2):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(width, 3 * width)
        self.table = nn.Parameter(0.1 * torch.randn((2 * window - 1) ** 2, heads))
        at = torch.cartesian_prod(torch.arange(window), torch.arange(window)).T
        apart = at[:, :, None] - at[:, None] + window - 1
        self.register_buffer("index", apart[0] * (2 * window - 1) + apart[1])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        n, w = x.shape[1] // self.window, self.window
        y = torch.roll(x, (-1, -1), (1, 2)).unflatten(2, (n, w)).unflatten(1, (n, w))
        y = y.transpose(2, 3).flatten(3, 4).flatten(0, 2)
        q, k, v = self.qkv(y).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index].permute(2, 0, 1)
        y = (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1) @ v
        y = y.transpose(1, 2).flatten(2).unflatten(1, (w, w)).unflatten(0, (-1, n, n))
        y = y.transpose(2, 3).flatten(3, 4).flatten(1, 2)
        return self.head((x + torch.roll(y, (1, 1), (1, 2))).mean((1, 2)))


class Warped(nn.Module):
    """Grids, resizing, pooling with indices, windows of an image and back."""

    def __init__(self, size=8, width=4, classes=3):
        super().__init__()
        self.enter = nn.Conv2d(1, width, 3, padding=1)
        self.pool, self.unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
        self.warp = nn.Linear(size * size, 6)
        nn.init.normal_(self.warp.weight, std=0.01)
        self.warp.bias.data = torch.tensor([1.0, 0, 0, 0, 1, 0])
        self.exit = nn.Conv2d(width, 4 * classes, 3, padding=2, dilation=2)

    def forward(self, x):
        size = x.shape[-2:]
        grid = F.affine_grid(self.warp(x.flatten(1)).unflatten(1, (2, 3)), x.shape,
                             align_corners=False)
        x = F.grid_sample(x, grid, align_corners=False, padding_mode="border")
        x, index = self.pool(F.relu(self.enter(x)))
        x = F.pixel_shuffle(self.exit(self.unpool(x, index)), 2)
        x = F.interpolate(x, size=(size[0] + 1, size[1] - 1), mode="bilinear")
        windows = F.unfold(x, 3, stride=2, padding=1)
        x = F.fold(windows, x.shape[-2:], 3, stride=2, padding=1)
        return F.interpolate(x, size=size, mode="bicubic", antialias=True)
