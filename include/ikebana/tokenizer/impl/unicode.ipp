#pragma once
#include <ikebana/tokenizer/impl/unicode_added.ipp>
#include <ikebana/tokenizer/impl/unicode_sets.ipp>
#include <ikebana/tokenizer/table_reader.hpp>
#include <ikebana/tokenizer/unicode.hpp>
#include <map>

namespace ikebana::detail::tokenizer {

inline CharacterSet::CharacterSet(const char* ranges) : bits_(0x110000 / 64) {
  for_each_range(ranges, [&](char32_t first, char32_t last) {
    for (char32_t c = first; c <= last; ++c) bits_[c / 64] |= std::uint64_t{1} << (c % 64);
  });
}

inline const CharacterSet& word_characters() {
  static const CharacterSet set(unicode_word);
  return set;
}
inline const CharacterSet& numeric_characters() {
  static const CharacterSet set(unicode_numeric);
  return set;
}
inline const CharacterSet& punctuation_characters() {
  static const CharacterSet set(unicode_punctuation);
  return set;
}
inline const CharacterSet& cleaned_characters() {
  static const CharacterSet set(unicode_cleaned);
  return set;
}
inline const CharacterSet& nonspacing_marks() {
  static const CharacterSet set(unicode_nonspacing);
  return set;
}
inline const CharacterSet& combining_marks() {
  static const CharacterSet set(unicode_combining);
  return set;
}

inline void append_lower(std::u32string& out, char32_t c) {
  struct Lower {
    NumberTable differences{unicode_lower};
    TextTable several{unicode_long_lower};
  };
  if (c < 0x80) {
    out += c >= 'A' && c <= 'Z' ? c + 32 : c;
    return;
  }
  static const Lower lower;
  if (const auto text = lower.several.find(c); !text.empty()) out += text;
  else out += static_cast<char32_t>(static_cast<std::int64_t>(c) + lower.differences.find(c));
}

inline std::vector<std::pair<char32_t, char32_t>> added_characters(std::string_view category) {
  static const std::map<std::string_view, const char*> tables{
      {"L", unicode_added_L},     {"Lu", unicode_added_Lu}, {"Ll", unicode_added_Ll},
      {"Lm", unicode_added_Lm},   {"Lo", unicode_added_Lo}, {"M", unicode_added_M},
      {"Mn", unicode_added_Mn},   {"Mc", unicode_added_Mc}, {"N", unicode_added_N},
      {"Nd", unicode_added_Nd},   {"No", unicode_added_No}, {"P", unicode_added_P},
      {"Pd", unicode_added_Pd},   {"Po", unicode_added_Po}, {"S", unicode_added_S},
      {"Sm", unicode_added_Sm},   {"So", unicode_added_So}, {"Cf", unicode_added_Cf},
      {"Han", unicode_added_Han}, {"w", unicode_added_w}};
  std::vector<std::pair<char32_t, char32_t>> out;
  if (const auto table = tables.find(category); table != tables.end())
    for_each_range(table->second, [&](char32_t a, char32_t b) { out.emplace_back(a, b); });
  return out;
}

}  // namespace ikebana::detail::tokenizer
