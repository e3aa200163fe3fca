#!/usr/bin/env python3
"""Turns a text into tokens to train a model on: windows, as examples/finetune.cpp reads them.

    tokens.py MODEL.gguf TEXT OUT.safetensors [--steps N] [--rows N] [--length N]

TEXT is a file or a folder of UTF-8, of which all files are read that are not hidden. MODEL.gguf
holds the tokens and merges. OUT has

    train     (steps, rows, length + 1)  windows at random places of the first nine tenths
    held_out  (up to 16, length + 1)     windows one after another, from the last tenth
    prompt    (1, up to 16)              the first tokens of the last tenth
    bytes, ends                          the bytes of all tokens, and the end of each

A window has one token more than the model reads: its targets are its inputs, shifted by one. The
same text gives the same file. Needs a Python with numpy, safetensors, gguf and tokenizers.
"""

import argparse
import pathlib
import sys

HELD_OUT_WINDOWS, PROMPT = 16, 16
MOST_BYTES = 64 << 20


class Refused(Exception):
    """What is wrong, and what to do."""


def files_of(path):
    if not path.exists():
        raise Refused(f"there is no {path}: give a file or a folder of text")
    if path.is_file():
        return [path]
    files = sorted(f for f in path.rglob("*") if f.is_file())
    return [f for f in files if not any(p.startswith(".") for p in f.relative_to(path).parts)]


def read_text(path):
    parts, size = [], 0
    for file in files_of(path):
        try:
            parts.append(file.read_bytes().decode())
        except UnicodeDecodeError as error:
            raise Refused(f"{file} is not UTF-8: its byte {error.start} is "
                          f"0x{error.object[error.start]:02x}. Convert it, or give text") from error
        except OSError as error:
            raise Refused(f"{file} cannot be read: {error.strerror}") from error
        size += len(parts[-1].encode())
        if size > MOST_BYTES:
            raise Refused(f"{path} has more than {MOST_BYTES >> 20} MiB of text: give a part of it")
    return "".join(parts)


def in_two(text):
    """What is trained on, and the last tenth, from a line that is not empty on if there is one."""
    at = len(text) * 9 // 10
    at = text.find("\n", at) + 1 or at
    at = len(text) - len(text[at:].lstrip("\n"))
    return text[:at], text[at:]


def bytes_by_character():
    """Returns the bytes of GPT-2's characters. It writes a byte as a character: bytes that print
    in Latin-1 as they are, and the others as characters from 256 on."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in own]
    return {chr(b): b for b in own} | {chr(256 + i): b for i, b in enumerate(others)}


class Vocabulary:
    """Returns the bytes of each token of a GGUF file, and the tokenizer that tokens and merges
    make."""

    def __init__(self, path):
        import gguf
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers

        reader = gguf.GGUFReader(path)
        kind = [self.field(reader, name) for name in ("model", "pre")]
        if kind != ["gpt2", "smollm"]:
            raise Refused(f"{path} has the tokenizer {kind}, and only that of SmolLM is known here")
        names, table = self.field(reader, "tokens"), bytes_by_character()
        self.spelled = [bytes(table[c] for c in name) for name in names]
        merges = [tuple(merge.split(" ")) for merge in self.field(reader, "merges")]
        self.tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(names)}, merges))
        self.tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ])
        self.tokenizer.decoder = decoders.ByteLevel()

    @staticmethod
    def field(reader, name):
        found = reader.get_field(f"tokenizer.ggml.{name}")
        if found is None:
            raise Refused(f"its metadata has no tokenizer.ggml.{name}")
        return found.contents()

    def encode(self, text):
        """The tokens of a text. A character that no token has would be left out silently."""
        tokens = self.tokenizer.encode(text).ids
        back = self.tokenizer.decode(tokens, skip_special_tokens=False)
        if back != text or b"".join(self.spelled[t] for t in tokens) != text.encode():
            at = next((i for i, (a, b) in enumerate(zip(text, back)) if a != b), len(back))
            raise Refused(f"the tokens of the text are not the text from character {at} on, "
                          f"{text[at:at + 10]!r}: the model has no token for it. Remove it")
        return tokens


def windows(tokens, count, length, name):
    """Cuts `count` windows at random places from `tokens`, or, if `count` is None, all, one
    after another."""
    import numpy

    if len(tokens) <= length:
        raise Refused(f"the text is too short: {name} has {len(tokens)} tokens, and one window "
                      f"{length + 1}. Give a longer text, or a smaller --length")
    first = numpy.arange(0, len(tokens) - length, length)
    if count is not None:
        first = numpy.random.default_rng(0).integers(0, len(tokens) - length, count)
    return numpy.asarray(tokens, numpy.int64)[first[:, None] + numpy.arange(length + 1)]


def tensors_of(text, vocabulary, steps, rows, length):
    import numpy

    train, held_out = (vocabulary.encode(part) for part in in_two(text))
    first = windows(train, steps * rows, length, "what is trained on")
    return {
        "train": first.reshape(steps, rows, length + 1),
        "held_out": windows(held_out, None, length, "its last tenth")[:HELD_OUT_WINDOWS].copy(),
        "prompt": numpy.asarray([held_out[:PROMPT]], numpy.int64),
        "bytes": numpy.frombuffer(b"".join(vocabulary.spelled), numpy.uint8),
        "ends": numpy.cumsum([len(s) for s in vocabulary.spelled], dtype=numpy.int64),
    }, len(train) + len(held_out)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    for name, default in (("steps", 24), ("rows", 4), ("length", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    if min(arguments.steps, arguments.rows, arguments.length) < 1:
        parser.error("--steps, --rows and --length must be 1 or more")
    try:
        text = read_text(arguments.text)
        from safetensors.numpy import save_file

        tensors, count = tensors_of(text, Vocabulary(arguments.model), arguments.steps,
                                    arguments.rows, arguments.length)
        save_file(tensors, arguments.out)
    except Refused as why:
        sys.exit(f"tokens: {why}.")
    print(f"{arguments.text.name}: {len(text)} characters, {count} tokens; the last tenth is held "
          "out")


if __name__ == "__main__":
    main()
