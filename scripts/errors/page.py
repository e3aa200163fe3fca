"""Writes docs/errors.md."""
import itertools
import re

import lists
from anchors import slug
from cures import CURES
from names import BEGIN, END
from sites import PARTS
from split import divided

# Groups of the page: heading, the kinds in it, and a sentence on them.
GROUPS = (
    ("Compile time", ("compile",),
     "The compiler prints one of these as its first error, with the types at fault: what was "
     "written, which rule that breaks, and what to write instead."),
    ("BadValue", ("BadValue",),
     "A value of a policy, of options or of the environment that is out of range, or does not fit "
     "others. Most are thrown when the trainer is made. Nothing was changed."),
    ("BadBatch", ("BadBatch",),
     "A batch that cannot be trained on or evaluated. Nothing was updated; the next batch may be "
     "good."),
    ("BadModel", ("BadModel",),
     "A model, or a loss, that cannot be trained as it is. Correct the program."),
    ("RanksDiffer", ("RanksDiffer",),
     "The ranks do different things. Caught as `BadModel`, from which it derives, on all ranks."),
    ("BadSample", ("BadSample",),
     "A sample that a dataset could not read. The dataset's own exception is nested in it "
     "(`std::rethrow_if_nested`)."),
    ("NonFinite", ("NonFinite",),
     "A loss or a norm that is infinite or NaN, or too many skipped steps in a row."),
    ("BadRecompute", ("BadRecompute",),
     "A recompute of `Checkpoint` that differs from its forward, or a saved tensor that was "
     "changed in place."),
    ("InPlaceError", ("InPlaceError",), "What `InPlaceChecker` finds."),
    ("BadState", ("BadState",),
     "A saved state, or weights, that do not fit the trainer. Nothing was changed."),
    ("BadFile", ("BadFile",), "A file that is damaged, incomplete or of another format."),
    ("FileFailed", ("FileFailed",), "The system could not read or write a file."),
    ("OutOfMemory", ("OutOfMemory",),
     "Memory ended, of the device or of a limit that the program has set. The text ends with what "
     "a step takes, and with the policies that would save most ([memory.md](memory.md))."),
    ("RankFailed", ("RankFailed",),
     "Another rank threw, or takes no part any more; the text has its rank and its error."),
    ("StepFailed", ("StepFailed", "OtherSeeds"),
     "LibTorch or the model threw during a step; the text contains theirs, where it was, and what "
     "to do."),
    ("Tensors without values", ("values",),
     "LibTorch throws a `c10::Error` with this text where an operator reads a tensor that has no "
     "memory; in a step it is a part of a `StepFailed`."),
    ("Error", ("Error",),
     "The base of all others, thrown itself where a call makes no sense, or the process lacks what "
     "it needs."),
    ("Of the standard library", ("system_error", "bad_alloc"),
     "Thrown where the system has no resources left: `std::system_error` with this text, and "
     "`std::bad_alloc`."),
    ("Printed by launch", ("launch",),
     "Lines on stderr of a program that `launch` started on several ranks, which then ends."),
    ("Warnings", ("warning",),
     "Printed to stderr by LibTorch's `TORCH_WARN`. Training goes on."),
    ("CMake and the scripts of the tree", ("build",),
     "Printed by CMake, `make demo`, `make test` and the scripts behind them."),
    ("Converters of weights", ("script",),
     "Printed by the scripts that convert weights from Python to safetensors, which then write "
     "nothing."),
)


def plain(text):
    """Returns a text with the names of what varies in angle brackets."""
    return re.sub(r"\s+", " ", text.replace(BEGIN, "<").replace(END, ">")).strip()


def code(text):
    """Returns a code span of any text."""
    fence = "``" if "`" in text else "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""


def table(title, column, rows):
    lines = "".join(f"| {left} | {right} |\n" for left, right in rows)
    return f"\n### {title}\n\n| {column} | what to do |\n|---|---|\n{lines}"


def bullets(title, items):
    items = dict.fromkeys(plain(item).rstrip("; ") for item in items)
    return f"\n### {title}\n\n" + "".join(f"- {code(item)}\n" for item in items)


class Page:
    def __init__(self, tree, messages, intro):
        self.tree, self.intro = tree, intro
        self.used, self.wrong = set(), []
        self.messages = self.unique(messages)

    @staticmethod
    def unique(messages):
        """Returns one of each kind and text, in the order of headers and lines."""
        found = {}
        for m in sorted(messages, key=lambda m: (m.header, m.line)):
            found.setdefault((m.kind, plain(m.text)), m)
        return list(found.values())

    def cure_of(self, text):
        for part, sentence in CURES.items():
            if part in text:
                self.used.add(part)
                return sentence
        return None

    def entry(self, message):
        """A message with its cure in bold."""
        wrong, cure = map(plain, divided(message.text))
        if message.kind == "bad_alloc":
            wrong = "std::bad_alloc"
        sentence = self.cure_of(plain(message.text) or wrong)
        if not cure and sentence is None:
            self.wrong.append(f"{message.header}:{message.line}: nothing says what to do about "
                              f"`{plain(message.text)}`: end the text with it, or add a sentence "
                              "to scripts/errors/cures.py")
        line = f"{code(wrong)} **{code(cure)}**" if cure else code(wrong)
        name = f"`refuse::{message.name}`: {code(plain(message.written))}. " if message.name else ""
        says = bool(cure) and cure != "<what to do>"
        return f"- {name}{line}" + (f" **To do:** {sentence}" if sentence and not says else "")

    def group(self, heading, kinds, sentence):
        found = [m for m in self.messages if m.kind in kinds]
        yield f"\n## {heading}\n\n{sentence}\n"
        for header, those in itertools.groupby(found, key=lambda m: m.header):
            yield f"\n### {heading}: {header}\n\n"
            for message in those:
                yield self.entry(message) + "\n"
        yield from self.lists(heading)

    def lists(self, heading):
        """What the texts of a group may contain."""
        if heading == "StepFailed":
            yield table("What to do, by a phrase of LibTorch's text", "phrase",
                        [*((code(p), text) for p, text in lists.hints(self.tree)),
                         ("any other", lists.other_hint(self.tree))])
        elif heading == "FileFailed":
            yield table("What to do, by the system's reason", "errno", lists.of_errno(self.tree))
        elif heading == "BadModel":
            yield bullets("Why a program of torch.export cannot be run",
                          [m.text for m in self.messages if m.kind == "Refusal"])
        elif heading == "BadFile":
            yield bullets("What may be damaged, in the header of a file",
                          [m.text for m in self.messages if m.kind == "ParseError"])
            yield bullets("Why a regular expression of tokenizer.json cannot be used",
                          [m.text for m in self.messages if m.kind == "Refused"])
        for title, items in lists.of_group(self.tree, heading):
            yield bullets(title, items)

    def by_header(self):
        """Yields a line for each header, to which pages on that header link."""
        yield ("\n## By header\n\nThe errors that each header makes, and how many.\n\n"
               "| header | errors |\n|---|---|\n")
        headers = sorted({m.header for m in self.messages if m.kind not in PARTS})
        for header in headers:
            links = []
            for heading, kinds, _ in GROUPS:
                count = sum(m.header == header and m.kind in kinds for m in self.messages)
                if count:
                    links.append(f"[{heading}](#{slug(f'{heading}: {header}')}) {count}")
            yield f'| <a id="{header}"></a>`{header}` | {", ".join(links)} |\n'

    def text(self):
        parts = [self.intro]
        for group in GROUPS:
            parts += self.group(*group)
        parts += self.by_header()
        kinds = {k for _, kinds, _ in GROUPS for k in kinds} | PARTS
        self.wrong += [f"scripts/errors/page.py has no group for {k}"
                       for k in sorted({m.kind for m in self.messages} - kinds)]
        self.wrong += [f"no error has this text of scripts/errors/cures.py: {part}"
                       for part in CURES if part not in self.used]
        return "".join(parts)
