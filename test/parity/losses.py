"""PyTorch's losses, as a PyTorch user would call them."""

import functools

import torch
import torch.nn.functional as F


class Elements:
    """A loss of an output and a target, whose mean is over elements."""

    def __init__(self, function, weight=None, **options):
        self.function, self.options = function, options
        self.weight = {"weight": torch.tensor(weight)} if weight else {}

    def __call__(self, output, target, reduction):
        weight = {name: x.to(output) for name, x in self.weight.items()}
        return self.function(output, target, reduction=reduction, **weight, **self.options)

    def count(self, target):
        return target.numel()


class Classes(Elements):
    """Its mean is over targets, each with the weight of its class."""

    def __init__(self, class_dim, **options):
        super().__init__(F.nll_loss, **options)

    def count(self, target):
        kept = target != self.options["ignore_index"]
        if not self.weight:
            return kept.sum()
        return (self.weight["weight"].to(target.device)[target * kept] * kept).sum()


class Speech:
    """Its mean divides each sample's loss by the length of its target."""

    def __init__(self, batch_first, **options):
        self.batch_first, self.options = batch_first, options

    def of_batch(self, model, batch, reduction):
        x, input_lengths, target, target_lengths = batch
        log = model(x).transpose(0, 1) if self.batch_first else model(x)
        loss = functools.partial(
            F.ctc_loss, log, target, input_lengths, target_lengths, **self.options)
        if reduction == "mean":
            return loss(reduction=reduction)
        return (loss(reduction="none") / target_lengths.clamp_min(1)).sum()

    def count(self, lengths):
        return lengths.size(0)


class Triplets:
    def __init__(self, **options):
        self.options = options

    def of_batch(self, model, batch, reduction):
        anchor, negative, positive = batch
        embeddings = model(anchor), model(positive), model(negative)
        return F.triplet_margin_loss(*embeddings, reduction=reduction, **self.options)

    def count(self, rows):
        return rows.size(0)


class Pairs(Triplets):
    def of_batch(self, model, batch, reduction):
        first, second, target = batch
        embeddings = model(first), model(second)
        return F.cosine_embedding_loss(*embeddings, target, reduction=reduction, **self.options)


OBJECTIVES = {
    "L1Loss": functools.partial(Elements, F.l1_loss),
    "SmoothL1Loss": functools.partial(Elements, F.smooth_l1_loss),
    "HuberLoss": functools.partial(Elements, F.huber_loss),
    "PoissonNLLLoss": functools.partial(Elements, F.poisson_nll_loss),
    "BCELoss": functools.partial(Elements, F.binary_cross_entropy),
    "NLLLoss": Classes,
    "CTCLoss": Speech,
    "TripletMarginLoss": Triplets,
    "CosineEmbeddingLoss": Pairs,
}
