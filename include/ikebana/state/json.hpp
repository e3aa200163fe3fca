#pragma once
// A strict reader for the JSON in files of tensors, and a writer of JSON strings. It allocates no
// more than the strings that it returns and a byte per open bracket of a skipped value, does not
// recurse, and reports the byte of an error, which general parsers do not.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <limits>
#include <string>
#include <string_view>

namespace ikebana::detail {

/// Reads one value after another. `base` is the offset of the text in its file. Throws ParseError,
/// which the caller turns into an error that names the file.
class Json {
 public:
  /// What is wrong, and at which byte of the file.
  struct ParseError {
    std::string what;
    std::uint64_t offset;
  };

  Json(std::string_view text, std::uint64_t base) : text_(text), base_(base) {}

  [[noreturn]] void fail(const std::string& what) const { throw ParseError{what, offset()}; }
  std::uint64_t offset() const { return base_ + at_; }
  bool at_end() const { return at_ == text_.size(); }

  /// If `mark` comes next, skips it and returns true.
  bool skip_if(char mark) {
    skip_space();
    if (at_end() || text_[at_] != mark) return false;
    ++at_;
    return true;
  }
  void expect(char mark, const char* where) {
    if (!skip_if(mark)) fail(std::string("`") + mark + "` is missing in " + where);
  }
  void expect_end(const char* where) {
    skip_space();
    if (!at_end()) fail(std::string("something follows ") + where);
  }
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
  /// An integer from 0 to 2^63 - 1 in decimal digits: no sign, no fraction, no leading zero.
  std::int64_t integer() {
    skip_space();
    constexpr auto max = std::numeric_limits<std::int64_t>::max();
    const std::size_t begin = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      const int digit = text_[at_] - '0';
      if (value > (max - digit) / 10) fail("a number is too large");
      value = value * 10 + digit;
    }
    if (at_ == begin) fail("a whole number that is not negative is missing");
    if (text_[begin] == '0' && at_ > begin + 1) fail("a number begins with 0");
    return value;
  }
  /// Any number that a double can hold, rounded to the nearest one.
  double number() {
    skip_space();
    const std::size_t begin = at_;
    skip_number();
    double value = 0;
    const auto read = std::from_chars(text_.data() + begin, text_.data() + at_, value);
    if (read.ec != std::errc()) at_ = begin, fail("a number is out of range");
    return value;
  }
  bool boolean() {
    const bool value = skip_word("true");
    if (!value && !skip_word("false")) fail("`true` or `false` is missing");
    return value;
  }
  /// If null comes next, skips it and returns true.
  bool skip_if_null() { return skip_word("null"); }
  std::string string() {
    expect('"', "what should be a string");
    std::string out;
    out.reserve(length_of_string());  // growing could take twice the memory
    while (true) {
      if (at_end()) fail("a string does not end");
      const char c = text_[at_];
      if (c == '"') return ++at_, out;
      if (static_cast<unsigned char>(c) < 0x20) fail("a string has a control character");
      if (c == '\\') read_escape(out);
      else if (static_cast<unsigned char>(c) >= 0x80) read_multibyte(out);
      else ++at_, out += c;
    }
  }
  /// Skips any value, which must be as well-formed as one that is read.
  void skip_value() {
    std::string closing;  // the marks that end the objects and arrays that are open
    while (true) {
      const bool is_object = skip_if('{');
      if (is_object || skip_if('[')) {
        const char mark = is_object ? '}' : ']';
        if (!skip_if(mark)) {
          closing += mark;
          if (is_object) skip_key();
          continue;
        }
      } else {
        skip_scalar();
      }
      for (;; closing.pop_back()) {
        if (closing.empty()) return;
        if (skip_if(',')) break;
        expect(closing.back(), "a value that is not used");
      }
      if (closing.back() == '}') skip_key();
    }
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  void skip_space() {
    while (!at_end() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  void skip_key() { string(), expect(':', "an object that is not used"); }
  /// A string, a number, true, false or null.
  void skip_scalar() {
    skip_space();
    if (!at_end() && text_[at_] == '"') return void(string());
    if (skip_word("true") || skip_word("false") || skip_word("null")) return;
    skip_number();
  }
  bool skip_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    return at_ += word.size(), true;
  }
  void skip_number() {
    if (!at_end() && text_[at_] == '-') ++at_;
    const std::size_t begin = at_;
    skip_digits("a value is missing");
    if (text_[begin] == '0' && at_ > begin + 1) fail("a number begins with 0");
    if (skip_char(".")) skip_digits("a number ends with a point");
    if (skip_char("eE")) skip_char("+-"), skip_digits("a number's exponent is missing");
  }
  /// If one of these characters comes next, without a space before it, skips it.
  bool skip_char(std::string_view any) {
    if (at_end() || any.find(text_[at_]) == any.npos) return false;
    return ++at_, true;
  }
  void skip_digits(const char* missing) {
    if (at_end() || !is_digit(text_[at_])) fail(missing);
    while (!at_end() && is_digit(text_[at_])) ++at_;
  }
  /// Bytes up to the quote that ends a string; the string itself is never longer.
  std::size_t length_of_string() const {
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2u : 1u;
    return std::min(end, text_.size()) - at_;
  }
  unsigned hex4() {
    unsigned value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_end() ? '\0' : text_[at_];
      const char low = static_cast<char>(c | 0x20);
      if (is_digit(c)) value = value * 16 + static_cast<unsigned>(c - '0');
      else if (low >= 'a' && low <= 'f') value = value * 16 + static_cast<unsigned>(low - 'a' + 10);
      else fail("\\u needs four hexadecimal digits");
    }
    return value;
  }
  void read_escape(std::string& out) {
    const char c = ++at_ < text_.size() ? text_[at_] : '\0';
    constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    if (const auto i = letters.find(c); c != '\0' && i != letters.npos) {
      ++at_, out += meanings[i];
      return;
    }
    if (c != 'u') fail("a string has an unknown escape");
    ++at_;
    std::uint32_t point = hex4();
    if (point >= 0xd800 && point < 0xdc00) {
      if (text_.substr(at_, 2) != "\\u") fail("half of a surrogate pair");
      at_ += 2;
      const unsigned low = hex4();
      if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair");
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
    } else if (point >= 0xdc00 && point <= 0xdfff) {
      fail("half of a surrogate pair");
    }
    append(out, point);
  }
  static void append(std::string& out, std::uint32_t point) {
    auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
    auto continuation = [&](int bits) { byte(0x80 | ((point >> bits) & 0x3f)); };
    if (point < 0x80) byte(point);
    else if (point < 0x800) byte(0xc0 | (point >> 6)), continuation(0);
    else if (point < 0x10000) byte(0xe0 | (point >> 12)), continuation(6), continuation(0);
    else byte(0xf0 | (point >> 18)), continuation(12), continuation(6), continuation(0);
  }
  /// Reads a character of several bytes, which must be valid UTF-8.
  void read_multibyte(std::string& out) {
    const std::size_t n = utf8_length(text_.substr(at_));
    if (n == 0) fail("a string is not UTF-8");
    out += text_.substr(at_, n);
    at_ += n;
  }

 public:
  /// Bytes of the first character of a text; 0 if it is not valid UTF-8.
  static std::size_t utf8_length(std::string_view text) {
    auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < n) return 0;
    for (std::size_t i = 1; i < n; ++i)
      if ((byte(i) & 0xc0) != 0x80) return 0;
    const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
    const bool beyond = (first == 0xed && byte(1) > 0x9f) || (first == 0xf4 && byte(1) > 0x8f);
    return overlong || beyond ? 0 : n;
  }
  /// A valid UTF-8 text for an error message: JSON-escaped, so on one line, and cut after about 100
  /// bytes.
  static std::string excerpt(std::string_view text) {
    constexpr std::size_t max = 100;
    std::size_t n = 0;
    while (n < text.size() && n < max) n += std::max<std::size_t>(utf8_length(text.substr(n)), 1);
    const std::string whole = quoted(text.substr(0, n));
    return whole.substr(1, whole.size() - 2) + (n < text.size() ? "..." : "");
  }
  /// A text as a JSON string, with quotes. Throws BadValue if it is not UTF-8.
  static std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (std::size_t n; !text.empty(); text.remove_prefix(n)) {
      n = utf8_length(text);
      if (n == 0)
        throw BadValue("state: a name or a text is not UTF-8: `" + excerpt(out.substr(1)) +
                       "...`. Use UTF-8.");
      const char c = text[0];
      constexpr char digits[] = "0123456789abcdef";
      if (static_cast<unsigned char>(c) < 0x20)
        out.append("\\u00").append(1, digits[c >> 4]).append(1, digits[c & 15]);
      else (c == '"' || c == '\\' ? out += '\\' : out).append(text.substr(0, n));
    }
    return out + '"';
  }

 private:
  std::string_view text_;
  std::uint64_t base_;
  std::size_t at_ = 0;
};

}  // namespace ikebana::detail
