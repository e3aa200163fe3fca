"""Precisions that PyTorch has no class for: which weights compute, and which are updated."""

import functools
from unittest import mock

import torch
import torch.nn.functional as F


class Itself:
    """The same parameters compute and are updated."""

    def __init__(self, model, fields):
        self.masters = list(model.parameters())

    def bring_home(self):
        """Is called after each backward."""

    def update(self, step):
        step()

    def values(self, state):
        return state

    def close(self):
        """Is called after training."""


def is_low(name, p):
    """Returns whether a parameter is in BF16 by default: matrices, and the biases of recurrent
    layers."""
    return p.ndim > 1 or name.rsplit(".", 1)[-1].startswith(("bias_ih_l", "bias_hh_l"))


def in_bf16(named):
    for name, p in named:
        if is_low(name, p):
            p.data = p.data.bfloat16()


class Copies(Itself):
    """FP32 master weights of BF16 parameters: Precision<BF16Weights>."""

    def __init__(self, model, fields):
        self.names, self.copies = zip(*model.named_parameters())
        self.masters = [torch.nn.Parameter(p.detach().clone()) for p in self.copies]
        in_bf16(model.named_parameters())

    def bring_home(self):
        for master, p in zip(self.masters, self.copies):
            home = p.grad.float()
            master.grad = home if master.grad is None else master.grad + home
            p.grad = None

    @torch.no_grad()
    def update(self, step):
        step()
        for master, p in zip(self.masters, self.copies):
            p.copy_(master)

    def values(self, state):
        return state | {n: master.detach() for n, master in zip(self.names, self.masters)}


U32 = 0xFFFFFFFF
U64 = 0xFFFFFFFFFFFFFFFF


def mixed(x):
    """splitmix64."""
    x = (x + 0x9E3779B97F4A7C15) & U64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & U64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & U64
    return x ^ (x >> 31)


def times(h, factor):
    """Returns h * factor modulo 2^32, in two halves that INT64 holds."""
    return (h * (factor & 0xFFFF) + (((h * (factor >> 16)) & 0xFFFF) << 16)) & U32


def noise(like, seed, step, tensor):
    both = mixed((mixed(seed) + step) & U64)
    h = torch.arange(like.numel(), device=like.device) ^ (both >> 32) ^ (mixed(tensor) & U32)
    h = times(h, 0x9E3779B1)
    h = (h ^ (h >> 15)) + (both & U32) & U32
    h = times(h, 0x85EBCA6B)
    h = times(h ^ (h >> 13), 0xC2B2AE35)
    return (h ^ (h >> 16)) & 0xFFFF


def rounded(exact, *key):
    """Stochastic rounding to BF16: up with a probability equal to the fraction cut off."""
    bits = exact.flatten().view(torch.int32).long() & U32
    upper = (bits + noise(bits, *key)) >> 16
    return upper.to(torch.int16).view(torch.bfloat16).view(exact.shape)


class Rounded(Itself):
    """BF16 parameters without master weights: Precision<BF16True>."""

    def __init__(self, model, fields):
        self.parameters, self.seed, self.steps = list(model.parameters()), fields["seed"], 0
        order = [id(p) for p in model.by_unit()]
        self.numbers = [order.index(id(p)) for p in self.parameters]
        in_bf16(model.named_parameters())
        self.low = [is_low(name, p) for name, p in model.named_parameters()]
        self.masters = [
            torch.nn.Parameter(p.detach().float()) if low else p
            for p, low in zip(self.parameters, self.low)
        ]

    @torch.no_grad()
    def update(self, step):
        parameters = zip(self.masters, self.parameters, self.numbers, self.low)
        low = [found[:3] for found in parameters if found[3]]
        for exact, p, _ in low:
            exact.copy_(p)
            exact.grad, p.grad = p.grad.float(), None
        step()
        for exact, p, number in low:
            p.copy_(rounded(exact, self.seed, self.steps, number))
        self.steps += 1

    def values(self, state):
        return state


MOST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


class Scales:
    """The scales of each layer's three tensors, with a history of maxima or without."""

    def __init__(self, scaling):
        self.length = scaling.get("DelayedScaling", {}).get("amax_history_len")
        self.history, self.latest = {}, {}

    def quantized(self, key, x, kind):
        x = x.float()
        amax = x.abs().max()
        scale = amax.clamp_min(1e-12).reciprocal() * MOST[kind]
        if self.length:
            self.latest[key] = torch.maximum(amax, self.latest.get(key, amax))
            if past := self.history.get(key):
                scale = torch.tensor(MOST[kind], device=x.device) / torch.stack(past).max()
        return (x * scale).clamp(-MOST[kind], MOST[kind]).to(kind), scale.reciprocal()

    def after_step(self):
        for key, amax in self.latest.items():
            self.history[key] = [*self.history.get(key, []), amax][-(self.length or 1) :]
        self.latest = {}


def product(a, b, kind, bias=None):
    return torch._scaled_mm(a[0], b[0], a[1], b[1], bias=bias, out_dtype=kind)


class LinearInFP8(torch.autograd.Function):
    @classmethod
    def of(cls, scales, x, weight, bias=None):
        return cls.apply(x, weight, bias, scales)

    @staticmethod
    def forward(context, x, weight, bias, scales):
        rows = x.reshape(-1, x.shape[-1])
        xq = scales.quantized((id(weight), "input"), rows, torch.float8_e4m3fn)
        wq = scales.quantized((id(weight), "weight"), weight, torch.float8_e4m3fn)
        context.save_for_backward(*xq, *wq)
        context.scales, context.key = scales, (id(weight), "gradient")
        context.shape, context.kind = x.shape, x.dtype
        bias = None if bias is None else bias.bfloat16()
        y = product(xq, (wq[0].t(), wq[1]), torch.bfloat16, bias)
        return y.view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(context, gradient):
        x, by_x, w, by_w = context.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        g, by_g = context.scales.quantized(context.key, rows, torch.float8_e5m2)
        to_x = product((g, by_g), (w.t().contiguous().t(), by_w), torch.bfloat16)
        to_w = product(
            (g.t().contiguous(), by_g), (x.t().contiguous().t(), by_x), torch.float32
        )
        to_bias = rows.sum(0, dtype=torch.float32) if context.needs_input_grad[2] else None
        return to_x.view(context.shape).to(context.kind), to_w, to_bias, None


class InFP8(Itself):
    """Linear layers in FP8: Precision<FP8>. All of the row's layers have sizes that fit."""

    def __init__(self, model, fields):
        super().__init__(model, fields)
        self.scales = Scales(fields["scaling"])
        linear = functools.partial(LinearInFP8.of, self.scales)
        self.change = mock.patch.object(F, "linear", linear)
        self.change.start()

    def close(self):
        self.change.stop()

    def update(self, step):
        step()
        self.scales.after_step()


WORKING = {
    "Precision<BF16Weights>": Copies,
    "Precision<BF16True>": Rounded,
    "Precision<FP8>": InFP8,
}
