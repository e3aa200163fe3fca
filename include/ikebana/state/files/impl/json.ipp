#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/files/json.hpp>
#include <limits>
#include <system_error>

namespace ikebana::detail {

inline constexpr std::uint64_t max_integer = std::numeric_limits<std::int64_t>::max();

IKEBANA_INLINE bool Json::skip_if(char mark) {
  skip_space();
  if (at_end() || text_[at_] != mark) return false;
  ++at_;
  return true;
}

IKEBANA_INLINE void Json::expect(char mark, const char* where) {
  if (!skip_if(mark)) fail(std::string("`") + mark + "` is missing in " + where);
}

IKEBANA_INLINE void Json::expect_end(const char* where) {
  skip_space();
  if (!at_end()) fail(std::string("something follows ") + where);
}

IKEBANA_INLINE std::uint64_t Json::digits(std::uint64_t max, const char* missing) {
  const std::size_t begin = at_;
  std::uint64_t value = 0;
  for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
    const auto digit = static_cast<std::uint64_t>(text_[at_] - '0');
    if (value > (max - digit) / 10) fail("a number is too large");
    value = value * 10 + digit;
  }
  if (at_ == begin) fail(missing);
  if (text_[begin] == '0' && at_ > begin + 1) fail("a number begins with 0");
  return value;
}

IKEBANA_INLINE std::int64_t Json::integer() {
  skip_space();
  return static_cast<std::int64_t>(
      digits(max_integer, "a whole number that is not negative is missing"));
}

IKEBANA_INLINE std::int64_t Json::signed_integer() {
  skip_space();
  const bool is_negative = skip_char("-");
  const std::uint64_t value = digits(max_integer + is_negative, "a whole number is missing");
  return static_cast<std::int64_t>(is_negative ? -value : value);
}

IKEBANA_INLINE double Json::number() {
  skip_space();
  const std::size_t begin = at_;
  skip_number();
  double value = 0;
  const auto read = std::from_chars(text_.data() + begin, text_.data() + at_, value);
  if (read.ec != std::errc()) at_ = begin, fail("a number is out of range");
  return value;
}

IKEBANA_INLINE bool Json::boolean() {
  const bool value = skip_word("true");
  if (!value && !skip_word("false")) fail("`true` or `false` is missing");
  return value;
}

IKEBANA_INLINE std::string Json::string() {
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

IKEBANA_INLINE void Json::skip_value() {
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

IKEBANA_INLINE void Json::skip_space() {
  while (!at_end() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
    ++at_;
}

IKEBANA_INLINE void Json::skip_scalar() {
  skip_space();
  if (!at_end() && text_[at_] == '"') return void(string());
  if (skip_word("true") || skip_word("false") || skip_word("null")) return;
  skip_number();
}

IKEBANA_INLINE bool Json::skip_word(std::string_view word) {
  skip_space();
  if (text_.substr(at_, word.size()) != word) return false;
  return at_ += word.size(), true;
}

IKEBANA_INLINE void Json::skip_number() {
  if (!at_end() && text_[at_] == '-') ++at_;
  const std::size_t begin = at_;
  skip_digits("a value is missing");
  if (text_[begin] == '0' && at_ > begin + 1) fail("a number begins with 0");
  if (skip_char(".")) skip_digits("a number ends with a point");
  if (skip_char("eE")) skip_char("+-"), skip_digits("a number's exponent is missing");
}

IKEBANA_INLINE bool Json::skip_char(std::string_view any) {
  if (at_end() || any.find(text_[at_]) == any.npos) return false;
  return ++at_, true;
}

IKEBANA_INLINE void Json::skip_digits(const char* missing) {
  if (at_end() || !is_digit(text_[at_])) fail(missing);
  while (!at_end() && is_digit(text_[at_])) ++at_;
}

IKEBANA_INLINE std::size_t Json::length_of_string() const {
  std::size_t end = at_;
  while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2u : 1u;
  return std::min(end, text_.size()) - at_;
}

IKEBANA_INLINE unsigned Json::hex4() {
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

IKEBANA_INLINE void Json::read_escape(std::string& out) {
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

IKEBANA_INLINE void Json::append(std::string& out, std::uint32_t point) {
  auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
  auto continuation = [&](int bits) { byte(0x80 | ((point >> bits) & 0x3f)); };
  if (point < 0x80) byte(point);
  else if (point < 0x800) byte(0xc0 | (point >> 6)), continuation(0);
  else if (point < 0x10000) byte(0xe0 | (point >> 12)), continuation(6), continuation(0);
  else byte(0xf0 | (point >> 18)), continuation(12), continuation(6), continuation(0);
}

IKEBANA_INLINE void Json::read_multibyte(std::string& out) {
  const std::size_t n = utf8_length(text_.substr(at_));
  if (n == 0) fail("a string is not UTF-8");
  out += text_.substr(at_, n);
  at_ += n;
}

IKEBANA_INLINE std::size_t Json::utf8_length(std::string_view text) {
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

IKEBANA_INLINE std::string Json::excerpt(std::string_view text) {
  std::string valid;
  while (!text.empty() && valid.size() < 100) {
    const std::size_t n = utf8_length(text);
    valid += n > 0 ? text.substr(0, n) : "?";
    text.remove_prefix(std::max<std::size_t>(n, 1));
  }
  const std::string whole = quoted(valid);
  return whole.substr(1, whole.size() - 2) + (text.empty() ? "" : "...");
}

IKEBANA_INLINE std::string Json::quoted(std::string_view text) {
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

}  // namespace ikebana::detail
