"""The Python reference of examples/models/llama.hpp and of its loss, as in nets.py.

`linear_cross_entropy` computes gradients in forward and scales them in backward, as ikebana does;
usual Python is `F.cross_entropy(F.linear(...))`.
"""

import types

import torch
import torch.nn as nn
import torch.nn.functional as F
from nets import CrossEntropy, Net


class LinearCrossEntropy(CrossEntropy):
    """The loss of a pair of hidden states and the head's weight."""

    def __call__(self, outputs, target, reduction):
        return super().__call__(F.linear(*outputs), target, reduction)


class NormOfRows(torch.autograd.Function):
    """As modules::RMSNorm computes on a CPU."""

    @staticmethod
    def forward(x, weight, eps):
        rstd = torch.linalg.vector_norm(x, 2, 1, True).square().div_(x.size(1)).add_(eps).rsqrt_()
        return x.mul(rstd).mul_(weight), rstd

    @staticmethod
    def setup_context(context, inputs, output):
        context.save_for_backward(*inputs[:2], output[1])

    @staticmethod
    def backward(context, g, _):
        x, weight, rstd = context.saved_tensors
        of_x, of_weight, _ = torch.ops.aten.native_layer_norm_backward(
            g, x, [x.size(1)], torch.zeros_like(rstd), rstd, weight, None, [True, True, False]
        )
        of_x.addcmul_(rstd, g.mv(weight)[:, None], value=1 / x.size(1))
        return of_x, of_weight, None


def norm_of_rows(norm, x):
    return NormOfRows.apply(x.flatten(0, -2), norm.weight, norm.eps)[0].view(x.shape)


class SumWithGradients(torch.autograd.Function):
    """As modules::linear_cross_entropy with a single chunk: forward computes the gradients."""

    @staticmethod
    def forward(hidden, weight, target, number):
        h, w, target = hidden.to(number), weight.to(number), target[:, None]
        scores = (h @ w.t()).float().log_softmax(1)
        loss = -scores.gather(1, target).sum()
        p = scores.exp_()
        p = p.scatter_(1, target, p.gather(1, target) - 1).to(number)
        of_weight = torch.zeros(w.shape, device=w.device)
        if number is torch.float32:
            of_weight.addmm_(p.t(), h)
        else:
            of_weight += p.t() @ h
        return loss, (p @ w).to(hidden.dtype), of_weight

    @staticmethod
    def setup_context(context, inputs, output):
        context.save_for_backward(*output[1:])

    @staticmethod
    def backward(context, scale, *_):
        return *(gradient * scale for gradient in context.saved_tensors), None, None


def linear_cross_entropy(outputs, target, reduction):
    device, number = target.device.type, outputs[0].dtype
    if torch.is_autocast_enabled(device):
        number = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        return SumWithGradients.apply(*outputs, target, number)[0]


def rotary(x, base):
    """Rows at positions 0, 1, ...; features i and i + width / 2 are a pair, as in transformers."""
    width = x.size(-1)
    speed = 1.0 / (base ** (torch.arange(0, width, 2, device=x.device).float() / width))
    angle = torch.arange(x.size(-2), device=x.device).float()[:, None] * speed
    angle = torch.cat((angle, angle), dim=-1)
    turned = torch.cat((-x[..., width // 2 :], x[..., : width // 2]), dim=-1)
    return (x * angle.cos() + turned * angle.sin()).to(x.dtype)


class LlamaAttention(nn.Module):
    attention = staticmethod(F.scaled_dot_product_attention)

    def __init__(self, width, heads, key_heads, base):
        super().__init__()
        self.width, self.base = width // heads, base
        self.q_proj = nn.Linear(width, heads * self.width, bias=False)
        self.k_proj = nn.Linear(width, key_heads * self.width, bias=False)
        self.v_proj = nn.Linear(width, key_heads * self.width, bias=False)
        self.o_proj = nn.Linear(heads * self.width, width, bias=False)

    def forward(self, x):
        q, k, v = (
            project(x).unflatten(-1, (-1, self.width)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotary(q, self.base), rotary(k, self.base)
        y = self.attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaBlock(nn.Module):
    def __init__(self, attention, hidden, norm):
        super().__init__()
        self.self_attn = LlamaAttention(*attention)
        self.mlp = SwiGLU(attention[0], hidden)
        self.input_layernorm = norm()
        self.post_attention_layernorm = norm()

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(Net):
    """Fields and parameters as Hugging Face names them; each block is a unit."""

    objective = LinearCrossEntropy()

    def __init__(self, **config):
        super().__init__()
        c = types.SimpleNamespace(**config)
        width, heads = c.hidden_size, c.num_attention_heads
        attention = width, heads, c.num_key_value_heads, c.rope_theta
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(c.vocab_size, width)

        def norm():
            return nn.RMSNorm(width, c.rms_norm_eps)

        self.model.layers = nn.ModuleList(
            LlamaBlock(attention, c.intermediate_size, norm) for _ in range(c.num_hidden_layers)
        )
        self.model.norm = norm()
        if not c.tie_word_embeddings:
            self.lm_head = nn.Linear(width, c.vocab_size, bias=False)

    def outputs(self, tokens, run):
        """The input of the head, and the head's weight."""
        x = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            x = run(block, x)
        head = self.lm_head if hasattr(self, "lm_head") else self.model.embed_tokens
        return self.model.norm(x).flatten(0, 1), head.weight

    def targets(self, batch):
        return batch[1].flatten()

    def count(self, batch):
        return batch[1].numel()
