#pragma once
// Writes Python's pickles, protocol 2, of plain values: numbers, texts, lists and dictionaries.
#include <bit>
#include <cstdint>
#include <ikebana/state/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ikebana::detail {

/// What is not UTF-8 becomes question marks.
inline std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t n = Json::utf8_length(text);
    n == 0 ? valid += '?' : valid.append(text.substr(0, n));
    text.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return valid;
}

/// Appends values to a text. A list is `begin_list`, its values, `end_list`; a dictionary
/// `begin_dict`, a text and a value for each item, `end_dict`. Equal texts are written once, and
/// are one object in Python. The format: Python's pickletools.
class Pickle {
 public:
  Pickle() { bytes_ = "\x80\x02"; }

  void begin_list() { bytes_ += "]("; }
  void end_list() { bytes_ += 'e'; }
  void begin_dict() { bytes_ += "}("; }
  void end_dict() { bytes_ += 'u'; }
  void boolean(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void integer(std::int64_t value) { bytes_ += "\x8a\x08", little_endian(value, 8); }
  /// An unsigned one, of nine bytes, so that its sign is 0.
  void address(std::uint64_t value) {
    bytes_ += "\x8a\x09", little_endian(static_cast<std::int64_t>(value), 8), bytes_ += '\0';
  }
  void real(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    bytes_ += 'G';
    for (int shift = 56; shift >= 0; shift -= 8) bytes_ += static_cast<char>(bits >> shift);
  }
  /// A pair of integers, as a tuple.
  void pair(std::int64_t first, std::int64_t second) {
    integer(first), integer(second), bytes_ += '\x86';
  }
  void text(std::string_view text) {
    const auto [at, is_new] = texts_.try_emplace(std::string(text), next_);
    if (!is_new) return get(at->second);
    const std::string valid = valid_utf8(text);
    bytes_ += 'X', little_endian(static_cast<std::int64_t>(valid.size()), 4), bytes_ += valid;
    remember();
  }
  /// Remembers the value that was just written, so that `get` writes it again. Returns its number.
  std::uint32_t remember() {
    bytes_ += 'r', little_endian(next_, 4);
    return next_++;
  }
  void get(std::uint32_t number) { bytes_ += 'j', little_endian(number, 4); }

  /// All of it, with the mark of its end. Once.
  std::string finish() { return std::move(bytes_ += '.'); }

 private:
  void little_endian(std::int64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }
  std::string bytes_;
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::uint32_t next_ = 0;
};

}  // namespace ikebana::detail
