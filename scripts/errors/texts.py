"""Finds the texts that an expression of C++ may make, with <names> for the parts that vary."""
from cpp import CLOSE, NAMES_TYPES, OPEN, closing, depth_split, parameter, split
from local_texts import LocalTexts
from names import BEGIN, END, KEPT, PLAIN, SHOWN_AS, has_literal, joined, varies

DEEPEST = 9  # calls within calls
SAYS_NOTHING = {"value", "str", "string", "load", "memory_order_relaxed", "std", "begin",
                "value_or", "find", "front", "back", "data", "at", "sizeof", "int64_t", "size_t"}


class Texts(LocalTexts):
    """What expressions within one function may be. `bound` has the texts of its parameters;
    `used` collects the parameters of which nothing is known."""

    def __init__(self, tree, source, function, at, bound=None, depth=0):
        self.tree, self.source, self.function, self.at = tree, source, function, at
        self.bound, self.depth, self.used = bound or {}, depth, set()

    def of(self, tokens):
        """Returns the texts that an expression may be."""
        while tokens and tokens[0].text == "(" and closing(tokens, 0) == len(tokens) - 1:
            tokens = tokens[1:-1]
        if not tokens:
            return [""]
        if (question := depth_split(tokens, "?")) is not None:
            rest = tokens[question + 1 :]
            colon = self.colon_of(rest)
            return list(dict.fromkeys(self.of(rest[:colon]) + self.of(rest[colon + 1 :])))
        for mark in ("<<", "+"):
            parts = split(tokens, mark)
            if len(parts) > 1:
                return joined([self.of(part) for part in parts if part])
        return self.of_operand(tokens)

    @staticmethod
    def colon_of(tokens):
        depth = nested = 0
        for at, token in enumerate(tokens):
            if token.kind != "mark":
                continue
            depth += (token.text in OPEN) - (token.text in CLOSE)
            nested += depth == 0 and token.text == "?"
            if depth == 0 and token.text == ":":
                if nested == 0:
                    return at
                nested -= 1
        raise ValueError("a `?` without `:`")

    def of_operand(self, tokens):
        if all(t.kind in ("string", "raw") for t in tokens):
            return ["".join(t.value for t in tokens)]
        if len(tokens) == 1 and tokens[0].kind == "char":
            return [tokens[0].value]
        if len(tokens) == 1 and tokens[0].kind == "number":
            return [tokens[0].text]
        if tokens[0].text == "[":  # a lambda: what it returns
            return self.of_lambda(tokens, [])
        if tokens[-1].text in (")", "}"):
            return self.of_call(tokens)
        if len(tokens) == 1 and tokens[0].text == "nullptr":
            return [""]
        if len(tokens) == 1 and tokens[0].kind == "word":
            return self.of_name(tokens[0].text)
        if len(tokens) == 3 and tokens[1].text == "::":
            return self.of_name(tokens[2].text)  # a constant of another namespace
        if len(tokens) > 3 and tokens[1].text == "<" and tokens[0].text in NAMES_TYPES:
            inner = [t.text for t in tokens[2:-1]]
            inner = inner[4:-1] if "impl_of_t" in inner else inner
            text = "".join(inner).replace(",", ", ")
            text = text if "<" in inner else varies(text)
            return [f"`{text}`" if tokens[0].text in ("quoted", "list_of") else text]
        return [varies(self.name_of(tokens))]

    # Calls

    def of_call(self, tokens):
        begin = self.opening_of_last(tokens)
        name, inside = self.callee(tokens[:begin]), split(tokens[begin + 1 : -1], ",")
        if begin == 1 and any(name == p[0] for f in self.around() for p in f.parameters):
            return self.of_name(name)  # a function that makes the text
        if (shown := self.shown(name)) is not None:
            return [shown]
        if name in ("type_name", "module_name"):
            return [varies(self.type_of(tokens[:begin]))]
        if name in ("str", "path", "text", "name") and not inside:
            return self.of_object(tokens[:begin]) or [varies(name)]
        if name == "str" or name == "toString":
            return joined([self.of(part) for part in inside])
        if name in PLAIN:
            if name == "string" and len(inside) > 1:
                return [varies(self.name_of(inside[0]))]
            if name == "string" and not inside and tokens[begin - 2].text not in (".", "->"):
                return [""]
            return self.of(inside[0]) if inside else self.of_object(tokens[:begin])
        if name == "to_string" or not self.depth < DEEPEST:
            return [varies(self.name_of(tokens[begin + 1 : -1]))]
        if tokens[begin].text == "{" and inside:  # what makes an object from its fields
            return self.of(inside[0])
        texts = self.of_function(name, inside)
        asked = tokens[begin + 1 : -1] if name in ("text", "type") else tokens[:begin]
        return texts or [varies(self.name_of(asked))]

    def shown(self, name):
        text = SHOWN_AS.get(f"{self.source.name}:{name}", SHOWN_AS.get(name))
        if text is None or "{" in text:
            return text and text.replace("{", BEGIN).replace("}", END)
        return varies(text)

    def around(self):
        """Yields a lambda and the function that it is in, or the function alone."""
        function = self.function
        while function:
            yield function
            function = function.outer

    @staticmethod
    def callee(tokens):
        depth = 0
        for token in reversed(tokens):
            depth += {">": 1, "<": -1}.get(token.text, 0)
            if depth == 0 and token.kind == "word":
                return token.text
        return ""

    def type_of(self, tokens):
        """Returns the argument of `type_name<...>`."""
        words = [t.text for t in tokens if t.kind == "word"]
        last = [w for w in words if w not in ("type_name", "module_name", "decltype", "decay_t",
                                              "std", "detail", "values", "impl_of_t")]
        return last[-1].lower() if last and last[-1] != "m" else "policy"

    def of_object(self, tokens):
        """Returns `path` of `path.string`."""
        return self.of(tokens[:-2]) if len(tokens) > 2 else None

    def of_function(self, name, inside):
        """Returns what a lambda of this function or a function of the library returns."""
        if (local := self.local_lambda(name)) is not None:
            return self.of_lambda(local, inside)
        arguments = [self.of(part) for part in inside]
        found = []
        for function in self.tree.functions_for(name, self.source, len(inside), self.at):
            bound = dict(zip([p[0] for p in function.parameters], arguments))
            texts = self.tree.returned(function, bound, self.depth + 1)
            found += [t for t in texts if t] if any(map(has_literal, texts)) else []
            if found and function.file.name in self.tree.reach(self.source.name):
                break  # else it is of several classes that derive from this one
        return list(dict.fromkeys(found))

    def local_lambda(self, name):
        for at in self.places(name):
            after = self.source.tokens[at + 1 : at + 3]
            if [t.text for t in after] == ["=", "["]:
                return self.source.tokens[at + 2 : self.source.end_of(at + 2, ";,")]
        return None

    def of_lambda(self, tokens, inside):
        at = closing(tokens, 0) + 1
        names = []
        if tokens[at].text == "(":
            end = closing(tokens, at)
            names = [parameter(p)[0] for p in split(tokens[at + 1 : end], ",")]
            at = end + 1
        bound = {**self.bound, **dict(zip(names, [self.of(part) for part in inside]))}
        inner = Texts(self.tree, self.source, self.function, self.at, bound, self.depth + 1)
        texts = [t for r in returns(tokens[at:]) for t in inner.of(r)]
        self.used |= inner.used
        return list(dict.fromkeys(texts))

    # Names

    def of_name(self, name):
        if f"{self.source.name}:{name}" in KEPT:
            return [varies(name)]
        if name in self.bound:
            return self.bound[name]
        if self.depth < DEEPEST and self.function:
            self.depth += 1
            texts = self.of_local(name)
            self.depth -= 1
            if texts:
                return texts
            if any(name == p[0] for f in self.around() for p in f.parameters):
                self.used.add(name)
                return [varies(name)]
        constant = self.tree.constant(name, self.source)
        if constant is not None and self.depth < DEEPEST:
            return Texts(self.tree, constant[0], None, 0, {}, self.depth + 1).of(constant[1])
        return [varies(name.strip("_"))]

    @staticmethod
    def opening_of_last(tokens):
        depth = 0
        for at in range(len(tokens) - 1, -1, -1):
            depth += (tokens[at].text in CLOSE) - (tokens[at].text in OPEN)
            if depth == 0:
                return at
        return 0

    @staticmethod
    def name_of(tokens):
        """Returns a name for what an expression computes: its last word that says something."""
        while tokens and tokens[-1].text in ("]", ")") and tokens[0].kind == "word":  # `names[i]`
            begin = Texts.opening_of_last(tokens)
            tokens = tokens[:begin]
        words = [t.text for t in tokens if t.kind == "word"]
        for word in reversed(words):
            if word in SHOWN_AS and "{" not in SHOWN_AS[word]:
                return SHOWN_AS[word]
            if word in ("names", "names_"):
                return "name"
            if word not in SAYS_NOTHING:
                return word.strip("_")
        return words[-1] if words else "number"


def returns(tokens):
    """Yields the expressions that a body returns."""
    at = 0
    while at < len(tokens):
        if tokens[at].text == "return":
            depth, end = 0, at + 1
            while not (tokens[end].text == ";" and depth == 0):
                if tokens[end].kind == "mark":
                    depth += (tokens[end].text in OPEN) - (tokens[end].text in CLOSE)
                end += 1
            yield tokens[at + 1 : end]
            at = end
        at += 1
