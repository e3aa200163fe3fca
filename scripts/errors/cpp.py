"""Reads C++ headers as tokens: their functions, what encloses a token, and the calls of a function.

Understands as much of the language as the headers of include/ use; what it cannot read it reports.
"""
import dataclasses
import functools
import re

TOKEN = re.compile(
    r"""(?P<gap>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*)
      | (?P<raw>(?:u8|[uUL])?R"(?P<end>[^(\s]*)\((?P<body>.*?)\)(?P=end)")
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<char>(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')
      | (?P<word>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[\w.']|(?<=[eEpP])[+-])*)
      | (?P<mark>::|->|<<|[-+*/<>=!&|]=|&&|\|\||\+\+|--|\.\.\.|.)
    """, re.X | re.S | re.M)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "e": "\x1b"}
OPEN, CLOSE = "([{", ")]}"
NO_FUNCTION = {"if", "for", "while", "switch", "catch", "return", "requires", "constexpr", "sizeof",
               "decltype", "noexcept", "throw", "operator", "alignas", "static_assert", "defined"}
AFTER_PARAMETERS = {"const", "noexcept", "override", "final", "mutable", "&", "&&", "->", "::", "*",
                    "<", ">", "requires", ",", "...", "auto", "(", ")"}


NAMES_TYPES = {"quoted", "name", "list_of", "names_of"}  # variables of grammar/sentence.hpp


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    line: int
    match: int = -1  # the index of the bracket that belongs to this one

    @functools.cached_property
    def value(self):
        """Returns the characters of a literal."""
        if self.kind == "raw":
            return TOKEN.match(self.text)["body"]
        return re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[1]), self.text[1:-1])


@dataclasses.dataclass
class Function:
    name: str
    file: "Source"
    parameters: list  # (name, tokens of the default value)
    body: tuple  # indices of its braces
    outer: "Function | None" = None  # if it is a lambda that has a name: the function that it is in

    def holds(self, at):
        return self.body[0] < at < self.body[1]


class Source:
    """A header."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.includes = re.findall(r"#include <ikebana/([^>]+)>", text)
        self.tokens = list(self.read())
        self.match_brackets()
        self.functions = [*self.find_functions()]
        self.functions += [*self.find_lambdas()]

    def read(self):
        for found in TOKEN.finditer(self.text):
            kind = next(k for k in ("gap", "raw", "string", "char", "word", "number", "mark")
                        if found[k] is not None)
            if kind != "gap":
                yield Token(kind, found.group(), self.text.count("\n", 0, found.start()) + 1)

    def match_brackets(self):
        opened = []
        for at, token in enumerate(self.tokens):
            if token.kind != "mark":
                continue
            if token.text in OPEN:
                opened.append(at)
            elif token.text in CLOSE:
                token.match = opened.pop()
                self.tokens[token.match].match = at

    def find_functions(self):
        for at in range(len(self.tokens) - 1):
            name, bracket = self.tokens[at], self.tokens[at + 1]
            is_index = name.text == "]" and self.tokens[at - 2].text == "operator"
            if not is_index and (name.kind != "word" or name.text in NO_FUNCTION):
                continue
            if bracket.text != "(":
                continue
            before = self.tokens[at - 1] if at else name
            if before.text in {".", "->", "new", "return", "throw", "=", ",", "(", "+", "!", "?"}:
                continue
            brace = self.body_after(bracket.match + 1)
            if brace is not None:
                inside = self.tokens[at + 2 : bracket.match]
                yield Function(name.text, self, [parameter(p) for p in split(inside, ",")],
                               (brace, self.tokens[brace].match))

    def find_lambdas(self):
        """Finds lambdas in functions that have a name: `auto name = [...](...) {`."""
        for at in range(len(self.tokens) - 3):
            name, equals, bracket = self.tokens[at : at + 3]
            if name.kind == "word" and equals.text == "=" and bracket.text == "[":
                outer, after = self.enclosing(at), bracket.match + 1
                parameters = self.tokens[after]
                brace = self.body_after(parameters.match + 1 if parameters.text == "(" else after)
                if outer and brace is not None:
                    inside = self.tokens[after + 1 : max(parameters.match, after + 1)]
                    yield Function(name.text, self, [parameter(p) for p in split(inside, ",")],
                                   (brace, self.tokens[brace].match), outer)

    def body_after(self, at):
        """Returns the brace that opens the body of a function whose parameters end before `at`."""
        colon = False
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.text == "{":
                before = self.tokens[at - 1]
                is_member = colon and (before.kind == "word" or before.text == ">")
                if not is_member:
                    return at
                at = token.match
            elif token.text == "(":
                at = token.match
            elif token.text == ":":
                colon = True
            elif not colon and token.kind != "word" and token.text not in AFTER_PARAMETERS:
                return None
            elif colon and token.text == ";":
                return None
            at += 1
        return None

    def enclosing(self, at):
        """The lambda with a name, or else the outermost function, whose body holds the token."""
        around = [f for f in self.functions if f.holds(at)]
        return min(around, key=lambda f: (f.outer is None, f.body[0])) if around else None

    def end_of(self, at, marks=";,:"):
        """Returns the index of the mark that ends the expression which begins at `at`."""
        while True:
            token = self.tokens[at]
            if token.kind == "mark" and token.text in OPEN:
                at = token.match + 1
            elif token.kind == "mark" and (token.text in marks or token.text in CLOSE):
                return at
            else:
                at = (template_end(self.tokens, at) or at) + 1


def template_end(tokens, at):
    """Returns the index of the `>` that closes the template arguments that open after the word
    `at`."""
    if tokens[at].kind != "word" or at + 1 >= len(tokens) or tokens[at + 1].text != "<":
        return None
    depth = 0
    for end in range(at + 1, min(at + 60, len(tokens))):
        text, kind = tokens[end].text, tokens[end].kind
        depth += {"<": 1, ">": -1}.get(text, 0)
        if depth == 0:
            after = tokens[end + 1].text if end + 1 < len(tokens) else ""
            return end if after in ("(", "{", "::") or tokens[at].text in NAMES_TYPES else None
        if kind in ("string", "char") or text in (";", "?", "+", "&&", "||", "{"):
            return None
    return None


def split(tokens, mark):
    """Returns the parts between the marks that no bracket encloses. An empty list has no parts."""
    parts, depth, skip = [[]], 0, -1
    for at, token in enumerate(tokens):
        if at > skip and depth == 0:
            skip = template_end(tokens, at) or -1
        if token.kind == "mark":
            depth += (token.text in OPEN) - (token.text in CLOSE)
        if depth == 0 and token.kind == "mark" and token.text == mark and at > skip:
            parts.append([])
        else:
            parts[-1].append(token)
    return [] if parts == [[]] else parts


def depth_split(tokens, mark):
    """Returns the first mark outside of brackets and its index, or None."""
    depth = skip = 0
    for at, token in enumerate(tokens):
        if at < skip:
            continue
        skip = (template_end(tokens, at) or 0) + 1
        if token.kind == "mark":
            depth += (token.text in OPEN) - (token.text in CLOSE)
            if depth == 0 and token.text == mark:
                return at
    return None


def closing(tokens, at):
    """Returns the index of the bracket that closes the one at `at`."""
    depth = 0
    for end in range(at, len(tokens)):
        if tokens[end].kind == "mark":
            depth += (tokens[end].text in OPEN) - (tokens[end].text in CLOSE)
            if depth == 0:
                return end
    raise ValueError("a bracket is not closed")


def parameter(tokens):
    """The name and the default value of a parameter."""
    halves = split(tokens, "=")
    words = [t.text for t in halves[0] if t.kind == "word"] if halves else []
    return (words[-1] if words else ""), (halves[1] if len(halves) > 1 else None)
