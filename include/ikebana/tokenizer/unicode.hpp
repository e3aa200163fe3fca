#pragma once
// Sets of characters, lower case and decompositions, with the versions of Unicode that Hugging
// Face's tokenizers has.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ikebana::detail::tokenizer {

/// A set of characters; `has` reads one bit.
class CharacterSet {
 public:
  /// Reads ranges that scripts/tokenizer/unicode_tables.py wrote.
  explicit CharacterSet(const char* ranges);
  bool has(char32_t c) const { return c < 0x110000 && ((bits_[c / 64] >> (c % 64)) & 1) != 0; }

 private:
  std::vector<std::uint64_t> bits_;
};

const CharacterSet& word_characters();         ///< `\w` of Rust's regular expressions
const CharacterSet& numeric_characters();      ///< Rust's `char::is_numeric`
const CharacterSet& punctuation_characters();  ///< what Punctuation and BertPreTokenizer isolate
const CharacterSet& cleaned_characters();      ///< what BertNormalizer's `clean_text` removes
const CharacterSet& nonspacing_marks();        ///< what BertNormalizer's `strip_accents` removes
const CharacterSet& combining_marks();         ///< what StripAccents removes

/// Returns true for the 25 characters of White_Space, as Rust's `char::is_whitespace`.
inline bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
inline bool is_chinese(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/// Appends the lower case of a character: one character, or two.
void append_lower(std::u32string& out, char32_t c);

/// A character of a new text, and how it came about. 1: it is new; -n: n characters after the one
/// that it replaces are removed; 0: it replaces one.
struct Change {
  char32_t character = 0;
  int change = 0;
};

/// The forms of normalization.
enum class NormalForm { NFC, NFD, NFKC, NFKD };

/// Normalizes a text that is UTF-8. The changes are in the order of the new text.
std::vector<Change> normalized(std::string_view text, NormalForm form);

/// Returns the ranges, first and last, that newer versions of Unicode add to a general category or
/// to `Han`, and to `\w`, which has the name `w`. Empty for other names.
std::vector<std::pair<char32_t, char32_t>> added_characters(std::string_view category);

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/normal_forms.ipp>
#include <ikebana/tokenizer/impl/unicode.ipp>
