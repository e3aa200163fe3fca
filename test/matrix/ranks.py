"""Recipes on several ranks, which contain every pair of policies at least once.

Usage: ranks.py FOLDER PER_FILE  writes FOLDER/recipes_<i>.cpp, and prints their names
       ranks.py                  counts recipes, and checks that nothing is left out
"""

import sys

import covering

ADAMW = "AdamW{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}}"
# The axes are as in recipes.py.
AXES = {
    "shard": ["DDP", "ZeRO1", "ZeRO2", "FSDP", "HSDP<2>"],
    "model": ["Counted", "Late"],
    "optimizer": [ADAMW, "Adam{.lr = 1e-2, .amsgrad = true}",
                  "SGD{.lr = 1e-2, .momentum = 0.9, .nesterov = true}", "Adagrad{}",
                  "Lion{.lr = 1e-3}", "both", "Muon{.lr = 1e-2}", "Adafactor{.lr = 0.1}",
                  "AdamW8bit{.block_size = 1000, .min_8bit_size = 100}"],
    "precision": ["", "Precision<TF32>{}", "Precision<BF16>{}", "Precision<FP16>{}",
                  "Precision<BF16Weights>{}", "Precision<FP8>{}", "Precision<BF16True>{}"],
    "checkpoint": ["", "Checkpoint<Full>{}", "Checkpoint<Selective>{}", "Checkpoint<Every<2>>{}",
                   "Checkpoint<Segments<2>>{}", "Checkpoint<Only<Inner>>{}",
                   "Checkpoint<ActivationBudget<>>{.limit = 8 << 10}"],
    "schedule": ["", "CosineAnnealingLR{.T_max = 5}"],
    "clip": ["", "GradNorm{}", "ClipGradNorm{.max_norm = 1e6}"],
    "average": ["", "EMA{.decay = 0.5}"],
    "freeze": ["", "Freeze<>{.match = named(\"*.still.weight\")}"],
    "offload": ["", "Offload<CPU>{.allow_unused_units = true}",
                "Offload<CPU, Activations>{.min_bytes = 0}",
                "Offload<CPU, OptimizerState>{.allow_unused_units = true}",
                "files"],
}


def is_legal(word):
    """Returns false if an update in windows would need the slices of other ranks."""
    needs_others = word.get("optimizer", "").startswith(("Muon", "Adafactor", "AdamW8bit"))
    cuts = word.get("shard", "DDP") != "DDP"
    return not (needs_others and cuts and word.get("offload") == "files")


TABLE = covering.Table(AXES, is_legal)


def bounds(how, words):
    """Of slices Adafactor adds up squares in another order. Then some weights are rounded to
    another BF16 number; a wrong sum would change them by more than this. The norm of BF16 gradients
    is a BF16 number."""
    if how == "DDP" or not any(word.startswith("Adafactor") for word in words):
        in_bf16 = how != "DDP" and any("BF16True" in word for word in words)
        return "{.norms = 8e-3}" if in_bf16 else "{.norms = 1e-6}"
    exact = not any(word.startswith("Precision") and "TF32" not in word for word in words)
    within = "1e-5" if exact else "5e-3"
    return f"{{.bits = false, .norms = {within}, .weights = {within}}}"


def case(recipe):
    how, model, *words = TABLE.words(recipe)
    name = ", ".join([how, model] + [word.split("{")[0] for word in words])
    values = "".join(f",\n      {word}" for word in words)
    return (f"TEST_CASE(\"ranks: {name}\") {{\n  equals_one_rank<{how}>(recipe<{model}>(\n"
            f"      {bounds(how, words)}, 1{values}));\n}}\n")


if __name__ == "__main__":
    covering.main(TABLE, 2, case, '#include "ranks.hpp"\n', "test::ranks::pairs", *sys.argv[1:])
