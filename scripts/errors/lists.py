"""Lists texts that stand within others: advice that depends on an error's text, and items of
lists."""
import re

from names import has_literal, varies
from texts import Texts


def hints(tree):
    """(phrase of LibTorch's text, what to do) for `suggestion` of core/rethrow.hpp."""
    source = tree.sources["core/rethrow.hpp"]
    tokens = source.tokens
    begin = next(i for i, t in enumerate(tokens) if t.text == "hints" and tokens[i + 1].text == "[")
    brace = next(i for i in range(begin, len(tokens)) if tokens[i].text == "{")
    at = brace + 1
    texts = Texts(tree, source, source.enclosing(begin), begin)
    while tokens[at].text == "{":
        phrase, comma = tokens[at + 1].value, at + 2
        yield phrase, texts.of(tokens[comma + 1 : tokens[at].match])[0]
        at = tokens[at].match + 2


def other_hint(tree):
    """What to do where no phrase is in the text."""
    return returned(tree, "core/rethrow.hpp", "suggestion")[-1]


def of_errno(tree):
    """(codes, what to do) for `suggestion_for` of posix/posix_files.hpp."""
    body = tree.sources["posix/posix_files.hpp"].text.split("suggestion_for(int code) {")[1]
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
    """Returns the texts that the functions of a header with this name return."""
    source = tree.sources[header]
    texts = [t for f in source.functions if f.name == name for t in tree.returned(f, {}, 0)]
    return [t for t in texts if has_literal(t) and " " in t]


def given(tree, header, name, parameter):
    """The texts that the calls of a function of a header give to a parameter."""
    function = next(f for f in tree.sources[header].functions if f.name == name)
    return [t for bound in tree.bounds(function, {parameter}) for t in bound.texts[parameter]]


def of_recordings(tree):
    """Yields (title, texts) of what the list of `Capture` may contain."""
    yield "Why a step or a unit cannot be recorded", [
        *given(tree, "capture/recorder.hpp", "add_problem", "sentence"),
        *(text.lstrip() for text in given(tree, "capture/whole_step.hpp", "refuse", "problems")
          if has_literal(text)),
        *(text.lstrip() for text in given(tree, "capture/unit_tape.hpp", "refuse", "problems")
          if has_literal(text)),
        *returned(tree, "capture/unit_recording.hpp", "difference")]
    yield "How an operator may differ between two recordings", [
        text.replace(varies("of"), "its " + varies("argument or result"))
        for text in returned(tree, "capture/recording.hpp", "difference")
        if not text.startswith("its ")]


def of_programs(tree):
    """Yields (title, texts) of why a program of torch.export is refused."""
    yield "Why a graph of torch.export cannot be run, besides its nodes", given(
        tree, "program/graph_compiler.hpp", "refuse", "text")
    yield "Why a module of a program is no unit", [
        text for name in ("attributes_problem", "writes_problem", "sort", "order_problem")
        for text in returned(tree, "program/cut_units.hpp", name)]


def of_tokenizers(tree):
    """Yields (title, texts) of what the list of `BadFile` may contain for a tokenizer.json."""
    yield "Why a tokenizer.json cannot be obeyed", [
        *given(tree, "tokenizer/fields.hpp", "refuse", "why"),
        *pushed(tree, "refusals_"), *pushed(tree, "refusals")]


def of_group(tree, heading):
    """Yields (title, texts) of what the texts of a group of the page may contain."""
    if heading == "BadState":
        yield "What the list after `restore:` may contain", [
            *returned(tree, "state/archive.hpp", "take_other_policies"),
            *pushed(tree, "problems_")]
        yield "What the list of `load_weights` may contain", given(
            tree, "state/weights.hpp", "add_problem", "what")
    elif heading == "BadFile":
        yield from of_tokenizers(tree)
    elif heading == "BadModel":
        yield from of_recordings(tree)
        yield from of_programs(tree)
    elif heading == "NonFinite":
        yield "What follows \"the norm of the gradients is not finite\"", returned(
            tree, "clip/total_norm.hpp", "culprit")
    elif heading == "InPlaceError":
        yield "What is said of each tensor", returned(tree, "memory/in_place.hpp", "text_of")
    elif heading == "StepFailed":
        yield "What the text of any error in a step may end with", [
            *returned(tree, "core/rethrow.hpp", "updated_before"),
            *returned(tree, "core/restore_point.hpp", "take_lost")]
    elif heading == "Printed by launch":
        yield "How a rank may have ended", returned(
            tree, "shard/launch/rank_processes.hpp", "described")
    elif heading == "RanksDiffer":
        yield "Where ranks wait for each other in different trainers", returned(
            tree, "shard/failure/rank_waits.hpp", "text")
    elif heading == "RankFailed":
        yield "What the ranks may report", [
            *returned(tree, "shard/failure/failure_log.hpp", "reason"),
            *returned(tree, "shard/failure/failure_log.hpp", "asked"),
            *returned(tree, "shard/failure/failure_log.hpp", "await_ranks"),
            *returned(tree, "shard/failure/failure_log.hpp", "compare_posts")]
        yield "What was due, after \"ranks: at\"", returned(
            tree, "shard/group/messages.hpp", "text")
        yield "The calls, after \"ranks: at\" and \"this rank is at\"", sorted(set(given(
            tree, "ranks/rank_group.hpp", "exchange_in", "call")))
