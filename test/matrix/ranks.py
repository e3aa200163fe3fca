"""Recipes on several ranks, which contain every pair of policies at least once.

Usage: ranks.py FOLDER PER_FILE  writes FOLDER/recipes_<i>.cpp, and prints their names
       ranks.py                  counts recipes, and checks that nothing is left out
"""

import sys

import covering

ADAMW = "AdamW{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}}"
# As in recipes.py. What needs whole parameters is refused with slices.
AXES = {
    "shard": ["DDP", "ZeRO1", "ZeRO2", "FSDP", "HSDP<2>"],
    "model": ["Counted", "Late"],
    "optimizer": [ADAMW, "Adam{.lr = 1e-2, .amsgrad = true}",
                  "SGD{.lr = 1e-2, .momentum = 0.9, .nesterov = true}", "Adagrad{}",
                  "Lion{.lr = 1e-3}", "both", "Muon{.lr = 1e-2}", "Adafactor{}", "AdamW8bit{}"],
    "precision": ["", "Precision<TF32>{}", "Precision<BF16>{}", "Precision<FP16>{}",
                  "Precision<BF16Weights>{}", "Precision<FP8>{}", "Precision<BF16True>{}"],
    "checkpoint": ["", "Checkpoint<Full>{}", "Checkpoint<Selective>{}", "Checkpoint<Every<2>>{}",
                   "Checkpoint<Segments<2>>{}", "Checkpoint<Only<Inner>>{}"],
    "schedule": ["", "CosineAnnealingLR{.T_max = 5}"],
    "clip": ["", "GradNorm{}", "ClipGradNorm{.max_norm = 1e6}"],
    "average": ["", "EMA{.decay = 0.5}"],
    "freeze": ["", "Freeze<>{.match = named(\"*.still.weight\")}"],
}
WHOLE = ("Muon", "Adafactor", "AdamW8bit", "Precision<BF16True>")


def is_legal(word):
    if word.get("shard", "DDP") == "DDP":
        return True
    return not any(word.get(axis, "").startswith(WHOLE) for axis in ("optimizer", "precision"))


TABLE = covering.Table(AXES, is_legal)


def case(recipe):
    how, model, *words = TABLE.words(recipe)
    name = ", ".join([how, model] + [word.split("{")[0] for word in words])
    values = "".join(f",\n      {word}" for word in words)
    return (f"TEST_CASE(\"ranks: {name}\") {{\n  equals_one_rank<{how}>(recipe<{model}>(\n"
            f"      {{.norms = 1e-6}}, 1{values}));\n}}\n")


if __name__ == "__main__":
    covering.main(TABLE, 2, case, '#include "ranks.hpp"\n', "test::ranks::pairs", *sys.argv[1:])
