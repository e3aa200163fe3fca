"""Trains in Python what a row of the suite trained in C++: same weights, batches and recipe.

Each word of a recipe is done as a PyTorch user would write it. `same` names what is done as ikebana
does it instead, where Python has another way.
"""

import contextlib
import math

import llama
import nets
import precisions
import torch
import torch.nn.functional as F
from torch.optim import lr_scheduler, swa_utils

# TF32 is about matrix products on a GPU; Observe only looks.
NUMBERS = {f"Precision<{name}>": None for name in ("FP32", "TF32")} | {
    "Precision<BF16>": torch.bfloat16,
    "Precision<FP16>": torch.float16,
    **dict.fromkeys(precisions.WORKING, torch.bfloat16),
}
OPTIMIZERS = {name: getattr(torch.optim, name) for name in ("AdamW", "Adam", "SGD")}


def warmup_stable_decay(optimizer, stable_steps, decay_steps, decay, eta_min):
    """After the warm-up, as in the papers; PyTorch has no such schedule."""
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


SCHEDULES = {
    name: getattr(lr_scheduler, name)
    for name in ("ConstantLR", "LinearLR", "CosineAnnealingLR", "StepLR", "ReduceLROnPlateau")
} | {"WarmupStableDecayLR": warmup_stable_decay, "LambdaLR": lambda_of_values}
OBJECTIVES = {
    "CrossEntropyLoss": nets.CrossEntropy,
    "MSELoss": nets.SquaredError,
    "BCEWithLogitsLoss": nets.BinaryCrossEntropy,
    "KLDivLoss": nets.Divergence,
}
# Which units are computed again changes no bit, so Python does it with each.
CHECKPOINTS = {
    f"Checkpoint<{choice}>": nets.checkpointed
    for choice in ("Full", "Every<2>", "Segments<>", "Only<Block>")
} | {"Checkpoint<Selective>": nets.selective}
NOTHING_TO_DO = ("Observe<Memory>",)
OURS_ALONE = {  # fields that PyTorch's class of the same name lacks
    "Precision<FP16>": ("min_scale", "max_skips"),
    "CrossEntropyLoss": ("outputs", "weight"),
    "MSELoss": ("outputs",),
    "BCEWithLogitsLoss": ("outputs",),
    "KLDivLoss": ("outputs",),
    "ReduceLROnPlateau": ("metric",),
}


def one_of(words, table, otherwise=None):
    """Takes the word of an axis out of a recipe: what `table` has for it, and its fields."""
    name = next((word for word in words if word in table), None)
    fields = words.pop(name, {})
    for field in OURS_ALONE.get(name, ()):
        fields.pop(field)
    return table.get(name, otherwise), fields


def working_of(words, model):
    name = next((word for word in words if word in precisions.WORKING), None)
    kind = precisions.WORKING.get(name, precisions.Itself)
    working = kind(model, words.get(name))
    words.get(name, {}).clear()
    return working


def optimizer_of(words, parameters):
    kind, fields = one_of(words, OPTIMIZERS, torch.optim.AdamW)
    if groups := fields.pop("groups", None):
        flat = {"params": [p for p in parameters if p.ndim <= 1], **groups[0]}
        parameters = [{"params": [p for p in parameters if p.ndim > 1]}, flat]
    return kind(parameters, **fields, fused=True)


def freeze(words, model):
    """Blocks, or the first layer."""
    frozen = []
    if words.pop("Freeze<parity::Block>", words.pop("Freeze<Block>", None)) is not None:
        frozen = [p for m in model.modules() if isinstance(m, nets.Block) for p in m.parameters()]
    if words.pop("Freeze<>", None) is not None:
        frozen = [p for name, p in model.named_parameters() if name.startswith("0.")]
    for p in frozen:
        p.requires_grad_(False)


def average_of(words, model):
    """An average of weights, as AveragedModel keeps it; None where the recipe has none."""
    fields = words.pop("EMA", None)
    if fields is None:
        return None
    average = swa_utils.get_ema_multi_avg_fn(fields["decay"])
    return swa_utils.AveragedModel(
        model, multi_avg_fn=average, use_buffers=fields["use_buffers"]
    )


def copy_counters(averaged, model):
    for mine, theirs in zip(averaged.module.buffers(), model.buffers(), strict=True):
        if not mine.is_floating_point():
            mine.copy_(theirs)


def schedule_of(words, optimizer):
    kind, fields = one_of(words, SCHEDULES, lr_scheduler.ConstantLR)
    warmup = fields.pop("warmup_steps", 0)
    if kind is lr_scheduler.ConstantLR:
        fields.setdefault("factor", 1)
    if warmup == 0:
        return kind(optimizer, **fields)
    rise = lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)
    after = kind(optimizer, **fields)
    return lr_scheduler.SequentialLR(optimizer, [rise, after], milestones=[warmup])


def clip_by_division(optimizer, parameters, max_norm, error_if_nonfinite):
    """The factor is the fused update's `grad_scale`, by which it divides: no pass of its own."""
    gradients = [p.grad for p in parameters]
    norm = torch.nn.utils.get_total_norm(gradients, error_if_nonfinite=error_if_nonfinite)
    optimizer.grad_scale = ((norm + 1e-6) / max_norm).clamp_min(1)
    return norm


def widened_attention(q, k, v, **options):
    """In single precision, as modules::attention takes half precision where heads are small."""
    if torch.is_autocast_enabled("cpu"):
        q, k, v = (x.to(torch.get_autocast_dtype("cpu")) for x in (q, k, v))
    wide = (x.float() for x in (q, k, v))
    with torch.autocast("cpu", enabled=False):
        return F.scaled_dot_product_attention(*wide, **options).to(q.dtype)


def bias_apart(layer, x):
    """As torch::nn::Linear in C++ where the input has three dimensions."""
    y = torch.matmul(x, layer.weight.t())
    y += layer.bias
    return y


class Twin:
    """A model in training.

    `net` and `words` are names with their fields, as a row's file has them; `same` is what is done
    as ikebana does it; the learning rates are `rate` times those of the recipe.
    """

    def __init__(self, net, words, weights, same="", rate=1.0):
        ((name, fields),) = net.items()
        self.model = (vars(nets) | vars(llama))[name](**fields)
        self.model.load_state_dict(weights)
        self.model.to(words.pop("On", {}).get("device", "cpu"))
        self.same = same
        if "widened attention" in same:
            nets.Block.attention = staticmethod(widened_attention)
            llama.LlamaAttention.attention = staticmethod(widened_attention)
        if "linear_cross_entropy, RMSNorm" in same:
            torch.nn.RMSNorm.forward = llama.norm_of_rows
            llama.Llama.objective = staticmethod(llama.linear_cross_entropy)
        if "the bias in a pass of its own" in same:
            nets.Tagger.linear = staticmethod(bias_apart)
        freeze(words, self.model)
        self.average = average_of(words, self.model)
        self.working = working_of(words, self.model)
        self.optimizer = optimizer_of(words, self.working.masters)
        for group in self.optimizer.param_groups:
            group["lr"] *= rate
            group["initial_lr"] = group["lr"]
        self.schedule = schedule_of(words, self.optimizer)
        self.number, fields = one_of(words, NUMBERS)
        half = self.number is torch.float16
        self.scaler = torch.amp.GradScaler("cpu", enabled=half, **fields)
        objective, fields = one_of(words, OBJECTIVES)
        if objective:
            self.model.objective = objective(**fields)
        self.run, _ = one_of(words, CHECKPOINTS, nets.plain)
        self.clip = words.pop("ClipGradNorm", None)
        counts = {word: int(word[11:-1]) for word in words if word.startswith("Accumulate<")}
        self.microbatches, _ = one_of(words, counts, 1)
        if unknown := [word for word in words if word not in NOTHING_TO_DO]:
            raise SystemExit(f"parity: tell twin.py what Python does for {', '.join(unknown)}")

    def autocast(self):
        return torch.autocast("cpu", self.number) if self.number else contextlib.nullcontext()

    def clip_gradients(self):
        if "clipping by division" in self.same:
            return clip_by_division(self.optimizer, self.model.by_unit(), **self.clip)
        self.scaler.unscale_(self.optimizer)
        return torch.nn.utils.clip_grad_norm_(self.model.parameters(), **self.clip)

    def step(self, parts):
        """One update from a list of microbatches, or from one batch that the recipe cuts.

        Returns the loss, the norm where there is clipping, and whether the update was skipped.
        """
        if self.microbatches > 1:
            parts = list(zip(*(torch.tensor_split(x, self.microbatches) for x in parts[0])))
        alone = len(parts) == 1 and "a sum that is divided" not in self.same
        count = 1 if alone else sum(self.model.count(part) for part in parts)
        total = 0
        for part in parts:
            with self.autocast():
                loss = self.model.loss_mean(part, self.run) if alone else self.sum_of(part)
            self.scaler.scale(loss if alone else loss / count).backward()
            self.working.bring_home()
            total = total + loss.detach()
        norm = self.clip_gradients() if self.clip else None
        scale = self.scaler.get_scale()
        self.working.update(lambda: self.scaler.step(self.optimizer))
        self.scaler.update()
        self.optimizer.zero_grad()
        skipped = self.scaler.get_scale() < scale
        if self.average and not skipped:
            self.average.update_parameters(self.model)
            if "counters copied" in self.same:
                copy_counters(self.average, self.model)
        return total / count, norm, skipped

    def step_schedule(self, loss):
        by_metric = isinstance(self.schedule, lr_scheduler.ReduceLROnPlateau)
        self.schedule.step(*([loss] if by_metric else []))

    def sum_of(self, part):
        return self.model.loss_sum(part, self.run)[0]

    def train(self, batches):
        """What the row's file has, too: a number a step, and the weights in the end."""
        torch.manual_seed(11)
        numbers = {"losses": [], "rates": [], "norms": [], "skips": []}
        for parts in batches:
            numbers["rates"].append(self.optimizer.param_groups[0]["lr"])
            loss, norm, skipped = self.step(parts)
            self.step_schedule(loss.item())
            numbers["losses"].append(loss.item())
            numbers["norms"] += [] if norm is None else [norm.item()]
            numbers["skips"].append(float(skipped))
        state = self.working.values(self.model.state_dict())
        weights = {f"final.{name}": x.detach() for name, x in state.items()}
        if self.average:
            averaged = self.average.module.state_dict()
            weights |= {f"averaged.{name}": x.detach() for name, x in averaged.items()}
        return weights | {n: torch.tensor(x, dtype=torch.float64) for n, x in numbers.items()}
