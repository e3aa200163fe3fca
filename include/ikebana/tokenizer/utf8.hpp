#pragma once
// Reads and writes characters in UTF-8, finds bytes that are not UTF-8, and replaces them as Rust
// and browsers do.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ikebana::detail::tokenizer {

/// The text of U+FFFD, which replaces bytes that are not UTF-8.
inline constexpr std::string_view replacement_character = "\xef\xbf\xbd";

/// A character and the number of its bytes.
struct Utf8Character {
  char32_t point = 0;
  std::size_t bytes = 0;
};

/// The first bytes of a text: a character, or bytes that make no character.
struct Utf8Step {
  std::size_t bytes = 0;    ///< the length of the character, or of the longest beginning of one
  bool is_valid = false;    ///< true: the bytes are a character
  bool is_cut_off = false;  ///< true: the text ends within what could become a character
};

Utf8Step utf8_step(std::string_view text);
/// Returns the offset of the first byte that is not UTF-8; npos if the whole text is UTF-8.
std::size_t first_invalid_utf8(std::string_view text);
/// Replaces each longest part of a character that is not complete, and each other byte that is not
/// UTF-8, by U+FFFD, as Rust's `String::from_utf8_lossy`.
std::string with_replacements(std::string_view text);

/// Reads the character at `at` of a text that is UTF-8.
inline Utf8Character read_utf8(std::string_view text, std::size_t at) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  auto low = [&](std::size_t i) { return static_cast<char32_t>(byte(i) & 0x3fu); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xe0) return {((first & 0x1fu) << 6) | low(1), 2};
  if (first < 0xf0) return {((first & 0x0fu) << 12) | (low(1) << 6) | low(2), 3};
  return {((first & 0x07u) << 18) | (low(1) << 12) | (low(2) << 6) | low(3), 4};
}

/// Returns the offset of the character that ends at `end`, which is above 0.
inline std::size_t before_utf8(std::string_view text, std::size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
  return end;
}

inline void append_utf8(std::string& out, char32_t point) {
  auto byte = [&](char32_t value) { out += static_cast<char>(static_cast<unsigned char>(value)); };
  if (point < 0x80) return byte(point);
  if (point < 0x800) byte(0xc0 | (point >> 6));
  else if (point < 0x10000) byte(0xe0 | (point >> 12));
  else byte(0xf0 | (point >> 18)), byte(0x80 | ((point >> 12) & 0x3f));
  if (point >= 0x800) byte(0x80 | ((point >> 6) & 0x3f));
  byte(0x80 | (point & 0x3f));
}

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/utf8.ipp>
