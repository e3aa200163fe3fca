"""Small models as Python users write them; none knows of ikebana. reference.py exports and trains
each."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads, dropout, causal=True):
        super().__init__()
        self.heads, self.p, self.causal = heads, dropout, causal
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def attend(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)) for y in self.qkv(x).chunk(3, -1))
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        p = self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + F.dropout(self.attend(self.norm1(x)), self.p, self.training)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """The head is the embedding of the tokens."""

    def __init__(self, symbols=64, width=32, heads=4, layers=2, context=16, dropout=0.0):
        super().__init__()
        self.token = nn.Embedding(symbols, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, symbols, bias=False)
        self.head.weight = self.token.weight
        nn.init.normal_(self.token.weight, std=0.02)

    def forward(self, tokens):
        position = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(position)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class ViT(nn.Module):
    def __init__(self, size=16, patch=4, width=32, heads=2, layers=2, classes=5, dropout=0.1):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(*(Block(width, heads, dropout, False) for _ in range(layers)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))

    def forward(self, images):
        x = self.patches(images).flatten(2).mT
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        x = self.layers(self.dropout(x + self.position))
        return self.head(x[:, 0])


class Residual(nn.Module):
    def __init__(self, narrow, wide, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(narrow, wide, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide)
        self.conv2 = nn.Conv2d(wide, wide, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(narrow, wide, 1, stride, bias=False), nn.BatchNorm2d(wide)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self, width=8, classes=5):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(Residual(width, width, 1), Residual(width, width, 1))
        self.layer2 = nn.Sequential(Residual(width, 2 * width, 2),
                                    Residual(2 * width, 2 * width, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, images):
        x = F.relu(self.bn1(self.conv1(images)))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Two(nn.Sequential):
    def __init__(self, narrow, wide):
        super().__init__(
            nn.Conv2d(narrow, wide, 3, padding=1),
            nn.BatchNorm2d(wide),
            nn.ReLU(inplace=True),
            nn.Conv2d(wide, wide, 3, padding=1),
            nn.BatchNorm2d(wide),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, width=8, classes=3):
        super().__init__()
        widths = [width, 2 * width, 4 * width]
        self.down = nn.ModuleList(Two(a, b) for a, b in zip([3, *widths], widths))
        self.enlarge = nn.ModuleList(
            nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:])
        )
        self.up = nn.ModuleList(Two(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, images):
        x, skipped = images, []
        for down in self.down[:-1]:
            x = down(x)
            skipped.append(x)
            x = F.max_pool2d(x, 2)
        x = self.down[-1](x)
        for enlarge, up in zip(reversed(self.enlarge), reversed(self.up)):
            x = up(torch.cat([skipped.pop(), enlarge(x)], dim=1))
        return self.head(x)


class Tagger(nn.Module):
    def __init__(self, symbols=40, width=16, classes=5):
        super().__init__()
        self.embed = nn.Embedding(symbols, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, num_layers=2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        x, (hidden, cell) = self.lstm(self.embed(tokens))
        return self.head(x)


class DLRM(nn.Module):
    def __init__(self, tables=(50, 30, 20), dense=6, width=8):
        super().__init__()
        self.bottom = nn.Sequential(
            nn.Linear(dense, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU()
        )
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum") for n in tables)
        pairs = (len(tables) + 1) * len(tables) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 16), nn.ReLU(), nn.Linear(16, 1))
        i, j = torch.tril_indices(len(tables) + 1, len(tables) + 1, offset=-1)
        self.register_buffer("pairs", torch.stack([i, j]), persistent=False)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        vectors = [x] + [table(ids) for table, ids in zip(self.tables, sparse.unbind(1))]
        stacked = torch.stack(vectors, 1)
        products = torch.bmm(stacked, stacked.mT)
        i, j = self.pairs
        return self.top(torch.cat([x, products[:, i, j]], 1)).squeeze(1)


class VAE(nn.Module):
    """Returns its loss, as a sum and the number of rows in it."""

    def __init__(self, width=8, latent=4, size=8):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1),
            nn.ReLU(), nn.Flatten(),
        )
        features = 2 * width * (size // 4) ** 2
        self.moments = nn.Linear(features, 2 * latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, features), nn.ReLU(),
            nn.Unflatten(1, (2 * width, size // 4, size // 4)),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, 2, 1),
        )

    def forward(self, images):
        mean, log_variance = self.moments(self.encoder(images)).chunk(2, dim=1)
        drawn = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        logits = self.decoder(drawn)
        apart = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
        return {"sum": apart + divergence, "count": images.shape[0], "logits": logits}


class MLP(nn.Sequential):
    def __init__(self, width=16):
        super().__init__(
            nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, width),
        )


class Pooled(nn.Module):
    """Dictionaries and keywords in, tuples and dictionaries out, a mask, buffers of both kinds and
    constants."""

    def __init__(self, width=8, classes=4):
        super().__init__()
        self.embed = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)
        self.register_buffer("scale", torch.full((width,), 0.5))
        self.register_buffer("shift", torch.linspace(-1, 1, width), persistent=False)
        self.weights = torch.linspace(0.5, 1.5, classes)

    def forward(self, features, *, mask, temperature=None):
        x = self.embed(features["left"]) * self.scale + features["right"] + self.shift
        x = torch.where(mask[..., None], x, torch.tensor(0.0))
        x = x.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        logits = self.head(torch.tanh(x)) * self.weights
        if temperature is not None:
            logits = logits / temperature
        return {"logits": logits, "parts": (x, [logits.argmax(-1)]), "lengths": mask.sum(1)}


class Shared(nn.Module):
    """One layer is called twice, and so is a block of two."""

    def __init__(self, width=16, classes=4):
        super().__init__()
        self.enter = nn.Linear(width, width)
        self.layer = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.enter(x)
        for _ in range(2):
            x = x + self.layer(self.norm(x))
        return self.head(self.layer(x))


class Rotary(nn.Module):
    def __init__(self, size, base=10000.0):
        super().__init__()
        inverse = 1.0 / base ** (torch.arange(0, size, 2).float() / size)
        self.register_buffer("inverse", inverse, persistent=False)

    @torch.no_grad()
    def forward(self, positions):
        angles = positions[:, None].float() * self.inverse
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


class RotaryBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x, cos, sin, mask):
        y = self.norm1(x)
        q, k, v = (f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in
                   (self.q, self.k, self.v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class RotaryGPT(nn.Module):
    """Cosines, sines and the mask are made once and read by all blocks."""

    def __init__(self, symbols=48, width=32, heads=2, layers=3):
        super().__init__()
        self.token = nn.Embedding(symbols, width)
        self.rotary = Rotary(width // heads)
        self.layers = nn.ModuleList(RotaryBlock(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, symbols, bias=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        cos, sin = self.rotary(torch.arange(length, device=tokens.device))
        mask = torch.full((length, length), float("-inf"), device=tokens.device).triu(1)
        x = self.token(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin, mask)
        return self.head(self.norm(x))


class Regions(nn.Module):
    """Regions without gradients and with autocast, on and off."""

    def __init__(self, width=16, classes=4):
        super().__init__()
        self.enter = nn.Linear(width, width)
        self.narrow = nn.Linear(width, width)
        self.wide = nn.Linear(width, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        with torch.no_grad():
            largest = self.enter(x).abs().amax(-1, keepdim=True)
        x = self.enter(x) / largest
        with torch.autocast("cpu", torch.bfloat16):
            y = F.gelu(self.narrow(x))
            with torch.autocast("cpu", enabled=False):
                y = self.wide(y.float())
        with torch.no_grad():
            mean = y.mean()
            with torch.enable_grad():
                y = y * 1.5
            mean = mean * 0.5
        return self.head(F.relu(y - mean))


class Normed(nn.Module):
    """Batch norm and dropout."""

    def __init__(self, width=16, classes=4):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.dropout(F.relu(self.norm(self.first(x)))))


class Masked(nn.Module):
    """Returns its loss over the targets that are not masked; the count is a tensor."""

    def __init__(self, symbols=32, width=16):
        super().__init__()
        self.embed = nn.Embedding(symbols, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, symbols)

    def forward(self, tokens, labels):
        logits = self.head(self.gru(self.embed(tokens))[0])
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
        return {"sum": loss, "count": (labels != -100).sum()}


class Windowed(nn.Module):
    """Computes with sizes: windows of a sequence, the last one padded."""

    def __init__(self, width=8, window=4, classes=3):
        super().__init__()
        self.window = window
        self.mix = nn.Linear(width * window, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        rows, length, width = x.shape
        windows = (length + self.window - 1) // self.window
        x = F.pad(x, (0, 0, 0, windows * self.window - length))
        x = x.reshape(rows, windows, self.window * width)
        x = self.mix(x) + torch.arange(x.shape[1], device=x.device)[:, None] / length
        return self.head(x.sum(1) / x.shape[1] ** 0.5)
