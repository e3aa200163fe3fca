#pragma once
// A strict reader for JSON in files that may be damaged, and a writer of JSON strings. It allocates
// no more than the strings that it returns and a byte per open bracket of a skipped value, does not
// recurse, and reports the byte of an error, which general parsers do not.
#include <cstdint>
#include <ikebana/detail/text.hpp>
#include <string>
#include <string_view>

namespace ikebana::detail {

/// Reads a text of JSON strictly, one value after another. Throws ParseError, which the caller
/// turns into an error that names the file.
class Json {
 public:
  /// The problem, and the byte of the file at which it is.
  struct ParseError {
    std::string what;      ///< a clause without a full stop
    std::uint64_t offset;  ///< in the file
  };

  /// Reads `text`, which is not copied. `base` is the offset of the text in its file.
  Json(std::string_view text, std::uint64_t base) : text_(text), base_(base) {}

  /// Throws ParseError with the present offset.
  [[noreturn]] void fail(const std::string& what) const { throw ParseError{what, offset()}; }
  std::uint64_t offset() const { return base_ + at_; }  ///< the place of the next byte in the file
  bool at_end() const { return at_ == text_.size(); }   ///< true: everything was read

  /// If `mark` comes next, skips it and returns true.
  bool skip_if(char mark);
  /// Returns true if `mark` comes next.
  bool is_next(char mark);
  /// Skips `mark`. Throws ParseError, "`,` is missing in " and `where`, if it does not come next.
  void expect(char mark, const char* where);
  /// Throws ParseError, "something follows " and `where`, unless only space is left.
  void expect_end(const char* where);
  /// Calls `member(key)` for each member of an object; `member` must read the value.
  template <class Member>
  void object(const char* where, Member&& member) {
    expect('{', where);
    if (skip_if('}')) return;
    do {
      std::string key = string();
      expect(':', where);
      member(key);
    } while (skip_if(','));
    expect('}', where);
  }
  /// Calls `element()` for each element of an array; `element` must read the value.
  template <class Element>
  void array(const char* where, Element&& element) {
    expect('[', where);
    if (skip_if(']')) return;
    do element();
    while (skip_if(','));
    expect(']', where);
  }
  /// Reads an integer from 0 to 2^63 - 1 in decimal digits, without sign, fraction or leading zero.
  std::int64_t integer();
  /// Reads an integer from -2^63 to 2^63 - 1, as `integer` does, or with a minus sign before it; -0
  /// is 0.
  std::int64_t signed_integer();
  /// Reads any number that a double can hold, rounded to the nearest double.
  double number();
  bool boolean();  ///< reads true or false
  /// If null comes next, skips it and returns true.
  bool skip_if_null() { return skip_word("null"); }
  std::string string();  ///< reads a string, which must be valid UTF-8 without control characters
  /// Skips any value, which must be as well-formed as one that is read.
  void skip_value();

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  void skip_space();
  /// Reads decimal digits without a leading zero, whose number is at most `max`.
  std::uint64_t digits(std::uint64_t max, const char* missing);
  void skip_key() { string(), expect(':', "an object that is not used"); }
  /// Skips a string, a number, true, false or null.
  void skip_scalar();
  bool skip_word(std::string_view word);
  void skip_number();
  /// If one of these characters comes next, without a space before it, skips it.
  bool skip_char(std::string_view any);
  void skip_digits(const char* missing);
  /// Returns the number of bytes up to the quote that ends a string; the string itself is never
  /// longer.
  std::size_t length_of_string() const;
  unsigned hex4();
  void read_escape(std::string& out);
  static void append(std::string& out, std::uint32_t point);
  /// Reads a character of several bytes, which must be valid UTF-8.
  void read_multibyte(std::string& out);

 public:
  /// Returns the number of bytes of a text's first character; 0 if it is not valid UTF-8.
  static std::size_t utf8_length(std::string_view text);
  /// Makes a valid UTF-8 text for an error message. It is JSON-escaped and therefore on one line,
  /// has `?` for each byte that is not UTF-8, and is cut after about 100 bytes.
  static std::string excerpt(std::string_view text);
  /// Writes a text as a JSON string, with quotes. Throws BadValue if it is not UTF-8.
  static std::string quoted(std::string_view text);

 private:
  std::string_view text_;
  std::uint64_t base_;
  std::size_t at_ = 0;
};

}  // namespace ikebana::detail

namespace ikebana {
using detail::Json;
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/json.ipp>
#endif
