"""The models of examples/ against references that are written from their papers by other operators,
in double precision: the loss, and the gradients of all parameters.

Usage: models.py PROGRAM. Exits 1 with a line for each difference. GPT and Llama are rows of the
suite, as is a training of each kind of layer.
"""

import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

BOUND = 1e-12  # the bound of the loss, and of a gradient over the largest of all parameters


class Parameters(dict):
    """Layers by the names of their parameters."""

    def linear(self, name, x):
        return x @ self[name + ".weight"].T + self[name + ".bias"]

    def layer_norm(self, name, x):
        y = x - x.mean(-1, keepdim=True)
        y = y / (y.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return y * self[name + ".weight"] + self[name + ".bias"]

    def batch_norm(self, name, x):
        y = x - x.mean((0, 2, 3), keepdim=True)
        y = y / (y.square().mean((0, 2, 3), keepdim=True) + 1e-5).sqrt()
        return y * self[name + ".weight"][:, None, None] + self[name + ".bias"][:, None, None]

    def conv(self, name, x, stride=1, padding=0):
        return F.conv2d(x, self[name + ".weight"], self.get(name + ".bias"), stride, padding)

    def patches(self, x, size):
        rows = x.unfold(2, size, size).unfold(3, size, size).permute(0, 2, 3, 1, 4, 5)
        weight = self["patches.weight"].flatten(1)
        return rows.flatten(3).flatten(1, 2) @ weight.T + self["patches.bias"]


def classes(logits, target):
    return -logits.log_softmax(1).gather(1, target[:, None]).sum()


def vit(p, batch):
    x = p.patches(batch["input"], 4)
    x = torch.cat([p["class_token"].repeat(len(x), 1, 1), x], 1) + p["position"]
    for block in ("block0.", "block1."):
        z = p.layer_norm(block + "norm1", x).transpose(0, 1)
        weights = [p[block + name] for name in ("qkv.weight", "qkv.bias")]
        out = [p[block + name] for name in ("out.weight", "out.bias")]
        y, _ = F.multi_head_attention_forward(
            z, z, z, z.size(-1), 2, *weights, None, None, False, 0.0, *out, need_weights=True)
        x = x + y.transpose(0, 1)
        y = p.linear(block + "up", p.layer_norm(block + "norm2", x))
        x = x + p.linear(block + "down", y * torch.special.ndtr(y))
    return classes(p.linear("head", p.layer_norm("norm", x)[:, 0]), batch["target"])


def mixer(p, batch):
    x = p.patches(batch["input"], 4)
    parts = ("norm1", "tokens", "bpc->bcp"), ("norm2", "channels", "bpc->bpc")
    for block in ("block0.", "block1."):
        for norm, kind, form in parts:
            y = torch.einsum(form, p.layer_norm(block + norm, x))
            y = p.linear(f"{block}{kind}_up", y)
            y = p.linear(f"{block}{kind}_down", y * torch.special.ndtr(y))
            x = x + torch.einsum("->".join(reversed(form.split("->"))), y)
    return classes(p.linear("head", p.layer_norm("norm", x).mean(1)), batch["target"])


def resnet(p, batch):
    x = p.batch_norm("bn1", p.conv("conv1", batch["input"], padding=1)).relu()
    for block in ("layer1_0.", "layer1_1.", "layer2_0.", "layer2_1."):
        stride = 2 if block == "layer2_0." else 1
        y = p.batch_norm(block + "bn1", p.conv(block + "conv1", x, stride, 1)).relu()
        y = p.batch_norm(block + "bn2", p.conv(block + "conv2", y, padding=1))
        if stride == 2:
            x = p.batch_norm(block + "downsample.1", p.conv(block + "downsample.0", x, 2))
        x = (x + y).relu()
    return classes(p.linear("fc", x.flatten(2).mean(2)), batch["target"])


def unet(p, batch):
    def two(name, x):
        for conv, norm in (("0", "1"), ("3", "4")):
            x = p.conv(f"{name}.convolutions.{conv}", x, padding=1)
            x = p.batch_norm(f"{name}.convolutions.{norm}", x).relu()
        return x

    def up(name, x, skipped):
        y = torch.einsum("bihw,iokl->bohkwl", x, p[name + ".enlarge.weight"])
        y = y.flatten(4).flatten(2, 3) + p[name + ".enlarge.bias"][:, None, None]
        return two(name, torch.cat([skipped, y], 1))

    half = lambda x: x.unfold(2, 2, 2).unfold(3, 2, 2).amax((4, 5))
    first = two("down0", batch["input"])
    second = two("down1", half(first))
    x = up("up0", up("up1", two("down2", half(second)), second), first)
    return classes(p.conv("head", x), batch["target"])


def lstm(p, batch):
    x = p["embedding.weight"][batch["input"]]
    for layer in ("layer0.lstm.", "layer1.lstm."):
        one = lambda x, kind: x @ p[f"{layer}weight_{kind}_l0"].T + p[f"{layer}bias_{kind}_l0"]
        hidden = cell = x.new_zeros(x[:, 0].shape)
        rows = []
        for token in x.unbind(1):
            i, f, g, o = (one(token, "ih") + one(hidden, "hh")).chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            rows.append(hidden)
        x = torch.stack(rows, 1)
    return classes(p.linear("head", x).transpose(1, 2), batch["target"])


def dlrm(p, batch):
    x = batch["dense"]
    for layer in ("bottom.layer0", "bottom.layer1"):
        x = p.linear(layer, x).relu()
    tables = [p[f"tables.table{i}.weight"][batch["sparse"][:, i]].sum(1) for i in range(3)]
    vectors = [x, *tables]
    pairs = [(vectors[i] * vectors[j]).sum(1) for i in range(4) for j in range(i)]
    y = p.linear("top.layer0", torch.cat([x, torch.stack(pairs, 1)], 1)).relu()
    click = p.linear("top.layer1", y)[:, 0].sigmoid()
    return -torch.where(batch["target"] > 0, click, 1 - click).log().sum()


def differences(file, reference):
    part = lambda prefix: {n[len(prefix):]: x for n, x in file.items() if n.startswith(prefix)}
    p = Parameters({n: x.requires_grad_() for n, x in part("parameter.").items()})
    loss = reference(p, part("batch."))
    loss.backward()
    if abs(loss - file["loss"]) > BOUND * abs(loss):
        yield f"the loss is {file['loss']}, not {loss}"
    largest = max(x.grad.abs().max() for x in p.values())
    for name, gradient in part("gradient.").items():
        apart = (gradient - p[name].grad).abs().max() / largest
        if not apart <= BOUND:
            yield f"the gradient of {name} is {apart:.1e} apart"


def main(program):
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, "--models", folder], check=True)
        for reference in (vit, mixer, resnet, unet, lstm, dlrm):
            file = load_file(pathlib.Path(folder, reference.__name__ + ".safetensors"))
            for difference in differences(file, reference):
                print(f"models: {reference.__name__}: {difference}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
