"""Recipes that contain every pair, or every triple, of policies of different axes at least once.

Usage: recipes.py STRENGTH FOLDER PER_FILE  writes FOLDER/recipes_<i>.cpp, and prints their names
       recipes.py STRENGTH                  counts recipes, and checks that nothing is left out

The array is made greedily, the same in every run: each recipe is the best of some that are drawn,
each of which begins with a combination that is still missing.
"""

import itertools
import pathlib
import random
import sys

# Each policy as its value is written; the first of an axis is the case in which it is left out.
AXES = {
    "precision": ["", "Precision<TF32>{}", "Precision<BF16>{}", "Precision<FP16>{}",
                  "Precision<BF16Weights>{}", "Precision<BF16True>{}", "Precision<FP8>{}"],
    "checkpoint": ["", "Checkpoint<Full>{}", "Checkpoint<Selective>{}", "Checkpoint<Every<2>>{}",
                   "Checkpoint<Segments<2>>{}", "Checkpoint<Only<Block>>{}"],
    "accumulate": ["", "Accumulate<4>{}", "Accumulate<>{.microbatches = 3}"],
    "optimizer": ["", "Adam{}", "SGD{.lr = 0.1, .momentum = 0.9}", "Adagrad{}",
                  "Lion{}", "Adafactor{}", "Muon{}", "SparseAdam{}", "AdamW8bit{}",
                  "InBackward<AdamW>{}"],
    "schedule": ["", "LinearLR{.total_iters = 4}", "CosineAnnealingLR{.T_max = 5}",
                 "StepLR{.step_size = 2}", "steady", "halved", "ReduceLROnPlateau{.patience = 0}"],
    "objective": ["", "CrossEntropyLoss{.label_smoothing = 0.1}"],
    "clip": ["", "ClipGradNorm{.max_norm = 0.5}"],
    "average": ["", "EMA{.decay = 0.5}"],
    "freeze": ["", "Freeze<Head>{}", "Freeze<>{.match = named(\"first.*\")}"],
    "observe": ["", "Observe<Memory>{}"],
}
NAMES = list(AXES)
# Axes whose policies change where and when things are computed, never the result.
NEVER_WHAT = ("checkpoint", "observe")


def legal(recipe):
    """False for what is refused; `recipe` has an index for each axis that is decided."""
    word = {axis: AXES[axis][i] for axis, i in recipe.items()}
    if word.get("optimizer", "").startswith("InBackward"):
        other = ("clip", "accumulate")
        return not (any(word.get(axis) for axis in other) or "FP16" in word.get("precision", ""))
    return True


def combinations(strength):
    for axes in itertools.combinations(NAMES, strength):
        for choice in itertools.product(*(range(len(AXES[axis])) for axis in axes)):
            if legal(dict(zip(axes, choice))):
                yield frozenset(zip(axes, choice))


def met(recipe, strength):
    return {frozenset(part) for part in itertools.combinations(recipe.items(), strength)}


def drawn(missing, draw, strength):
    """A legal recipe with one of the missing combinations, filled up at random."""
    recipe = dict(draw.choice(missing))
    for axis in draw.sample(NAMES, len(NAMES)):
        if axis not in recipe:
            fits = [i for i in range(len(AXES[axis])) if legal(recipe | {axis: i})]
            recipe[axis] = draw.choice(fits)
    return recipe


def improved(recipe, missing, strength):
    """Each axis in turn takes the policy that covers most of the missing combinations."""
    for axis in NAMES:
        others = [recipe | {axis: i} for i in range(len(AXES[axis]))]
        recipe = max((r for r in others if legal(r)),
                     key=lambda r: len(met(r, strength) & missing))
    return recipe


def covering(strength):
    draw, missing, recipes = random.Random(strength), set(combinations(strength)), []
    while missing:
        order = sorted(missing, key=sorted)
        tries = [improved(drawn(order, draw, strength), missing, strength) for _ in range(6)]
        best = max(tries, key=lambda r: len(met(r, strength) & missing))
        missing -= met(best, strength)
        recipes.append(best)
    return recipes


def words(recipe, without=()):
    chosen = (AXES[axis][recipe[axis]] for axis in NAMES if axis not in without)
    return [word for word in chosen if word]


def case(recipe):
    """The recipe, and the same without the policies that must change no bit."""
    name = ", ".join(word.split("{")[0] for word in words(recipe)) or "no policy"
    trainers = ("".join(f", {word}" for word in words(recipe, w)) for w in ((), NEVER_WHAT))
    one, other = (f"    [] {{ return Trainer{{net(){values}}}; }}" for values in trainers)
    return f"TEST_CASE(\"matrix: {name}\") {{\n  laws_hold(\n{one},\n{other});\n}}\n"


def write(folder, recipes, per_file):
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(0, len(recipes), per_file):
        path = folder / f"recipes_{i // per_file}.cpp"
        body = "\n".join(case(recipe) for recipe in recipes[i:i + per_file])
        text = f'#include "matrix.hpp"\n\nnamespace matrix {{\n\n{body}\n}}  // namespace matrix\n'
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        print(path)


def main(strength, folder=None, per_file=8):
    strength = int(strength)
    recipes = covering(strength)
    if folder:
        return write(pathlib.Path(folder), recipes, int(per_file))
    left = set(combinations(strength)) - set().union(*(met(r, strength) for r in recipes))
    all_of_them = len(set(combinations(strength)))
    print(f"{len(recipes)} recipes, {all_of_them} combinations, {len(left)} missed")
    sys.exit(1 if left or not all(map(legal, recipes)) else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
