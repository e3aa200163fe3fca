"""Texts that stand within others: advice that depends on an error's text, and items of lists."""
import re

from names import has_literal
from texts import Texts


def hints(tree):
    """(phrase of LibTorch's text, what to do) for `suggestion` of core/guard.hpp."""
    source = tree.sources["core/guard.hpp"]
    tokens = source.tokens
    begin = next(i for i, t in enumerate(tokens) if t.text == "hints" and tokens[i + 1].text == "[")
    brace = next(i for i in range(begin, len(tokens)) if tokens[i].text == "{")
    at = brace + 1
    texts = Texts(tree, source, source.enclosing(begin), begin)
    while tokens[at].text == "{":
        phrase, comma = tokens[at + 1].value, at + 2
        yield phrase, texts.of(tokens[comma + 1 : tokens[at].match])[0]
        at = tokens[at].match + 2


def of_errno(tree):
    """(codes, what to do) for `suggestion_for` of posix/posix_files.hpp."""
    body = tree.sources["posix/posix_files.hpp"].text.split("suggestion_for(int code)")[1]
    body = body[: body.index("\n}")]
    for found in re.finditer(r'((?:case \w+:\s*|default:\s*)+)return "([^"]*)";', body):
        codes = re.findall(r"case (\w+)", found[1])
        yield ", ".join(f"`{code}`" for code in codes) or "any other", found[2]


def pushed(tree, name):
    """The items of a list of that name: what `name.push_back` is given."""
    found = []
    for source in tree.sources.values():
        tokens = source.tokens
        for at in range(len(tokens) - 3):
            if [t.text for t in tokens[at : at + 4]] == [name, ".", "push_back", "("]:
                inside = tokens[at + 4 : tokens[at + 3].match]
                for _, texts in tree.messages(source, at, inside):
                    found += [t for t in texts if has_literal(t)]
    return list(dict.fromkeys(found))


def returned(tree, header, name):
    """The texts that a function of a header returns."""
    source = tree.sources[header]
    function = next(f for f in source.functions if f.name == name)
    texts = tree.returned(function, {}, 0)
    return [t for t in texts if has_literal(t)]
