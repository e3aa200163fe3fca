"""All headers together: which function a call means, and with what texts it is called."""
import collections
import dataclasses
import functools
import pathlib
import re

from cpp import Source, split
from names import BEGIN, has_literal, varies
from texts import Texts, returns

DEEPEST_CALLS = 4
# These are functions whose names are too common to find the calls of them.
NOT_BY_CALL = {"model.hpp:at", "average/averages.hpp:check"}


@dataclasses.dataclass
class Bound:
    """The texts that a call gives to parameters, its place, and its template arguments."""

    source: Source
    at: int
    texts: dict
    types: tuple = ()


# These headers have bodies that they do not include, since these need Arrow.
BODIES = {"arrow_table.hpp": ("arrow_files", "arrow_row"),
          "read_parquet.hpp": ("arrow_values", "read_parquet")}


def text_of(path):
    """A header, with the bodies that stand apart from it."""
    bodies = [f"impl/{name}.ipp" for name in BODIES.get(path.name, ())]
    texts, done = [path.read_text()], set()
    for text in texts:  # which grows: bodies include others
        if path.name not in BODIES:
            bodies = re.findall(r"^#include <ikebana/(?:.*/)?(impl/\w+\.ipp)>$", text, re.M)
        for body in bodies:
            if body not in done:
                texts.append((path.parent / body).read_text().replace("IKEBANA_INLINE ", ""))
                done.add(body)
    return "".join(texts)


class Tree:
    def __init__(self, include):
        include = pathlib.Path(include)
        files = sorted(p for p in include.rglob("*") if p.suffix in (".hpp", ".inc", ".h"))
        self.sources = {name: Source(name, text_of(path)) for path in files
                        for name in [path.relative_to(include).as_posix()]}
        self.named = collections.defaultdict(list)
        self.words = collections.defaultdict(list)
        for source in self.sources.values():
            for function in source.functions:
                self.named[function.name].append(function)
            for at, token in enumerate(source.tokens):
                if token.kind == "word":
                    self.words[token.text].append((source, at))

    @functools.cache
    def reach(self, name):
        """Returns the headers that one includes, with the number of steps to each."""
        found, queue = {name: 0}, [name]
        for now in queue:
            for other in self.sources[now].includes if now in self.sources else ():
                if other not in found:
                    found[other] = found[now] + 1
                    queue.append(other)
        return found

    def functions_for(self, name, source, count, at):
        """The functions that a call with `count` arguments may mean, the nearest first."""
        reach = self.reach(source.name)
        fits = [f for f in self.named[name] if len(f.parameters) >= count
                and all(p[1] is not None for p in f.parameters[count:])
                and (not f.outer or f.file is source and f.outer.holds(at))]
        near = [f for f in fits if f.file.name in reach] or [  # or of a class that derives from it
            f for f in fits if source.name in self.reach(f.file.name)]
        return sorted(near, key=lambda f: (not f.outer, reach.get(f.file.name, 0)))

    def returned(self, function, bound, depth):
        """Returns the texts that a function returns."""
        begin, end = function.body
        texts = []
        tokens = function.file.tokens
        places = {id(tokens[at]): at for at in range(begin, end)}
        for expression in returns(tokens[begin:end]):
            at = places[id(expression[0])] if expression else begin
            texts += Texts(self, function.file, function, at, bound, depth).of(expression)
        return list(dict.fromkeys(texts))

    def constant(self, name, source):
        """Returns the text of `constexpr const char* name = "...";`, and its header."""
        for where, at in sorted(self.words[name], key=lambda w: w[0] is not source):
            tokens = where.tokens
            if at + 2 < len(tokens) and tokens[at + 1].text == "=" and tokens[at + 2].kind in (
                    "string", "raw") and self.reach(source.name).get(where.name, 9) < 3:
                words = {t.text for t in tokens[max(0, at - 6) : at]}
                if "constexpr" in words:
                    return where, tokens[at + 2 : where.end_of(at + 2, ";")]
        return None

    def calls(self, function):
        """Yields the calls of a function: header, index of the name, arguments, template
        arguments."""
        for source, at in self.words[function.name]:
            tokens, bracket, types = source.tokens, at + 1, ()
            if tokens[bracket].text == "<":
                end = next((i for i in range(bracket, min(bracket + 40, len(tokens) - 1))
                            if tokens[i].text == ">" and tokens[i + 1].text == "("), None)
                if end is None:
                    continue
                types, bracket = tuple(t.text for t in tokens[bracket:end]), end + 1
            if tokens[bracket].text != "(":
                continue
            inside = split(tokens[bracket + 1 : tokens[bracket].match], ",")
            meant = self.functions_for(function.name, source, len(inside), at)
            if meant and meant[0] is function and source.enclosing(at):
                yield source, at, inside, types

    def bounds(self, function, wanted, depth=0):
        """Returns what the calls of a function give to the parameters that are wanted, if it is
        text."""
        if f"{function.file.name}:{function.name}" in NOT_BY_CALL or depth > DEEPEST_CALLS:
            return
        names = [p[0] for p in function.parameters]
        for source, at, inside, types in self.calls(function):
            inside += [p[1] for p in function.parameters[len(inside) :]]  # default values
            given = {n: a for n, a in zip(names, inside) if n in wanted}
            if any(t.text == "nullptr" for a in given.values() for t in a[:1]):
                continue  # no text
            caller = source.enclosing(at)
            texts = Texts(self, source, caller, at)
            known = {n: letters(texts.of(a), n) for n, a in given.items()}
            outer = [b for f in callers(caller) if texts.used
                     for b in self.bounds(f, texts.used, depth + 1)]
            for one in outer:
                inner = Texts(self, source, caller, at, one.texts)
                more = {n: letters(inner.of(a), n) for n, a in given.items()}
                yield Bound(one.source, one.at, more, types + one.types)
            if not outer and any(has_literal(t) for all_of in known.values() for t in all_of):
                yield Bound(source, at, known, types)

    def messages(self, source, at, expression):
        """(Bound of the place, texts) of an expression at `at`: one for each call of the function
        around it whose arguments are a part of the text, or one."""
        function = source.enclosing(at)
        found = [Bound(source, at, {})]
        for around in callers(function):
            found = [more for one in found
                     for more in self.more_bound(source, at, expression, around, one)]
        return [(one, Texts(self, source, function, at, one.texts).of(expression)) for one in found]

    def more_bound(self, source, at, expression, function, one):
        texts = Texts(self, source, source.enclosing(at), at, one.texts)
        texts.of(expression)
        wanted = texts.used & {p[0] for p in function.parameters}
        more = [Bound(b.source, b.at, {**one.texts, **b.texts}, one.types + b.types)
                for b in self.bounds(function, wanted)] if wanted else []
        return more or [one]


def callers(function):
    """Returns a lambda and the function that it is in, or the function alone."""
    return [] if function is None else [function, *callers(function.outer)]


def letters(texts, name):
    """A number among the arguments is a value, and no text."""
    return [t if has_literal(t) or t == "" or BEGIN in t else varies(name) for t in texts]
