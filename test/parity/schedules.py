"""The Python of each schedule of a recipe."""

import math

from torch.optim import lr_scheduler


def warmup_stable_decay(optimizer, stable_steps, decay_steps, decay, eta_min):
    """Defines the schedules after the warm-up, as in the papers. PyTorch has no such schedule."""
    forms = {
        "linear": lambda u: 1 - u,
        "1-sqrt": lambda u: 1 - math.sqrt(u),
        "cosine": lambda u: (1 + math.cos(math.pi * u)) / 2,
    }
    (base,) = (group["initial_lr"] for group in optimizer.param_groups)

    def factor(step):
        u = min(max(0, step - stable_steps) / decay_steps, 1)
        return (eta_min + (base - eta_min) * forms[decay](u)) / base

    return lr_scheduler.LambdaLR(optimizer, factor)


def lambda_of_values(optimizer, lr_lambda):
    return lr_scheduler.LambdaLR(optimizer, lambda step: lr_lambda[step])


def one_cycle(optimizer, max_lr, total_steps, epochs, steps_per_epoch, **fields):
    """If max_lr is left out, the lr of each group is its maximum."""
    max_lr = max_lr or [group["lr"] for group in optimizer.param_groups]
    steps = total_steps or None, epochs or None, steps_per_epoch or None
    return lr_scheduler.OneCycleLR(optimizer, max_lr, *steps, **fields)


def cyclic(optimizer, base_lr, max_lr, **fields):
    groups = optimizer.param_groups
    base_lr = base_lr or [group["lr"] for group in groups]
    return lr_scheduler.CyclicLR(optimizer, base_lr, max_lr * groups[0]["times"], **fields)


def all_of(schedules, optimizer):
    return [made_schedule(*item, optimizer) for one in schedules for item in one.items()]


def sequential(optimizer, schedules, milestones):
    return lr_scheduler.SequentialLR(optimizer, all_of(schedules, optimizer), milestones)


def chained(optimizer, schedules):
    return lr_scheduler.ChainedScheduler(all_of(schedules, optimizer), optimizer)


class PerEpoch:
    """Steps its schedule once per epoch, of five steps."""

    def __init__(self, optimizer, schedule):
        (self.schedule,) = all_of([schedule], optimizer)
        self.steps = 0

    def step(self):
        self.steps += 1
        if self.steps % 5 == 0:
            self.schedule.step()


SCHEDULES = {
    name: getattr(lr_scheduler, name)
    for name in (
        *("ConstantLR", "LinearLR", "CosineAnnealingLR", "StepLR", "ReduceLROnPlateau"),
        *("ExponentialLR", "MultiStepLR", "PolynomialLR", "CosineAnnealingWarmRestarts"),
    )
} | {
    "WarmupStableDecayLR": warmup_stable_decay,
    "LambdaLR": lambda_of_values,
    "OneCycleLR": one_cycle,
    "CyclicLR": cyclic,
    "SequentialLR": sequential,
    "ChainedScheduler": chained,
    "PerEpoch": PerEpoch,
}


def factor_of(group):
    factors = group.get("schedule")
    return (lambda step: factors[step]) if factors else (lambda step: 1)


def made_schedule(name, fields, optimizer):
    kind = SCHEDULES[name.partition("<")[0]]
    fields.pop("metric", None)  # which PyTorch's ReduceLROnPlateau lacks
    warmup = fields.pop("warmup_steps", 0)
    if warmup == 0:
        return kind(optimizer, **fields)
    rise = lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)
    after = kind(optimizer, **fields)
    return lr_scheduler.SequentialLR(optimizer, [rise, after], milestones=[warmup])


def schedule_of(words, optimizer):
    if any("schedule" in group for group in optimizer.param_groups):
        return lr_scheduler.LambdaLR(optimizer, [factor_of(g) for g in optimizer.param_groups])
    name = next((word for word in words if word.partition("<")[0] in SCHEDULES), "ConstantLR")
    return made_schedule(name, words.pop(name, {"factor": 1}), optimizer)
