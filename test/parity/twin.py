"""Trains in Python what a row of the suite trained in C++: same weights, batches and recipe.

Each policy of a recipe is written as a PyTorch user would. `same` names what is done as ikebana
does it instead, if Python has another way.
"""

import contextlib
import pathlib
import sys
from unittest import mock

import averages
import llama
import nets
import place
import schedules
import torch
import torch.nn.functional as F
import words as python
from torch.optim import lr_scheduler

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "scripts/finetune"))
import products  # noqa: E402


def clip_by_division(optimizer, parameters, max_norm, error_if_nonfinite, is_last):
    """The factor is the fused update's `grad_scale`, which divides without a pass of its own.

    If the gradients are clamped after it, they are divided before.
    """
    gradients = [p.grad for p in parameters]
    norm = torch.nn.utils.get_total_norm(gradients, error_if_nonfinite=error_if_nonfinite)
    factor = ((norm + 1e-6) / max_norm).clamp_min(1)
    if is_last:
        optimizer.grad_scale = factor
    else:
        torch._foreach_div_(gradients, factor)
    return norm


def widened_attention(q, k, v, **options):
    """In single precision, as modules::attention computes half precision with small heads."""
    if torch.is_autocast_enabled("cpu"):
        q, k, v = (x.to(torch.get_autocast_dtype("cpu")) for x in (q, k, v))
    wide = (x.float() for x in (q, k, v))
    with torch.autocast("cpu", enabled=False):
        return F.scaled_dot_product_attention(*wide, **options).to(q.dtype)


def bias_apart(layer, x):
    """As torch::nn::Linear in C++ for an input of three dimensions."""
    y = torch.matmul(x, layer.weight.t())
    y += layer.bias
    return y


class Twin:
    """A model in training.

    `net` and `words` are names with their fields, as in a row's file; `same` is what is done as
    ikebana does it; the learning rates are `rate` times the recipe's. `close` undoes what is
    done otherwise than in Python.
    """

    def __init__(self, net, words, weights, same="", rate=1.0, where=place.CPU):
        ((name, fields),) = net.items()
        self.model = (vars(nets) | vars(llama))[name](**fields)
        self.model.load_state_dict(weights)
        self.model.to(where.name, torch.float64 if where.double else None)
        words.pop("On", None)
        self.channels_last = words.pop("Layout<ChannelsLast>", None) is not None
        if self.channels_last:
            self.model.to(memory_format=torch.channels_last)
        self.same, self.where, self.changes = same, where, contextlib.ExitStack()
        self.do_as_ikebana()
        python.freeze(words, self.model)
        self.averages_equally = "SWA" in words
        self.average = averages.average_of(words, self.model, same)
        self.in_fp32 = python.multiplies_in_fp32(words) and where.is_cpu and not where.double
        self.working = python.working_of(words, self.model)
        self.changes.callback(self.working.close)
        if "Precision<TF32>" in words:
            self.changes.enter_context(where.tf32())
        self.optimizer = python.optimizer_of(words, self.model, list(self.working.masters))
        for group in self.optimizer.param_groups:
            group["lr"] *= rate
            group["times"] = rate  # for schedules that have rates of their own
            group["initial_lr"] = group["lr"]
        self.schedule = schedules.schedule_of(words, self.optimizer)
        self.number, fields = python.one_of(words, python.NUMBERS)
        half = self.number is torch.float16
        self.scaler = torch.amp.GradScaler(where.type, enabled=half, **fields)
        objective, fields = python.one_of(words, python.OBJECTIVES)
        if objective:
            self.model.objective = objective(**fields)
        self.run, _ = python.one_of(words, python.CHECKPOINTS, nets.plain)
        if where.double:  # a recompute changes no bit, and not all kernels for doubles allow it
            self.run = nets.plain
        self.clips = [(w, words.pop(w)) for w in list(words) if w in python.CLIPS]
        counts = {word: int(word[11:-1]) for word in words if word.startswith("Accumulate<")}
        self.microbatches, _ = python.one_of(words, counts, 1)
        if unknown := [word for word in words if word not in python.NOTHING_TO_DO]:
            raise SystemExit(f"parity: words.py has no Python for {', '.join(unknown)}")

    def close(self):
        self.changes.close()

    def do_as_ikebana(self):
        """On a device ikebana uses PyTorch's attention and RMSNorm."""

        def change(kind, name, function):
            self.changes.enter_context(mock.patch.object(kind, name, function))

        if "widened attention" in self.same and self.where.is_cpu:
            change(nets.Block, "attention", staticmethod(widened_attention))
            change(llama.LlamaAttention, "attention", staticmethod(widened_attention))
        if "linear_cross_entropy, RMSNorm" in self.same:
            change(llama.Llama, "objective", staticmethod(llama.linear_cross_entropy))
            if self.where.is_cpu:
                change(torch.nn.RMSNorm, "forward", llama.norm_of_rows)
        if "the bias in a pass of its own" in self.same:
            change(nets.Tagger, "linear", staticmethod(bias_apart))

    def autocast(self):
        if self.number is None:
            return contextlib.nullcontext()
        return torch.autocast(self.where.type, self.number)

    def clip_gradients(self):
        """Clips in the order of the recipe. Returns the norm, if one is computed."""
        norm = None
        by_division = "clipping by division" in self.same
        if not by_division:
            self.scaler.unscale_(self.optimizer)
        for i, (word, fields) in enumerate(self.clips):
            if word == "ClipGradValue":
                torch.nn.utils.clip_grad_value_(self.model.parameters(), **fields)
            elif by_division:
                is_last = i + 1 == len(self.clips)
                by_unit = self.model.by_unit()
                norm = clip_by_division(self.optimizer, by_unit, **fields, is_last=is_last)
            else:
                norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), **fields)
        return norm

    def step(self, parts):
        """Makes one update from a list of microbatches, or from one batch that the recipe cuts.

        Returns the loss, the norm if there is clipping, and whether the update was skipped.
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
        norm = self.clip_gradients() if self.clips else None
        scale = self.scaler.get_scale()
        self.working.update(lambda: self.scaler.step(self.optimizer))
        self.scaler.update()
        self.optimizer.zero_grad()
        skipped = self.scaler.get_scale() < scale
        self.steps += 1
        if self.average and not skipped and self.average.is_due(self.steps):
            self.average.update_parameters(self.model)
            if "counters copied" in self.same:
                averages.copy_counters(self.average, self.model)
        return total / count, norm, skipped

    def step_schedule(self, loss):
        by_metric = isinstance(self.schedule, lr_scheduler.ReduceLROnPlateau)
        self.schedule.step(*([loss] if by_metric else []))

    def moved(self, x):
        x = self.where.moved(x)
        images = self.channels_last and x.ndim == 4
        return x.contiguous(memory_format=torch.channels_last) if images else x

    def sum_of(self, part):
        return self.model.loss_sum(part, self.run)[0]

    def train(self, batches):
        """Returns the same results as in the row's file: a number per step, and the final
        weights."""
        with products.InFP32() if self.in_fp32 else contextlib.nullcontext():
            return self.train_natively(batches)

    def train_natively(self, batches):
        torch.manual_seed(11)
        self.steps = 0
        numbers = {"losses": [], "rates": [], "norms": [], "skips": []}
        for parts in batches:
            numbers["rates"].append(self.optimizer.param_groups[0]["lr"])
            parts = [tuple(self.moved(x) for x in part) for part in parts]
            with self.where.rates(self.optimizer):
                loss, norm, skipped = self.step(parts)
            self.step_schedule(loss.item())
            numbers["losses"].append(loss.item())
            numbers["norms"] += [] if norm is None else [norm.item()]
            numbers["skips"].append(float(skipped))
        state = self.working.values(self.model.state_dict())
        weights = {f"final.{name}": x.detach().cpu() for name, x in state.items()}
        if self.average:
            if self.average.n_averaged > 0 and self.averages_equally:
                inputs = [self.moved(part[0]) for parts in batches for part in parts]
                averages.update_bn(self.average, self.model, inputs)
            averaged = self.average.module.state_dict()
            weights |= {f"averaged.{name}": x.detach().cpu() for name, x in averaged.items()}
        return weights | {n: torch.tensor(x, dtype=torch.float64) for n, x in numbers.items()}
