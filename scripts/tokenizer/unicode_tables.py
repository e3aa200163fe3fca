#!/usr/bin/env python3
"""Writes the tables of characters in include/ikebana/tokenizer/impl/unicode_*.ipp.

    unicode_tables.py [FOLDER]

Every table is asked from Python's `tokenizers` itself, character by character, so that it has the
versions of Unicode that `tokenizers` has: its regular expressions, its normalizers and its
pre-tokenizers each have another one. What PCRE2 knows less of a category than `tokenizers` is
written as ranges that are added to the category. Needs tokenizers and libpcre2-8; takes minutes.
"""

import ctypes
import pathlib
import sys

from tokenizers import Regex
from tokenizers import normalizers as norm
from tokenizers import pre_tokenizers as pre

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
TEXT = "".join(map(chr, POINTS))
ADDED = {name: rf"\p{{{name}}}" for name in
         "L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp "
         "Cf".split()}


def number(value):
    """A number in digits of five bits, the least first; 32 is added if another digit follows."""
    out = ""
    while True:
        value, digit = value >> 5, value & 31
        out += ALPHABET[digit + (32 if value else 0)]
        if not value:
            return out


def signed(value):
    return number(value * 2 if value >= 0 else -value * 2 - 1)


def ranges(points):
    """The ranges of a set: the gap before each, and its length less one."""
    out, points, end = "", sorted(points), 0
    i = 0
    while i < len(points):
        j = i
        while j + 1 < len(points) and points[j + 1] == points[j] + 1:
            j += 1
        out += number(points[i] - end) + number(points[j] - points[i])
        end = points[j] + 1
        i = j + 1
    return out


def mapping(table):
    """A map from characters to texts: the gap, the length, the characters as differences."""
    out, last, former = "", 0, 0
    for point, text in sorted(table.items()):
        out += number(point - last) + number(len(text))
        last = point
        for c in text:
            out += signed(ord(c) - former)
            former = ord(c)
    return out


def steps(table):
    """A map from characters to numbers, in runs of the same number."""
    out, end, items = "", 0, sorted(table.items())
    i = 0
    while i < len(items):
        j = i
        while j + 1 < len(items) and items[j + 1] == (items[j][0] + 1, items[i][1]):
            j += 1
        out += number(items[i][0] - end) + number(j - i) + signed(items[i][1])
        end = items[j][0] + 1
        i = j + 1
    return out


def by_tokenizers(pattern):
    split = pre.Split(Regex(f"{pattern}+"), "removed", invert=True)
    return {ord(c) for part, _ in split.pre_tokenize_str(TEXT) for c in part}


def by_pcre2(pattern):
    lib = ctypes.CDLL("libpcre2-8.so.0")
    for name in ("compile", "match_data_create_from_pattern"):
        getattr(lib, f"pcre2_{name}_8").restype = ctypes.c_void_p
    lib.pcre2_get_ovector_pointer_8.restype = ctypes.POINTER(ctypes.c_size_t)
    code, at = ctypes.c_int(), ctypes.c_size_t()
    source, text = f"{pattern}+".encode(), TEXT.encode()
    compiled = ctypes.c_void_p(lib.pcre2_compile_8(
        source, ctypes.c_size_t(len(source)), ctypes.c_uint32(0x000A0000), ctypes.byref(code),
        ctypes.byref(at), None))
    data = ctypes.c_void_p(lib.pcre2_match_data_create_from_pattern_8(compiled, None))
    begin, found = 0, set()
    while lib.pcre2_match_8(compiled, text, ctypes.c_size_t(len(text)), ctypes.c_size_t(begin),
                            ctypes.c_uint32(0x40000000), data, None) > 0:
        match = lib.pcre2_get_ovector_pointer_8(data)
        found.update(map(ord, text[match[0]:match[1]].decode()))
        begin = match[1]
    return found


def parts(pre_tokenizer, point):
    return len(pre_tokenizer.pre_tokenize_str("a" + chr(point)))


def combining_classes(nfd):
    """The classes by which NFD orders marks, found by the order of pairs."""
    import unicodedata

    def is_swapped(a, b):
        return norm.NFD().normalize_str("a" + a + b) == "a" + b + a

    above = {c for c in POINTS if c not in nfd and
             (is_swapped(chr(c), "\u0334") or is_swapped("\u0345", chr(c)) or c == 0x345)}
    samples = {}
    for c in sorted(above):
        samples.setdefault(unicodedata.combining(chr(c)), chr(c))
    samples.pop(0, None)
    classes = {}
    for c in above:
        known = unicodedata.combining(chr(c))
        for value, sample in samples.items():
            assert is_swapped(chr(c), sample) == (known > value) or chr(c) == sample, hex(c)
            assert is_swapped(sample, chr(c)) == (value > known) or chr(c) == sample, hex(c)
        classes[c] = known
    return classes


def write(path, what, tables):
    lines = ["#pragma once",
             f"// Holds {what}. scripts/tokenizer/unicode_tables.py writes this file.",
             "namespace ikebana::detail::tokenizer {", ""]
    for name, (comment, value) in tables.items():
        lines += [f"// {comment}", f"inline constexpr const char {name}[] ="]
        cuts = [f'    "{value[i:i + 93]}"' for i in range(0, len(value), 93)] or ['    ""']
        lines += cuts[:-1] + [cuts[-1] + ";"]
    path.write_text("\n".join(lines + ["", "}  // namespace ikebana::detail::tokenizer", ""]))


def sets_of(nfd):
    clean = norm.BertNormalizer(True, False, False, False).normalize_str
    unaccented = norm.BertNormalizer(False, False, True, False).normalize_str
    return {
        "word": (r"The characters that are `\w` in Rust's regular expressions.",
                 [c for c in POINTS if parts(pre.Whitespace(), c) == 1 and not chr(c).isspace()]),
        "numeric": ("The characters for which Rust's `char::is_numeric` is true.",
                    [c for c in POINTS if parts(pre.Digits(True), c) == 2]),
        "punctuation": ("The characters that Punctuation and BertPreTokenizer isolate.",
                        [c for c in POINTS if parts(pre.Punctuation(), c) == 2]),
        "cleaned": ("The characters that BertNormalizer removes as control characters.",
                    [c for c in POINTS if clean(chr(c)) == ""]),
        "nonspacing": ("The marks that BertNormalizer removes as accents.",
                       [c for c in POINTS if c not in nfd and unaccented(chr(c)) == ""]),
        "combining": ("The marks that StripAccents removes.",
                      [c for c in POINTS if norm.StripAccents().normalize_str(chr(c)) == ""]),
    }


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                          pathlib.Path(__file__).parents[2] / "include/ikebana/tokenizer/impl")
    nfd_of, nfkd_of = norm.NFD().normalize_str, norm.NFKD().normalize_str
    nfc_of = norm.NFC().normalize_str
    outside = [c for c in POINTS if not 0xAC00 <= c <= 0xD7A3]  # Hangul is computed
    nfd = {c: nfd_of(chr(c)) for c in outside if nfd_of(chr(c)) != chr(c)}
    nfkd = {c: nfkd_of(chr(c)) for c in outside if nfkd_of(chr(c)) != nfd_of(chr(c))}
    one_way = [c for c, text in nfd.items() if len(text) > 1 and nfc_of(text) != chr(c)]
    lower_of = norm.Lowercase().normalize_str
    lower = {c: lower_of(chr(c)) for c in POINTS if lower_of(chr(c)) != chr(c)}
    long_lower = {c: text for c, text in lower.items() if len(text) > 1}
    sets = sets_of(nfd)
    tables = {f"unicode_{k}": (comment, ranges(points)) for k, (comment, points) in sets.items()}
    tables["unicode_lower"] = ("The lower case of characters, as differences.", steps(
        {c: ord(text) - c for c, text in lower.items() if len(text) == 1}))
    tables["unicode_long_lower"] = ("The lower case of characters that become several.",
                                    mapping(long_lower))
    write(folder / "unicode_sets.ipp", "sets of characters", tables)
    tables = {"unicode_class": ("The combining classes of marks.", steps(combining_classes(nfd))),
              "unicode_one_way": ("The characters that NFC does not compose.", ranges(one_way)),
              "unicode_nfd": ("The canonical decompositions.", mapping(nfd))}
    write(folder / "unicode_nfd.ipp", "the tables of NFD and NFC", tables)
    write(folder / "unicode_nfkd.ipp", "the compatible decompositions of NFKD and NFKC", {
        "unicode_nfkd": ("The decompositions that differ from the canonical ones.", mapping(nfkd))})
    added = {}
    for name, pattern in ADDED.items():
        added[name] = by_tokenizers(pattern) - by_pcre2(pattern)
    added["Han"] = by_tokenizers(r"\p{Han}") - by_pcre2(r"\p{sc:Han}")
    added["w"] = by_tokenizers(r"\w") - by_pcre2(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]")
    write(folder / "unicode_added.ipp",
          "what newer versions of Unicode than 14 add to general categories", {
              f"unicode_added_{k}": (f"Added to {k}.", ranges(v)) for k, v in added.items() if v})


if __name__ == "__main__":
    main()
