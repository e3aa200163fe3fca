#pragma once
// Computes the forms of normalization. Source: UAX 15, and the order of changes of
// unicode-normalization-alignments, by which offsets in a text are kept.
#include <ikebana/tokenizer/impl/unicode_nfd.ipp>
#include <ikebana/tokenizer/impl/unicode_nfkd.ipp>
#include <ikebana/tokenizer/table_reader.hpp>
#include <ikebana/tokenizer/unicode.hpp>
#include <ikebana/tokenizer/utf8.hpp>
#include <unordered_map>

namespace ikebana::detail::tokenizer {

/// The decompositions, the classes of marks and the compositions.
class NormalTables {
 public:
  static const NormalTables& get() {
    static const NormalTables tables;
    return tables;
  }

  int class_of(char32_t c) const { return c < 0x300 ? 0 : classes_.find(c); }
  std::u32string_view decomposition(char32_t c, bool is_compatible) const {
    if (c < 0xa0) return {};
    if (is_compatible)
      if (const auto text = compatible_.find(c); !text.empty()) return text;
    return canonical_.find(c);
  }
  /// Returns 0 if two characters compose to none.
  char32_t compose(char32_t a, char32_t b) const {
    if (a >= 0x1100 && a < 0x1113 && b >= 0x1161 && b < 0x1176)
      return 0xac00 + ((a - 0x1100) * 21 + (b - 0x1161)) * 28;
    if (a >= 0xac00 && a < 0xd7a4 && (a - 0xac00) % 28 == 0 && b > 0x11a7 && b < 0x11c3)
      return a + (b - 0x11a7);
    const auto pair = pairs_.find(key(a, b));
    return pair == pairs_.end() ? 0 : pair->second;
  }

 private:
  NormalTables() {
    const CharacterSet one_way(unicode_one_way);
    for (std::size_t length = 2; length <= 4; ++length)  // the shorter are parts of the longer
      canonical_.for_each([&](char32_t c, std::u32string_view text) {
        if (text.size() != length || one_way.has(c)) return;
        char32_t begin = text[0];
        for (std::size_t i = 1; i + 1 < text.size() && begin != 0; ++i)
          begin = compose(begin, text[i]);
        if (begin != 0) pairs_.emplace(key(begin, text.back()), c);
      });
  }
  static std::uint64_t key(char32_t a, char32_t b) { return (std::uint64_t{a} << 32) | b; }

  TextTable canonical_{unicode_nfd}, compatible_{unicode_nfkd};
  NumberTable classes_{unicode_class};
  std::unordered_map<std::uint64_t, char32_t> pairs_;
};

/// Decomposes a text, and sorts marks by their classes.
inline std::vector<Change> decomposed(std::string_view text, bool is_compatible) {
  const NormalTables& tables = NormalTables::get();
  std::vector<Change> out;
  out.reserve(text.size());
  std::size_t marks = 0;  // where the marks begin that may not be in order yet
  auto sort_marks = [&] {
    std::stable_sort(out.begin() + static_cast<std::ptrdiff_t>(marks), out.end(),
                     [&](const Change& a, const Change& b) {
                       return tables.class_of(a.character) < tables.class_of(b.character);
                     });
  };
  auto push = [&](char32_t c, bool is_first) {
    if (tables.class_of(c) == 0) {
      if (out.size() - marks > 1) sort_marks();
      marks = out.size() + 1;
    }
    out.push_back({c, is_first ? 0 : 1});
  };
  for (std::size_t at = 0; at < text.size();) {
    const auto [c, bytes] = read_utf8(text, at);
    at += bytes;
    if (c >= 0xac00 && c < 0xd7a4) {
      const char32_t s = c - 0xac00, last = s % 28;
      push(0x1100 + s / 588, true), push(0x1161 + s % 588 / 28, false);
      if (last > 0) push(0x11a7 + last, false);
      continue;
    }
    const std::u32string_view parts = tables.decomposition(c, is_compatible);
    if (parts.empty()) push(c, true);
    for (std::size_t i = 0; i < parts.size(); ++i) push(parts[i], i == 0);
  }
  if (out.size() > marks) sort_marks();
  return out;
}

inline std::vector<Change> normalized(std::string_view text, NormalForm form) {
  std::vector<Change> all = decomposed(text, form == NormalForm::NFKC || form == NormalForm::NFKD);
  if (form == NormalForm::NFD || form == NormalForm::NFKD) return all;
  const NormalTables& tables = NormalTables::get();
  std::vector<Change> out;
  out.reserve(all.size());
  std::size_t starter = all.size();  // where in `out` the character is that others compose with
  int last_class = -1;               // the class of the last mark after it; -1 before one
  for (const Change& next : all) {
    const int own = tables.class_of(next.character);
    if (starter < all.size() && (last_class < 0 || (last_class < own))) {
      if (const char32_t c = tables.compose(out[starter].character, next.character)) {
        out[starter] = {c, out[starter].change + next.change - 1};
        continue;
      }
    }
    if (own == 0) starter = out.size(), last_class = -1;
    else if (starter < all.size()) last_class = own;
    out.push_back(next);
  }
  return out;
}

}  // namespace ikebana::detail::tokenizer
