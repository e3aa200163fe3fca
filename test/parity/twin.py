"""Trains in Python what a row of the suite trained in C++: same weights, batches and recipe.

Each word of a recipe is done as a PyTorch user would write it. `same` names what is done as ikebana
does it instead, where Python has another way.
"""

import contextlib

import nets
import torch
import torch.nn.functional as F
from torch.optim import lr_scheduler

# TF32 is about matrix products on a GPU; Observe only looks.
NUMBERS = {f"Precision<{name}>": None for name in ("FP32", "TF32")} | {
    "Precision<BF16>": torch.bfloat16,
    "Precision<FP16>": torch.float16,
}
FUSED = ("AdamW", "Adam", "SGD", "Adagrad")
OPTIMIZERS = {
    name: getattr(torch.optim, name) for name in (*FUSED, "Adafactor", "Muon", "SparseAdam")
}
SCHEDULES = {
    name: getattr(lr_scheduler, name) for name in ("ConstantLR", "LinearLR", "CosineAnnealingLR")
}
OBJECTIVES = {"CrossEntropyLoss": nets.CrossEntropy, "MSELoss": nets.SquaredError}
CHECKPOINTS = {"Checkpoint<Full>": nets.checkpointed}
NOTHING_TO_DO = ("Observe<Memory>",)
OURS_ALONE = {  # fields that PyTorch's class of the same name lacks
    "Precision<FP16>": ("min_scale", "max_skips"),
    "CrossEntropyLoss": ("outputs", "weight"),
    "MSELoss": ("outputs",),
}


def one_of(words, table, otherwise=None):
    """Takes the word of an axis out of a recipe: what `table` has for it, and its fields."""
    name = next((word for word in words if word in table), None)
    fields = words.pop(name, {})
    for field in OURS_ALONE.get(name, ()):
        fields.pop(field)
    return table.get(name, otherwise), fields


MINE = {
    "Muon": lambda model: [p for p in model.parameters() if p.ndim == 2],
    "SparseAdam": lambda model: [m.weight for m in model.modules() if getattr(m, "sparse", False)],
}


class Both(torch.optim.Optimizer):
    """The two that PyTorch needs where one optimizer does not take all parameters."""

    def __init__(self, *parts):
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    def step(self):
        for part in self.parts:
            part.step()


def optimizer_of(words, model):
    kind, fields = one_of(words, OPTIMIZERS, torch.optim.AdamW)
    parameters = list(model.parameters())
    if groups := fields.pop("groups", None):  # of no word that has an `otherwise`
        flat = {"params": [p for p in parameters if p.ndim <= 1], **groups[0]}
        parameters = [{"params": [p for p in parameters if p.ndim > 1]}, flat]
    if kind.__name__ in FUSED:
        fields["fused"] = True
    if "otherwise" not in fields:
        return kind(parameters, **fields)
    rest, _ = fields.pop("otherwise"), fields.pop("match", None)
    mine = MINE[kind.__name__](model)
    others = [p for p in parameters if all(p is not q for q in mine)]
    rest.pop("groups")
    return Both(kind(mine, **fields), torch.optim.AdamW(others, **rest, fused=True))


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
        self.model = getattr(nets, name)(**fields)
        self.model.load_state_dict(weights)
        self.model.to(words.pop("On", {}).get("device", "cpu"))
        self.same = same
        if "widened attention" in same:
            nets.Block.attention = staticmethod(widened_attention)
        if "the bias in a pass of its own" in same:
            nets.Tagger.linear = staticmethod(bias_apart)
        self.optimizer = optimizer_of(words, self.model)
        for group in self.optimizer.param_groups:
            group["lr"] *= rate
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
            total = total + loss.detach()
        norm = self.clip_gradients() if self.clip else None
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return total / count, norm, self.scaler.get_scale() < scale

    def sum_of(self, part):
        return self.model.loss_sum(part, self.run)[0]

    def train(self, batches):
        """What the row's file has, too: a number a step, and the weights in the end."""
        torch.manual_seed(11)
        numbers = {"losses": [], "rates": [], "norms": [], "skips": []}
        for parts in batches:
            numbers["rates"].append(self.optimizer.param_groups[0]["lr"])
            loss, norm, skipped = self.step(parts)
            self.schedule.step()
            numbers["losses"].append(loss.item())
            numbers["norms"] += [] if norm is None else [norm.item()]
            numbers["skips"].append(float(skipped))
        weights = {f"final.{name}": x.detach() for name, x in self.model.state_dict().items()}
        return weights | {n: torch.tensor(x, dtype=torch.float64) for n, x in numbers.items()}
