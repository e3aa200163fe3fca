#!/usr/bin/env python3
"""Compares ids, offsets and texts with those of Python's tokenizers.

    oracle.py PROGRAM [--text FOLDER] [--megabytes N] [--only NAME]

PROGRAM is oracle_program.cpp. Tokenizers of each kind are trained here: on the manual pages in six
languages that Debian installs under /usr/share/man, if they are there, on this repository's code
and pages, and on made text. Each is written to a file, which both read. `--megabytes` is how much
text is compared, besides the made text; it is little by default. `--text` names a folder of texts.
"""

import argparse
import gzip
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers,
                        processors, trainers)

ROOT = pathlib.Path(__file__).resolve().parents[2]
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
          r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
         r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
         r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
         r"[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BEHAVIORS = "removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"
DEEPSEEK = [r"[\r\n]", r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳ]+",
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+"]


def pages(language, limit):
    """The sources of manual pages of a language."""
    folder = pathlib.Path("/usr/share/man") / language
    out, size = [], 0
    for path in sorted(folder.glob("man*/*.gz")) if folder.is_dir() else []:
        text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        out.append(text)
        size += len(text.encode())
        if size >= limit:
            break
    return out


def corpus(arguments):
    """Texts of several languages and code, of about so many bytes."""
    limit = int(arguments.megabytes * 1e6)
    if arguments.text:
        files = sorted(p for p in pathlib.Path(arguments.text).rglob("*") if p.is_file())
        return [p.read_bytes().decode("utf-8", "replace") for p in files]
    texts = [t for name in ("de", "es", "fr", "ja", "ru", "zh_CN") for t in pages(name, limit // 7)]
    have = sum(len(t.encode()) for t in texts)
    for folder, kind in (("include", "*.?pp"), ("docs", "*.md"), ("scripts", "*.py"),
                         ("test", "*.cpp")):
        for path in sorted((ROOT / folder).rglob(kind)):
            if have < limit:
                texts.append(path.read_text(encoding="utf-8", errors="replace"))
                have += len(texts[-1].encode())
    return texts


FIXED = [
    "", " ", "\n", "a", "  a  b ", "Hello, y'all! How are you 😁 ?", "I'LL don't WE'VE she'S",
    "'ſ 'K 'S", "e\u0301\u0327 a\u0328\u0301 \u0344", "ﬁ ﬀ ℌ ① ｱ ½ ŉ ẞ",
    "가각힣 \u1100\u1161\u11a8", "שלום עולם", "مرحبا بالعالم ١٢٣", "नमस्ते दुनिया",
    "\x00\x01 a\x00b", "\u200b\u200d\u180e\ufeff", "a\u0085b\u2028c\u3000d\xa0e", "👩‍👩‍👧‍👦🇩🇪🏽",
    "x" * 300, "ab" * 200, "ſtraße ISTANBUL İstanbul", "   leading and trailing   ",
    "\t\ttabs\r\nlines\r\n\r\n", "1234567890 12 3 ٣٤ Ⅷ ²", "<s> [CLS] <|endoftext|> </s>",
    "hello<mask>world <mask> <mask>x", "foo<ws> bar  <ws>", "word wordless word", "▁ ▁▁a",
    "中文字符，标点。テスト", "don't do not we 've it 's", "http://a.b/c?d=e&f#g",
    "#include <x>\nint main() { return 0; }", "�"]


def made_texts(seed=1):
    """Texts that are rare in pages: marks, emoji, all kinds of spaces, digits, any character."""
    draw = random.Random(seed)
    out = list(FIXED)
    ranges = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x400, 0x4ff), (0x5d0, 0x5ea),
              (0x900, 0x97f), (0x2000, 0x206f), (0x3040, 0x30ff), (0x4e00, 0x4fff),
              (0xac00, 0xacff),
              (0x1f600, 0x1f64f), (0x0, 0x10ffff), (0x1f00, 0x1fff), (0xfb00, 0xfdff)]
    for _ in range(150):
        text = ""
        for _ in range(draw.randrange(1, 40)):
            low, high = draw.choice(ranges)
            c = draw.randrange(low, high + 1)
            text += chr(c if not 0xD800 <= c <= 0xDFFF else 0x20)
            text += draw.choice(["", "", "", " ", "  ", "\n", "a", "'s", "'LL", "12", ". "])
        out.append(text)
    return out


def byte_level(name, pre, texts, size, normalizer=None, post=None):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if post:
        tokenizer.post_processor = post(tokenizer)
    return name, tokenizer


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def bytes_after(*parts):
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([*parts, last])


def llama2(texts, size, scheme):
    """Llama 2's kind: Metaspace, or the normalizers that its converter writes; bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")] if scheme is None else [])
    if scheme:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", scheme, scheme != "first")
    tokenizer.train_from_iterator([t[i:i + 200] for t in texts for i in range(0, len(t), 200)] if
                                  scheme in (None, "first") else texts, trainers.BpeTrainer(
        vocab_size=size, show_progress=False, limit_alphabet=300, max_token_length=12,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]))
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B:1", special_tokens=[("<s>", 1)])
    return tokenizer


def bert(texts, size, **options):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=special, show_progress=False, limit_alphabet=500))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def unigram(texts, size, falls_back):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<unk>", "<s>", "</s>"]
    special += [f"<0x{b:02X}>" for b in range(256)] if falls_back else []
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=size, unk_token="<unk>", special_tokens=special, show_progress=False))
    if falls_back:
        model = json.loads(tokenizer.to_str())
        model["model"]["byte_fallback"] = True
        tokenizer = Tokenizer.from_str(json.dumps(model))
        tokenizer.decoder = decoders.Sequence(
            [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    return tokenizer


def classic(texts, size):
    """The kinds of the first tokenizers: a suffix at the end of words, and whole words."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
        normalizers.Strip()])
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.BPEDecoder()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<unk>"], end_of_word_suffix="</w>", show_progress=False))
    yield "bpe with a suffix", tokenizer
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKD()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Digits(False),
        pre_tokenizers.Punctuation("contiguous")])
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<unk>"], continuing_subword_prefix="##",
        limit_alphabet=200, show_progress=False))
    yield "bpe with a prefix", tokenizer
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(
        vocab_size=size, special_tokens=["<unk>"], show_progress=False))
    tokenizer.enable_truncation(20, direction="left")
    tokenizer.enable_padding(direction="left", pad_id=1, pad_to_multiple_of=8)
    yield "words, truncated and padded", tokenizer


PATTERNS = [
    r"\w+", r"\W+", r"\d{1,3}+", r"\p{N}{2}+x?", r"a{,2}", r"[a-z]{2,3}?", r"\b", r"\B.",
    r"\h+", r"\H", r"^.", r".$", r"$", r"\A.", r".\Z", r".\z", r"a*", r"|a", r"[\s\S]", r"[\w]",
    r"[^\w]", r"[^\S\n]+", r"[\w-]+", r"[-a]", r"[a\-c-e]+", r"\p{^L}+", r"\P{L}", r"\P{^Lu}",
    r"\S+", r"\s+", r"(?i:s|a)", r"(?i)[k-s]+", r"(?<=a)b", r"(?<! )\S", r"(?>a+)b", r"x++",
    r"(?:a|b)+?", r"\x41|\u00e9|\x{1F600}", r"\p{Han}+", r"\p{M}", r"\p{Cf}", r"\p{Sm}|\p{Sc}",
    r"\p{Nd}", r"\p{Zs}", r"[\p{Lu}\p{Lt}]", r"\v|\f|\t", r"\.|\\|\/|\-", r"(a)(b)?",
    r"[.*+?^${}()|]", r"{a}|a{", r"a{2}", r"\w\b|\b\w", r"(?=a)|(?=b)", "é|ß", "[à-ý]"]


def patterns():
    for pattern in PATTERNS:
        tokenizer = Tokenizer(models.WordLevel({"?": 0, "a": 1, "b": 2, " ": 3}, unk_token="?"))
        tokenizer.pre_tokenizer = split(pattern)
        yield f"pattern {pattern}", tokenizer


def with_added(tokenizer):
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.add_tokens([
        AddedToken("<ws>", rstrip=True, normalized=False), AddedToken("word", single_word=True),
        AddedToken("Hello", normalized=True), AddedToken("  ", normalized=False),
        AddedToken("   ", normalized=False)])
    return tokenizer


def roberta(_):
    return processors.RobertaProcessing(("<|endoftext|>", 0), ("<|endoftext|>", 0))


def begins_with_end(_):
    template = processors.TemplateProcessing(
        single="<|endoftext|> $A", pair="$A $B:1", special_tokens=[("<|endoftext|>", 0)])
    return processors.Sequence([processors.ByteLevel(trim_offsets=False), template])


def byte_level_tokenizers(texts, size):
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = pre_tokenizers.Digits(True)
    yield byte_level("gpt2", gpt2, texts, size)
    yield byte_level("gpt2, a space before", pre_tokenizers.ByteLevel(), texts, size, post=roberta)
    name, tokenizer = byte_level("gpt2, added tokens", gpt2, texts, size,
                                 normalizer=normalizers.Sequence([normalizers.Lowercase()]),
                                 post=lambda t: processors.ByteLevel(trim_offsets=True))
    yield name, with_added(tokenizer)
    cl100k = bytes_after(split(CL100K))
    yield byte_level("cl100k", cl100k, texts, size, post=begins_with_end)
    yield byte_level("qwen2, NFC", bytes_after(split(QWEN2)), texts, size, normalizers.NFC())
    yield byte_level("o200k", bytes_after(split(O200K)), texts, size)
    yield byte_level("deepseek", bytes_after(*map(split, DEEPSEEK), digits), texts, size)
    yield byte_level("digits", pre_tokenizers.Sequence([digits, gpt2]), texts, size)
    inverted = bytes_after(split(CL100K, "removed", True))
    ignoring = json.loads(byte_level("", inverted, texts, size)[1].to_str())
    ignoring["model"]["ignore_merges"] = True
    ignoring["model"]["merges"] = [" ".join(m) for m in ignoring["model"]["merges"][::2]]
    yield "ignore_merges, merges as texts", Tokenizer.from_str(json.dumps(ignoring))
    for behavior in BEHAVIORS:
        pre = bytes_after(split(r"\w", behavior, behavior == "removed"),
                          pre_tokenizers.Punctuation(behavior))
        yield byte_level(behavior, pre, texts[:3], 300)
    yield byte_level("ByteLevel normalizer", split(r"Ġ?[A-Za-z]+"), texts[:3], 400,
                     normalizers.ByteLevel())


def all_tokenizers(texts, size):
    yield from byte_level_tokenizers(texts, size)
    for scheme in (None, "always", "first", "never"):
        yield f"llama 2, Metaspace {scheme}", with_added(llama2(texts, 256 + size // 2, scheme))
    yield "bert", with_added(bert(texts, size))
    yield "bert, cased", bert(texts, size, lowercase=False, clean_text=False,
                              handle_chinese_chars=False)
    yield "unigram", unigram(texts, size, False)
    yield "unigram, bytes", unigram(texts, size + 256, True)
    yield from classic(texts, size)


def read_results(data, count):
    at = 0

    def numbers(n):
        nonlocal at
        at += 4 * n
        return struct.unpack_from(f"<{n}i", data, at - 4 * n)

    def text():
        nonlocal at
        (n,) = numbers(1)
        at += n
        return data[at - n:at].decode()

    for _ in range(count):
        ids, plain = numbers(numbers(1)[0]), numbers(numbers(1)[0])
        offsets = numbers(2 * numbers(1)[0])
        yield ids, plain, list(zip(offsets[::2], offsets[1::2])), text(), text()
    assert at == len(data), "there are more results than texts"


def bytes_of_offsets(text, offsets):
    """Offsets in characters as offsets in bytes."""
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return [(at[a], at[b]) for a, b in offsets]


def expected(tokenizer, text):
    encoding = tokenizer.encode(text)
    plain = tokenizer.encode(text, add_special_tokens=False)
    decoded = [tokenizer.decode(encoding.ids, skip_special_tokens=skips) if encoding.ids else ""
               for skips in (True, False)]  # a BPEDecoder panics without ids
    offsets = bytes_of_offsets(text, encoding.offsets)
    return tuple(encoding.ids), tuple(plain.ids), offsets, *decoded


def compare(name, tokenizer, texts, program, folder):
    """Returns what differs, as lines."""
    file, given, results = folder / "tokenizer.json", folder / "texts", folder / "results"
    tokenizer.save(str(file))
    tokenizer = Tokenizer.from_file(str(file))
    given.write_bytes(b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts))
    done = subprocess.run([program, file, given, results], capture_output=True, text=True)
    if done.returncode != 0:
        return [f"{name}: {done.stderr.strip()}"]
    wrong = []
    names = "ids", "plain ids", "offsets", "text", "text with special"
    for text, mine in zip(texts, read_results(results.read_bytes(), len(texts))):
        for what, a, b in zip(names, mine, expected(tokenizer, text)):
            if a != b:
                i = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                wrong.append(f"{name}: {what} of {text[:60]!r}, at {i}: {a[i:i + 6]!r}, "
                             f"and tokenizers has {b[i:i + 6]!r}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--megabytes", type=float, default=0.05)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    arguments.program = arguments.program.resolve()
    texts = corpus(arguments)
    training = texts if arguments.megabytes < 1 else texts[::8]
    compared = made_texts() + texts
    size = 1000 if arguments.megabytes < 1 else 8000
    wrong, begin = [], time.time()
    with tempfile.TemporaryDirectory() as name:
        for kind, tokenizer in all_tokenizers(training, size):
            if arguments.only in kind:
                found = compare(kind, tokenizer, compared, arguments.program, pathlib.Path(name))
                wrong += found
                print(f"{kind}: {len(found)} differences, {time.time() - begin:.1f} s", flush=True)
        for kind, tokenizer in patterns():
            if arguments.only in kind:
                wrong += compare(kind, tokenizer, made_texts()[:80], arguments.program,
                                 pathlib.Path(name))
        print(f"{len(PATTERNS)} patterns, {time.time() - begin:.1f} s")
    print(f"{len(compared)} texts, {sum(len(t.encode()) for t in compared)} bytes")
    for line in wrong[:20]:
        print(line)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
