"""Averages of weights, as AveragedModel keeps them."""

import torch
from torch.optim import swa_utils


def average_of(words, model, same):
    """Returns an average of weights, as AveragedModel keeps it, or None if the recipe has none."""
    if fields := words.pop("SWA", None):
        # Otherwise PyTorch takes this function on a GPU, and rounds differently on a CPU.
        named = "get_swa_multi_avg_fn" in same
        multi_avg_fn = swa_utils.get_swa_multi_avg_fn() if named else None
        # On a GPU its default fails for buffers that are integers, by an operator that they lack.
        avg_fn = None if named or not fields["use_buffers"] else swa_utils.get_swa_avg_fn()
        average = swa_utils.AveragedModel(
            model, avg_fn=avg_fn, multi_avg_fn=multi_avg_fn, use_buffers=fields["use_buffers"]
        )
        start, every = fields["start_step"], fields["every_steps"]
        average.is_due = lambda step: step >= start and (step - start) % every == 0
        return average
    fields = words.pop("EMA", None)
    if fields is None:
        return None
    first = fields["from_initial_weights"]
    multi_avg_fn = swa_utils.get_ema_multi_avg_fn(fields["decay"])
    if fields["warmup"]:
        multi_avg_fn = warming_up(fields["decay"], first)
    average = swa_utils.AveragedModel(
        model, multi_avg_fn=multi_avg_fn, use_buffers=fields["use_buffers"]
    )
    average.n_averaged.fill_(int(first))  # if it is 0, the first update copies
    average.is_due = lambda step: True
    return average


def warming_up(decay, first):
    """The rule of diffusers' and TensorFlow's averages: a decay of (1 + n) / (10 + n) at most."""

    @torch.no_grad()
    def update(averaged, current, n_averaged):
        n = n_averaged.item() - first
        torch._foreach_lerp_(averaged, current, 1 - min(decay, (1 + n) / (10 + n)))

    return update


def update_bn(average, model, inputs):
    """As users of SWA do at its end, if the model has a batch norm."""
    norm = torch.nn.modules.batchnorm._BatchNorm
    if any(isinstance(module, norm) for module in model.modules()):
        swa_utils.update_bn(inputs, average)


def copy_counters(averaged, model):
    for mine, theirs in zip(averaged.module.buffers(), model.buffers(), strict=True):
        if not mine.is_floating_point():
            mine.copy_(theirs)
