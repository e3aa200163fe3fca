#pragma once
// Reads the tables that scripts/tokenizer/unicode_tables.py writes: numbers in digits of five bits,
// each digit one of 64 characters.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail::tokenizer {

/// Reads the numbers of a table, one after another.
class TableReader {
 public:
  explicit TableReader(const char* text) : at_(text) {}
  bool at_end() const { return *at_ == '\0'; }
  std::uint32_t number() {
    std::uint32_t value = 0, digit = 32;
    for (int shift = 0; digit >= 32; shift += 5) {
      digit = digit_of(*at_++);
      value |= (digit & 31) << shift;
    }
    return value;
  }
  std::int32_t signed_number() {
    const std::uint32_t n = number();
    return n % 2 == 0 ? static_cast<std::int32_t>(n / 2) : -static_cast<std::int32_t>(n / 2) - 1;
  }

 private:
  static std::uint32_t digit_of(char c) {
    if (c >= 'A' && c <= 'Z') return static_cast<std::uint32_t>(c - 'A');
    if (c >= 'a' && c <= 'z') return static_cast<std::uint32_t>(c - 'a' + 26);
    if (c >= '0' && c <= '9') return static_cast<std::uint32_t>(c - '0' + 52);
    return c == '+' ? 62 : 63;
  }
  const char* at_;
};

/// Calls `f(first, last)` for each range of a set.
template <class F>
void for_each_range(const char* ranges, F&& f) {
  TableReader reader(ranges);
  for (char32_t end = 0; !reader.at_end();) {
    const char32_t first = end + reader.number(), last = first + reader.number();
    f(first, last);
    end = last + 1;
  }
}

/// A map from characters to numbers, 0 for all others.
class NumberTable {
 public:
  explicit NumberTable(const char* runs) {
    TableReader reader(runs);
    for (char32_t end = 0; !reader.at_end();) {
      const char32_t first = end + reader.number(), last = first + reader.number();
      runs_.push_back({first, last, reader.signed_number()});
      end = last + 1;
    }
  }
  std::int32_t find(char32_t c) const {
    const auto run =
        std::partition_point(runs_.begin(), runs_.end(), [&](const Run& r) { return r.last < c; });
    return run != runs_.end() && run->first <= c ? run->value : 0;
  }

 private:
  struct Run {
    char32_t first, last;
    std::int32_t value;
  };
  std::vector<Run> runs_;
};

/// A map from characters to texts, an empty one for all others.
class TextTable {
 public:
  explicit TextTable(const char* entries) {
    TableReader reader(entries);
    char32_t point = 0, former = 0;
    while (!reader.at_end()) {
      point += reader.number();
      entries_.push_back({point, text_.size(), reader.number()});
      for (std::size_t i = 0; i < entries_.back().length; ++i) {
        former = static_cast<char32_t>(static_cast<std::int64_t>(former) + reader.signed_number());
        text_ += former;
      }
    }
  }
  std::u32string_view find(char32_t c) const {
    const auto entry = std::partition_point(entries_.begin(), entries_.end(),
                                            [&](const Entry& e) { return e.point < c; });
    if (entry == entries_.end() || entry->point != c) return {};
    return std::u32string_view(text_).substr(entry->begin, entry->length);
  }
  /// Calls `f(character, text)` for all.
  template <class F>
  void for_each(F&& f) const {
    for (const Entry& e : entries_)
      f(e.point, std::u32string_view(text_).substr(e.begin, e.length));
  }

 private:
  struct Entry {
    char32_t point;
    std::size_t begin, length;
  };
  std::vector<Entry> entries_;
  std::u32string text_;
};

}  // namespace ikebana::detail::tokenizer
