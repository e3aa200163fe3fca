#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/profiling/xml_text.hpp>

namespace ikebana::detail {

inline constexpr char32_t unknown_character = 0xFFFD;

/// Returns how many bytes a character takes that begins with this byte; 0 if none begins with it.
inline std::size_t utf8_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/// Returns true for a character that XML 1.0 allows, without surrogates and codes beyond Unicode.
inline bool is_in_xml(char32_t c) {
  if (c < 0x20) return c == '\t' || c == '\n' || c == '\r';
  return (c < 0xD800 || c > 0xDFFF) && (c & 0xFFFE) != 0xFFFE && c <= 0x10FFFF;
}

/// Reads the character at the beginning of a text, and removes its bytes. A byte that begins no
/// whole character is removed alone.
inline char32_t take_character(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = utf8_length(first);
  char32_t c = length == 1 ? first : first & (0x7Fu >> length);
  bool is_whole = length > 0 && text.size() >= length;
  for (std::size_t i = 1; is_whole && i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    is_whole = (next & 0xC0) == 0x80;
    c = (c << 6) | (next & 0x3Fu);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};  // a longer form is no UTF-8
  is_whole = is_whole && c >= least[length] && (c < 0xD800 || c > 0xDFFF) && c <= 0x10FFFF;
  text.remove_prefix(is_whole ? length : 1);
  return is_whole && is_in_xml(c) ? c : unknown_character;
}

IKEBANA_INLINE std::u32string characters_of(std::string_view text) {
  std::u32string characters;
  while (!text.empty()) characters += take_character(text);
  return characters;
}

IKEBANA_INLINE std::string utf8_of(std::u32string_view characters) {
  std::string text;
  auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  for (const char32_t c : characters) {
    if (c < 0x80) {
      add(c);
      continue;
    }
    if (c < 0x800) add(0xC0 | (c >> 6));
    else if (c < 0x10000) add(0xE0 | (c >> 12)), add(0x80 | ((c >> 6) & 0x3F));
    else add(0xF0 | (c >> 18)), add(0x80 | ((c >> 12) & 0x3F)), add(0x80 | ((c >> 6) & 0x3F));
    add(0x80 | (c & 0x3F));
  }
  return text;
}

IKEBANA_INLINE std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : utf8_of(characters_of(text))) {
    if (c == '&') escaped += "&amp;";
    else if (c == '<') escaped += "&lt;";
    else if (c == '>') escaped += "&gt;";
    else if (c == '"') escaped += "&quot;";
    else if (c == '\'') escaped += "&#39;";
    else escaped += c;
  }
  return escaped;
}

/// Returns the columns of one character: two from Hangul's letters on, which has all ideographs.
inline std::size_t columns_of_character(char32_t c) {
  return c >= 0x1100 && !(c >= 0x1E00 && c < 0x2E80) && c != unknown_character ? 2 : 1;
}

IKEBANA_INLINE std::size_t text_columns(std::string_view text) {
  std::size_t columns = 0;
  for (const char32_t c : characters_of(text)) columns += columns_of_character(c);
  return columns;
}

IKEBANA_INLINE std::string shortened(std::string_view text, std::size_t columns) {
  const std::u32string all = characters_of(text);
  if (text_columns(text) <= columns) return utf8_of(all);
  const std::size_t left = columns > 0 ? columns - 1 : 0;  // without the sign of what is left out
  std::size_t first = 0, last = all.size();
  for (std::size_t used = 0; used + columns_of_character(all[first]) <= left - left / 2; ++first)
    used += columns_of_character(all[first]);
  for (std::size_t used = 0; used + columns_of_character(all[last - 1]) <= left / 2; --last)
    used += columns_of_character(all[last - 1]);
  return utf8_of(all.substr(0, first)) + "\u2026" + utf8_of(all.substr(last));
}

}  // namespace ikebana::detail
