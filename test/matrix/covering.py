"""Recipes that contain every combination of policies of some number of axes at least once.

The array is made greedily, the same in every run: each recipe is the best of some that are drawn,
each of which begins with a combination that is still missing.
"""

import itertools
import pathlib
import random
import sys


class Table:
    """`axes` has for each axis its policies as their values are written; the empty one is left
    out. `is_legal` takes the words of the axes that are decided, by axis, and is false for what is
    refused. A recipe has an index for each axis.
    """

    def __init__(self, axes, is_legal):
        self.axes, self.names, self.is_legal = axes, list(axes), is_legal

    def legal(self, recipe):
        return self.is_legal({axis: self.axes[axis][i] for axis, i in recipe.items()})

    def words(self, recipe, without=()):
        chosen = (self.axes[axis][recipe[axis]] for axis in self.names if axis not in without)
        return [word for word in chosen if word]

    def combinations(self, strength):
        for axes in itertools.combinations(self.names, strength):
            for choice in itertools.product(*(range(len(self.axes[axis])) for axis in axes)):
                if self.legal(dict(zip(axes, choice))):
                    yield frozenset(zip(axes, choice))

    def drawn(self, missing, draw):
        """A legal recipe with one of the missing combinations, filled up at random."""
        recipe = dict(draw.choice(missing))
        for axis in draw.sample(self.names, len(self.names)):
            if axis not in recipe:
                fits = [i for i in range(len(self.axes[axis])) if self.legal(recipe | {axis: i})]
                recipe[axis] = draw.choice(fits)
        return recipe

    def improved(self, recipe, missing, strength):
        """Each axis in turn takes the policy that covers most of the missing combinations."""
        for axis in self.names:
            others = [recipe | {axis: i} for i in range(len(self.axes[axis]))]
            recipe = max((r for r in others if self.legal(r)),
                         key=lambda r: len(met(r, strength) & missing))
        return recipe

    def covering(self, strength):
        draw, missing, recipes = random.Random(strength), set(self.combinations(strength)), []
        while missing:
            order = sorted(missing, key=sorted)
            tries = [self.improved(self.drawn(order, draw), missing, strength) for _ in range(6)]
            best = max(tries, key=lambda r: len(met(r, strength) & missing))
            missing -= met(best, strength)
            recipes.append(best)
        return recipes

    def check(self, strength):
        """A line that counts, and whether all recipes are legal and nothing is left out."""
        recipes, wanted = self.covering(strength), set(self.combinations(strength))
        left = wanted - set().union(*(met(r, strength) for r in recipes))
        line = f"{len(recipes)} recipes, {len(wanted)} combinations, {len(left)} missed"
        return line, not left and all(map(self.legal, recipes))


def met(recipe, strength):
    return {frozenset(part) for part in itertools.combinations(recipe.items(), strength)}


def write(folder, cases, per_file, head, namespace):
    """Writes the cases into folder/recipes_<i>.cpp, and prints the names of these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(0, len(cases), per_file):
        path = folder / f"recipes_{i // per_file}.cpp"
        body = "\n".join(cases[i:i + per_file])
        text = f"{head}\nnamespace {namespace} {{\n\n{body}\n}}  // namespace {namespace}\n"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
        print(path)


def main(table, strength, case, head, namespace, folder=None, per_file=8):
    """Writes the recipes, each as `case` writes it, or checks that nothing is left out."""
    if folder:
        cases = [case(recipe) for recipe in table.covering(strength)]
        return write(pathlib.Path(folder), cases, int(per_file), head, namespace)
    line, is_right = table.check(strength)
    print(line)
    sys.exit(0 if is_right else 1)
