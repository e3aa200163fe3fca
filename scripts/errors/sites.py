"""Finds the places at which headers make errors, and the texts of these."""
import dataclasses
import re

from cpp import split
from names import has_literal, joined
from texts import Texts
from tree import Bound

# Lists what is thrown and is no error of a user's: (header, what is thrown) and why.
INTERNAL = {
    ("checkpoint/frame/draws.hpp", "Again"): "ends a recompute, which is then made again",
    ("bridge/cast_cache.hpp", "NotCached"): "ends a cast that is only asked for",
    ("checkpoint/frame/draws.hpp", "AllSaved"): "ends a recompute when all tensors are there",
    ("core/transaction.hpp", "AllRanksEnded"): "ends the loop over steps on all ranks alike",
    ("core/transaction.hpp", "DryStepEnded"): "ends the step that an estimate makes",
    ("core/rethrow.hpp", "Classes"): "throws an error again, with what was not put back behind it",
    ("ranks/all_or_none.hpp", "AgreedError"): "carries an error that was thrown elsewhere",
    ("state/ranks/save_on_ranks.hpp", "AgreedError"): "carries an error that was thrown elsewhere",
    ("fit/fit_on_ranks.hpp", "AgreedError"): "carries the RanksDiffer that it is made of",
    ("accumulate/fit_attempts.hpp", "RankFailed"): "the text of `Own`, on the other ranks",
    ("observe/first_non_finite.hpp", "NonFinite"):
        "an error again, with the operator that made the value behind it",
    ("core/rethrow.hpp", "BadModel"): "a RanksDiffer again, with the step behind it",
    ("ranks/together.hpp", "RankFailed"):
        "an error again, with the call and the step behind it",
    ("shard/maker/maker_model.hpp", "BadModel"):
        "the text of shard/maker/record_maker.hpp, from an operator",
    ("shard/launch/meeting.hpp", "RankFailed(refusal)"): "an error of rank 0, on the other ranks",
    ("shard/group/transfer.hpp", "std::runtime_error"): "ends the messages of a step that failed",
    ("shard/group/backends.hpp", "std::runtime_error"):
        "is caught there: the text of a RankFailed",
    ("data/batch_fetcher.hpp", "Error"): "ends the reading of a loader that is destroyed",
    ("shard/group/connection.hpp", "Error"):
        "a defect of the library, which no call of a user's makes",
    ("state/files/json_writer.hpp", "Error"): "a defect of the library, as above",
    ("state/files/zip_writer.hpp", "Error"): "a defect of the library, as above",
    ("checkpoint/frame/frame.hpp",
     'BadRecompute("checkpoint: a gradient reached the node that only keeps inputs.")'):
        "a defect of the library, as above",
    ("program/module.hpp", "Error"): "a defect of the library, as above",
    ("shard/group/connection.hpp", "RanksDiffer"): "the text of shard/failure/rank_waits.hpp",
    ("shard/failure/rank_waits.hpp", "RanksDiffer"):
        "its own text, in the list below the group's errors",
    ("shard/failure/failure_log.hpp", "RankFailed(ended)"):
        "the text of shard/failure/process_watch.hpp",
    ("shard/failure/failure_log.hpp", "RankFailed(*text)"): "the text of its await_ranks",
    ("shard/failure/failure_log.hpp", "RankFailed(text->substr(1))"): "the error of another rank",
    ("state/files/safetensors_format.hpp", "Json::ParseError"):
        "a text again, with the field before it",
}
# The texts of these exceptions are parts of other exceptions' texts.
PARTS = {"ParseError", "Refusal", "Refused"}
# Errors that consist of other texts alone.
WITHOUT_TEXT = {("core/rethrow.hpp", "StepFailed"), ("core/rethrow.hpp", "FileFailed"),
                ("posix/machine_memory.hpp", "bad_alloc"),
                ("capture/recorder.hpp", "bad_alloc"), ("tokenizer/regex.hpp", "bad_alloc"),
                ("core/untrained_leaves.hpp", "bad_alloc")}
# Functions besides constructors that are given a text: what it is then. Of warnings all arguments
# are parts of it, of the others the one at this index.
GIVEN = {"TORCH_WARN": ("warning", None), "TORCH_WARN_ONCE": ("warning", None),
         "set_error": ("values", 1), "write_to_stderr": ("launch", 0),
         "release_data_and_set_meta_custom_data_ptr_error_msg_": ("values", 0)}
KINDS = {kind for kind, _ in GIVEN.values()} | {"system_error", "bad_alloc"}


@dataclasses.dataclass(frozen=True)
class Message:
    kind: str  # the type that is thrown, or "compile", "warning", "build", ...
    header: str
    line: int
    text: str
    name: str = ""  # the name of a refusal
    written: str = ""  # what was written, as the refusal's condition says it


class Sites:
    def __init__(self, tree):
        self.tree = tree
        self.types = self.error_types()
        self.rethrown, self.internal, self.messages, self.unread = 0, [], [], []
        self.throws = 0
        for source in tree.sources.values():
            for at, token in enumerate(source.tokens):
                if token.kind == "word":
                    self.at_word(source, at)

    def error_types(self):
        found, before = {"Error"}, 0
        while len(found) > before:
            before = len(found)
            for source in self.tree.sources.values():
                found |= {m[1] for m in re.finditer(r"struct (\w+) : (\w+) \{", source.text)
                          if m[2] in found}
        return found

    def at_word(self, source, at):
        word, after = source.tokens[at].text, source.tokens[at + 1].text
        before = source.tokens[at - 1].text if at else ""
        if word == "throw":
            self.throws += 1
            self.at_throw(source, at)
        elif word in GIVEN and after == "(" and source.enclosing(at):
            kind, which = GIVEN[word]
            inside = self.inside(source, at + 1)
            self.add(kind, source, at, inside if which is None else split(inside, ",")[which])
        elif word == "static_assert":
            self.at_assert(source, at)
        elif word in self.types and after == "(" and before == "(":
            if source.tokens[at - 2].text == "throw_with_nested":
                self.add(word, source, at, self.inside(source, at + 1))

    @staticmethod
    def inside(source, bracket):
        return source.tokens[bracket + 1 : source.tokens[bracket].match]

    def at_throw(self, source, at):
        end = source.end_of(at + 1)
        expression = source.tokens[at + 1 : end]
        if not expression:
            self.rethrown += 1
            return
        bracket = next((i for i, t in enumerate(expression) if t.text in "({"), None)
        if bracket is None:
            self.unread.append(f"{source.name}:{source.tokens[at].line}: cannot read this throw")
            return
        name = "".join(t.text for t in expression[:bracket])
        whole = f"{name}({''.join(t.text for t in expression[bracket + 1 : -1])})"
        for key in ((source.name, name), (source.name, whole)):
            if key in INTERNAL:
                self.internal.append(key)
                return
        inside = split(expression[bracket + 1 : -1], ",")
        if not inside:
            self.add_text(name.split("::")[-1], source, at, "")
            return
        self.add(name.split("::")[-1], source, at, inside[-1 if "system" in name else 0])

    def add(self, kind, source, at, expression):
        parts = split(expression, ",")
        try:
            found = self.tree.messages(source, at, expression) if len(parts) < 2 else self.of_list(
                source, at, parts)
        except (IndexError, ValueError) as error:
            self.unread.append(f"{source.name}:{source.tokens[at].line}: cannot read this text: "
                               f"{error}")
            return
        for bound, texts in found:
            thrown = kind if kind in self.types | PARTS | KINDS else next(
                (t for t in bound.types if t in self.types), None)
            if thrown is None:
                self.unread.append(f"{source.name}:{source.tokens[at].line}: {kind} is no error "
                                   "of error.hpp, and not listed in sites.py")
                return
            for text in [t for t in texts if has_literal(t)] or texts:
                self.add_text(thrown, bound.source, bound.at, text)

    def of_list(self, source, at, parts):
        """The texts of what is written as a list of arguments, as of TORCH_WARN."""
        texts = Texts(self.tree, source, source.enclosing(at), at)
        return [(Bound(source, at, {}), joined([texts.of(p) for p in parts]))]

    def add_text(self, kind, source, at, text):
        if not has_literal(text) and kind in ("values", "launch"):
            return  # a function that passes it on
        if not has_literal(text) and (source.name, kind) not in WITHOUT_TEXT:
            self.unread.append(f"{source.name}:{source.tokens[at].line}: {kind} has no text of its "
                               f"own, but `{text}`")
            return
        self.messages.append(Message(kind, source.name, source.tokens[at].line, text))

    def at_assert(self, source, at):
        """`static_assert(possible<sentence>, "...")`, or another condition."""
        inside = split(self.inside(source, at + 1), ",")
        text = "".join(t.value for t in inside[-1] if t.kind == "string")
        if not re.match(r"ikebana|\w+: ", text):
            return
        written, name = "", ""
        if inside[0][0].text == "possible":
            texts = Texts(self.tree, source, None, at)
            (written,) = texts.of(inside[0][2:-1])
            name = next(source.tokens[i + 1].text for i in range(at, 0, -1)
                        if source.tokens[i].text == "struct")
        self.messages.append(Message("compile", source.name, source.tokens[at].line,
                                     text, name, written))
