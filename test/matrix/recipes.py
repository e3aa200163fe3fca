"""Recipes that contain every pair, or every triple, of policies of different axes at least once.

Usage: recipes.py STRENGTH FOLDER PER_FILE  writes FOLDER/recipes_<i>.cpp, and prints their names
       recipes.py STRENGTH                  counts recipes, and checks that nothing is left out
"""

import sys

import covering

# Each policy as its value is written; the first of an axis is the case in which it is left out.
AXES = {
    "precision": ["", "Precision<TF32>{}", "Precision<BF16>{}", "Precision<FP16>{}",
                  "Precision<BF16Weights>{}", "Precision<BF16True>{}", "Precision<FP8>{}"],
    "checkpoint": ["", "Checkpoint<Full>{}", "Checkpoint<Selective>{}", "Checkpoint<Every<2>>{}",
                   "Checkpoint<Segments<2>>{}", "Checkpoint<Only<Block>>{}",
                   "Checkpoint<ActivationBudget<>>{.limit = 8 << 10}"],
    "accumulate": ["", "Accumulate<4>{}", "Accumulate<>{.microbatches = 3}",
                   "Accumulate<Fit<4>>{}"],
    "optimizer": ["", "Adam{}", "SGD{.lr = 0.1, .momentum = 0.9}", "Adagrad{}",
                  "Lion{}", "Adafactor{}", "Muon{}", "SparseAdam{}", "AdamW8bit{}",
                  "InBackward<AdamW>{}"],
    "schedule": ["", "LinearLR{.total_iters = 4}", "CosineAnnealingLR{.T_max = 5}",
                 "StepLR{.step_size = 2}", "steady", "halved", "ReduceLROnPlateau{.patience = 0}"],
    "objective": ["", "CrossEntropyLoss{.label_smoothing = 0.1}"],
    "clip": ["", "ClipGradNorm{.max_norm = 0.5}", "ClipGradValue{.clip_value = 0.05}",
             "SkipSpikes{.window = 2, .zscore = 0.5}"],
    "average": ["", "EMA{.decay = 0.5}", "SWA{.every_steps = 2}"],
    "freeze": ["", "Freeze<Head>{}", "Freeze<>{.match = named(\"first.*\")}"],
    "observe": ["", "Observe<Memory>{}"],
    "layout": ["", "Layout<ChannelsLast>{}"],
    "offload": ["", "Offload<CPU>{}", "Offload<CPU, OptimizerState>{}",
                "Offload<CPU, Activations>{.min_bytes = 0}",
                "Offload<CPU, Activations, Parameters>{.min_bytes = 0}",
                "Offload<Disk>{.folder = on_disk, .window_bytes = 3000}",
                "Offload<Disk, Activations, OptimizerState>{.folder = on_disk, .min_bytes = 0}"],
}
# Axes whose policies change where and when things are computed, never the result.
NEVER_WHAT = ("checkpoint", "observe", "offload")


def is_legal(word):
    if word.get("optimizer", "").startswith("InBackward"):
        other = ("clip", "accumulate")
        if word.get("offload", "").split("{")[0] not in ("", "Offload<CPU, Activations>"):
            return False
        return not (any(word.get(axis) for axis in other) or "FP16" in word.get("precision", ""))
    return True


TABLE = covering.Table(AXES, is_legal)


def case(recipe):
    """The recipe, and the same without the policies that must change no bit."""
    name = ", ".join(word.split("{")[0] for word in TABLE.words(recipe)) or "no policy"
    trainers = ("".join(f",\n            {word}" for word in TABLE.words(recipe, w))
                for w in ((), NEVER_WHAT))
    one, other = (f"    [] {{ return Trainer{{net(){values}}}; }}" for values in trainers)
    return f"TEST_CASE(\"matrix: {name}\") {{\n  guarantees_hold(\n{one},\n{other});\n}}\n"


if __name__ == "__main__":
    covering.main(TABLE, int(sys.argv[1]), case, '#include "matrix.hpp"\n', "matrix", *sys.argv[2:])
