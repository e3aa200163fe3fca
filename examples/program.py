"""A model of Python that program.cpp trains, and what becomes of it.

    program.py export FOLDER   writes model.pt2, with both graphs, and data.safetensors
    program.py read FOLDER     reads what program.cpp has written, trained.pt2
"""

import pathlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch.export.pt2_archive._package import load_pt2

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
from export_program import export_program  # noqa: E402


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for y in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(y.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    def __init__(self, symbols=32, width=32, heads=2, layers=2, context=16):
        super().__init__()
        self.token = nn.Embedding(symbols, width)
        self.position = nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols)

    def forward(self, tokens):
        x = self.token(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def counting(rows, length=16, symbols=32):
    """Sequences that count in steps of 1 to 3; the target is the next number."""
    first, by = torch.randint(symbols, (rows, 1)), torch.randint(1, 4, (rows, 1))
    text = (first + by * torch.arange(length + 1)) % symbols
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def export(folder):
    torch.manual_seed(0)
    model = GPT()
    tokens, targets = counting(512)
    rows = torch.export.Dim("rows", min=2, max=4096)
    export_program(model, (tokens[:4],), path=folder / "model.pt2", dynamic_shapes=[{0: rows}])
    save_file({"input": tokens, "target": targets}, folder / "data.safetensors")


def loss_of(model, data):
    with torch.no_grad():
        return F.cross_entropy(model(data["input"]).flatten(0, 1), data["target"].flatten()).item()


def read(folder):
    data = load_file(folder / "data.safetensors")
    program = load_pt2(folder / "trained.pt2").exported_programs["eval"]
    model = GPT()
    model.load_state_dict(program.state_dict)  # or use program.module() without the class
    print(f"loss {loss_of(model.eval(), data):.6f}, by the graph "
          f"{loss_of(program.module(), data):.6f}")


if __name__ == "__main__":
    {"export": export, "read": read}[sys.argv[1]](pathlib.Path(sys.argv[2]))
