#!/usr/bin/env python3
"""Encodes the same texts with ikebana and with Python's tokenizers, each on one thread, in turns.

    tokenizer.py PROGRAM [--megabytes N] [--rounds N] [--vocabulary N]

PROGRAM is tokenizer.cpp. The texts are those of test/tokenizer/oracle.py: manual pages in six
languages and this repository's code. Python's contestant is `encode_batch_fast`, which makes no
offsets, with the texts of one call on one thread. The ids are compared. Prints MB/s, the median
ratio of the rounds, and its range; the bar is 0.3.
"""

import argparse
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test" / "tokenizer"))
import oracle  # noqa: E402
from tokenizers import Tokenizer, pre_tokenizers  # noqa: E402


def contestants(texts, size):
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    yield oracle.byte_level("gpt2", gpt2, texts, size)
    yield oracle.byte_level("cl100k", oracle.bytes_after(oracle.split(oracle.CL100K)), texts, size)
    yield oracle.byte_level("qwen2, NFC", oracle.bytes_after(oracle.split(oracle.QWEN2)), texts,
                            size, oracle.normalizers.NFC())
    yield oracle.byte_level("smollm2, digits", pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(True), gpt2]), texts, size)
    yield "llama 2", oracle.llama2(texts, size, "always")
    yield "bert", oracle.bert(texts, size)
    yield "unigram", oracle.unigram(texts[::4], min(size, 4000), False)


def measure(name, tokenizer, texts, arguments, folder):
    file, given, ids = folder / "tokenizer.json", folder / "texts", folder / "ids"
    tokenizer.save(str(file))
    given.write_bytes(b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts))
    megabytes = sum(len(t.encode()) for t in texts) / 1e6
    ratios, mine, theirs, again = [], [], [], []
    for _ in range(arguments.rounds):
        done = subprocess.run([arguments.program, file, given, ids], capture_output=True, text=True,
                              check=True)
        load, first, second, decode = map(float, done.stdout.split()[:4])
        fresh = Tokenizer.from_file(str(file))  # with an empty cache
        begin = time.perf_counter()
        encodings = fresh.encode_batch_fast(texts)
        seconds = time.perf_counter() - begin
        expected = b"".join(struct.pack(f"<{len(e.ids)}i", *e.ids) for e in encodings)
        if expected != ids.read_bytes():
            sys.exit(f"{name}: the ids differ")
        mine.append(megabytes / first)
        again.append(megabytes / second)
        theirs.append(megabytes / seconds)
        ratios.append(seconds / first)
    print(f"{name:16} {statistics.median(mine):8.1f} {statistics.median(again):8.1f} "
          f"{statistics.median(theirs):12.1f} {statistics.median(ratios):8.2f} "
          f"({min(ratios):.2f} to {max(ratios):.2f})  decode {megabytes / decode:6.1f}  "
          f"load {load * 1e3:5.1f} ms", flush=True)
    return statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--megabytes", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vocabulary", type=int, default=16000)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    arguments.program, arguments.text = arguments.program.resolve(), None
    texts = oracle.corpus(arguments)
    print(f"{len(texts)} texts, {sum(len(t.encode()) for t in texts) / 1e6:.1f} MB; MB/s\n"
          f"{'':16} {'ikebana':>8} {'again':>8} {'tokenizers':>12} {'ratio':>8}")
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        for kind, tokenizer in contestants(texts[::4], arguments.vocabulary):
            if arguments.only in kind:
                ratios.append(measure(kind, tokenizer, texts, arguments, pathlib.Path(name)))
    sys.exit(min(ratios) < 0.3)


if __name__ == "__main__":
    main()
