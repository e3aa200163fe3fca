"""The Python of each policy of a recipe, as a PyTorch user would write it."""

import functools

import losses
import nets
import precisions
import torch

# TF32 concerns matrix products on a GPU only; Observe only measures.
NUMBERS = {f"Precision<{name}>": None for name in ("FP32", "TF32")} | {
    "Precision<BF16>": torch.bfloat16,
    "Precision<FP16>": torch.float16,
    **dict.fromkeys(precisions.WORKING, torch.bfloat16),
}
FUSED = ("AdamW", "Adam", "SGD", "Adagrad")  # the last one on a CPU only
OPTIMIZERS = {
    name: getattr(torch.optim, name)
    for name in (
        *(*FUSED, "Adafactor", "Muon", "SparseAdam", "RMSprop", "NAdam", "RAdam"),
        *("Adamax", "Adadelta", "ASGD", "Rprop"),
    )
}
OBJECTIVES = {
    "CrossEntropyLoss": nets.CrossEntropy,
    "MSELoss": nets.SquaredError,
    "BCEWithLogitsLoss": nets.BinaryCrossEntropy,
    "KLDivLoss": nets.Divergence,
} | losses.OBJECTIVES
# The choice of recomputed units changes no bit, so Python recomputes each.
CHECKPOINTS = {
    f"Checkpoint<{choice}>": nets.checkpointed
    for choice in (
        *("Full", "Every<2>", "Segments<>", "Only<Block>"),
        *("Budget<>", "ActivationBudget<>"),
    )
} | {"Checkpoint<Selective>": nets.selective}
NOTHING_TO_DO = ("Observe<Memory>",)
CLIPS = ("ClipGradNorm", "ClipGradValue")
OURS_ALONE = {  # fields that PyTorch's class of the same name lacks
    "Precision<FP16>": ("min_scale", "max_skips", "cpu_products"),
    **dict.fromkeys(("Muon", "Precision<BF16>"), ("cpu_products",)),
    "Checkpoint<Budget<>>": ("limit", "bytes"),
    "Checkpoint<ActivationBudget<>>": ("limit", "bytes"),
    "CrossEntropyLoss": ("outputs", "weight"),
    "MSELoss": ("outputs",),
    "BCEWithLogitsLoss": ("outputs",),
    **dict.fromkeys(("KLDivLoss", *losses.OBJECTIVES), ("outputs",)),
}


def one_of(words, table, otherwise=None):
    """Removes the policy of an axis from a recipe; returns its entry of `table` and its fields."""
    name = next((word for word in words if word in table), None)
    fields = words.pop(name, {})
    for field in OURS_ALONE.get(name, ()):
        fields.pop(field)
    return table.get(name, otherwise), fields


def multiplies_in_fp32(words):
    """Whether products of 16 bits are computed in FP32."""
    return any("fp32" in fields.get("cpu_products", ()) for fields in words.values())


def working_of(words, model):
    name = next((word for word in words if word in precisions.WORKING), None)
    kind = precisions.WORKING.get(name, precisions.Itself)
    working = kind(model, words.get(name))
    words.get(name, {}).clear()
    return working


MINE = {
    "Muon": lambda model: [p for p in model.parameters() if p.ndim == 2],
    "SparseAdam": lambda model: [m.weight for m in model.modules() if getattr(m, "sparse", False)],
}


class Both(torch.optim.Optimizer):
    """Two optimizers, which PyTorch needs if one does not accept all parameters."""

    def __init__(self, *parts):
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    def step(self):
        for part in self.parts:
            part.step()


class InBackward(Both):
    """Each parameter has its own optimizer, which steps as soon as its gradient is complete."""

    def __init__(self, parts):
        super().__init__(*parts)
        for part in parts:
            (p,) = part.param_groups[0]["params"]
            p.register_post_accumulate_grad_hook(functools.partial(self.arrived, part))

    @staticmethod
    def arrived(part, _):
        part.step()
        part.zero_grad()

    def step(self):
        pass


def optimizer_of(words, model, parameters):
    if fields := words.pop("InBackward<AdamW>", None):
        own = fields["optimizer"] | {"fused": True}
        own.pop("groups")
        return InBackward([torch.optim.AdamW([p], **own) for p in parameters])
    kind, fields = one_of(words, OPTIMIZERS, torch.optim.AdamW)
    if groups := fields.pop("groups", None):  # no policy with an `otherwise` has groups here
        named = dict(zip(dict(model.named_parameters()), parameters, strict=True))
        own = [group | {"params": [named.pop(name) for name in group["params"]]}
               for group in groups]
        parameters = [{"params": list(named.values())}, *own]
    on_cpu = next(model.parameters()).is_cpu
    if kind.__name__ in FUSED and (on_cpu or kind is not torch.optim.Adagrad):
        fields["fused"] = True
    if "otherwise" not in fields:
        return kind(parameters, **fields)
    rest, _ = fields.pop("otherwise"), fields.pop("match", None)
    mine = MINE[kind.__name__](model)
    others = [p for p in parameters if all(p is not q for q in mine)]
    rest.pop("groups")
    return Both(kind(mine, **fields), torch.optim.AdamW(others, **rest, fused=True))


def freeze(words, model):
    """Freezes the blocks, or the first layer."""
    frozen = []
    if words.pop("Freeze<parity::Block>", words.pop("Freeze<Block>", None)) is not None:
        frozen = [p for m in model.modules() if isinstance(m, nets.Block) for p in m.parameters()]
    if words.pop("Freeze<>", None) is not None:
        frozen = [p for name, p in model.named_parameters() if name.startswith("0.")]
    for p in frozen:
        p.requires_grad_(False)
