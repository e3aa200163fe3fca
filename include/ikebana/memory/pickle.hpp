#pragma once
// Writes Python's pickles, protocol 2, of plain values: numbers, texts, lists and dictionaries.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ikebana::detail {

/// Replaces bytes that are not UTF-8 by question marks.
std::string valid_utf8(std::string_view text);

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
  /// Writes an unsigned integer of nine bytes, so that its sign is 0.
  void address(std::uint64_t value);
  void real(double value);
  /// Writes a pair of integers, as a tuple.
  void pair(std::int64_t first, std::int64_t second);
  void text(std::string_view text);
  /// Remembers the value that was just written, so that `get` writes it again. Returns its number.
  std::uint32_t remember();
  void get(std::uint32_t number) { bytes_ += 'j', little_endian(number, 4); }

  /// Returns the whole pickle, with the mark of its end. Call it once.
  std::string finish() { return std::move(bytes_ += '.'); }

 private:
  void little_endian(std::int64_t value, int count);
  std::string bytes_;
  std::unordered_map<std::string, std::uint32_t> texts_;
  std::uint32_t next_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/pickle.ipp>
#endif
