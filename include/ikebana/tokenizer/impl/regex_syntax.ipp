#pragma once
// Translates regular expressions. Oniguruma's `\w` has more characters than PCRE2's, its `\s`
// fewer; categories are of Unicode 16 there. What is written otherwise there is translated, such as
// `\h`, `{n,m}+`, `\uHHHH`; what has another meaning is refused.
#include <array>
#include <cstdio>
#include <ikebana/tokenizer/regex.hpp>
#include <ikebana/tokenizer/unicode.hpp>
#include <ikebana/tokenizer/utf8.hpp>
#include <optional>

namespace ikebana::detail::tokenizer {

/// Reads a pattern from its beginning to its end, and writes the translation.
class RegexTranslator {
 public:
  explicit RegexTranslator(std::string_view pattern) : in_(pattern) {}

  std::string translate() {
    if (first_invalid_utf8(in_) != in_.npos) fail("bytes that are not UTF-8");
    if (in_.find('\0') != in_.npos) fail("a NUL byte");
    if (in_.starts_with("(?i)")) at_ = 4, is_caseless_ = true, out_ = "(?i)";
    while (at_ < in_.size()) item();
    if (!groups_.empty()) fail("a group that is not closed");
    return out_;
  }

 private:
  struct Group {
    bool is_caseless;
    std::size_t begin;
  };
  [[noreturn]] void fail(const std::string& what) const {
    throw Refused{"its regular expression has " + what + " at its byte " + std::to_string(at_) +
                  ", which is not supported"};
  }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0';
  }

  void item() {
    const char c = peek();
    if (c == '(') return open();
    if (c == ')') return close();
    if (c == '[') return last_literal_ = 0, atom_ = out_.size(), out_ += character_class(), void();
    if (c == '\\') return atom_ = out_.size(), out_ += escape(false), void();
    if (c == '*' || c == '+' || c == '?') return quantifier(std::string(1, in_[at_++]));
    if (c == '{' && interval()) return;
    if (c == '^' || c == '$' || c == '|' || c == '.') last_literal_ = 0;
    atom_ = out_.size();
    if (c == '{' || c == '}' || c == ']') out_ += '\\';
    const Utf8Character read = read_utf8(in_, at_);
    check_literal(read.point);
    out_ += in_.substr(at_, read.bytes);
    at_ += read.bytes;
  }

  void open() {
    last_literal_ = 0;
    if (peek(1) == '*') fail("`(*`");
    Group group{is_caseless_, out_.size()};
    std::string_view begin = "(";
    if (peek(1) == '?') {
      begin = {};
      for (std::string_view known : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?-i:"})
        if (in_.substr(at_).starts_with(known)) begin = known;
      if (begin.empty()) fail("`" + std::string(in_.substr(at_, 3)) + "`");
      if (begin == "(?i:") is_caseless_ = true;
      if (begin == "(?-i:") is_caseless_ = false;
    }
    out_ += begin, at_ += begin.size();
    groups_.push_back(group);
  }

  void close() {
    if (groups_.empty()) fail("a `)` without `(`");
    is_caseless_ = groups_.back().is_caseless;
    atom_ = groups_.back().begin;
    groups_.pop_back();
    out_ += ')', ++at_, last_literal_ = 0;
  }

  /// After `*`, `+` or `?`, a `?` makes it lazy and a `+` possessive, as in PCRE2.
  void quantifier(std::string sign) {
    if (peek() == '?' || peek() == '+') sign += in_[at_++];
    if (peek() == '*' || peek() == '+' || peek() == '?') fail("a quantifier of a quantifier");
    out_ += sign, last_literal_ = 0;
  }

  /// Reads `{n}`, `{n,}`, `{n,m}` or `{,m}`. A `+` after it repeats the whole, and does not make it
  /// possessive.
  bool interval() {
    std::size_t end = at_ + 1;
    bool has_comma = false, has_least = false, has_most = false;
    for (; end < in_.size() && (in_[end] == ',' || (in_[end] >= '0' && in_[end] <= '9')); ++end) {
      if (in_[end] == ',' && has_comma) return false;
      if (in_[end] == ',') has_comma = true;
      else (has_comma ? has_most : has_least) = true;
    }
    if (end >= in_.size() || in_[end] != '}' || (!has_least && !has_most)) return false;
    std::string text(in_.substr(at_, end + 1 - at_));
    if (!has_least) text.insert(1, "0");
    at_ = end + 1, last_literal_ = 0;
    out_ += text;
    if (peek() == '?' && !has_comma) fail("`{n}?`");
    if (peek() == '?') out_ += in_[at_++];
    else if (peek() == '+') out_.insert(atom_, "(?:"), out_ += ")+", ++at_;
    if (peek() == '*' || peek() == '+' || peek() == '?') fail("a quantifier of a quantifier");
    return true;
  }

  /// Within `(?i`, a letter outside of ASCII, and letters that a ligature has, match more there.
  void check_literal(char32_t c) {
    if (!is_caseless_) return;
    if (c >= 0x80) fail("a character outside of ASCII within `(?i`");
    const char now = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    const std::string pair{last_literal_, now};
    for (const char* ligature : {"ss", "st", "ff", "fi", "fl"})
      if (pair == ligature) fail("`" + pair + "` within `(?i`");
    last_literal_ = now;
  }

  static std::string hex(char32_t c) {
    char text[16];
    std::snprintf(text, sizeof text, "\\x{%x}", static_cast<unsigned>(c));
    return text;
  }
  static std::string ranges(std::string_view name, char32_t least = 0) {
    std::string out;
    for (const auto& [a, b] : added_characters(name))
      if (a >= least) out += hex(a) + "-" + hex(b);
    return out;
  }
  static std::string space() {
    return R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f})"
           R"(\x{3000})";
  }
  static std::string not_space() {
    return R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
           R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff})"
           R"(\x{3001}-\x{d7ff}\x{e000}-\x{10ffff})";
  }
  /// Oniguruma's `\w` has superscripts and fractions of Latin-1 outside of a class only.
  static std::string word(bool in_class = false) {
    return R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})" + ranges("w", in_class ? 0x100 : 0);
  }

  /// Returns the inside of a class for `\p{name}`, `\d` or `\w`.
  std::string property(char letter, bool in_class, bool& is_negated) {
    if (letter == 'd') return R"(\p{Nd})" + ranges("Nd");
    if (letter == 'w') return word(in_class);
    const std::size_t end = in_.find('}', at_);
    if (peek() != '{' || end == in_.npos) fail("`\\p` without a name in braces");
    std::string name(in_.substr(at_ + 1, end - at_ - 1));
    if (name.starts_with('^')) is_negated = !is_negated, name.erase(0, 1);
    constexpr std::string_view known =
        " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp "
        "Cc Cf Co Han ";
    if (name.find(' ') != name.npos || known.find(" " + name + " ") == known.npos)
      fail("`\\p{" + name + "}`");
    if (is_caseless_) fail("`\\p` within `(?i`");
    at_ = end + 1;
    return (name == "Han" ? R"(\p{sc:Han})" : "\\p{" + name + "}") + ranges(name);
  }

  /// Reads a backslash and what follows.
  std::string escape(bool in_class) {
    const char c = peek(1);
    constexpr std::string_view plain = "nrtfae", values = "\n\r\t\f\a\x1b";
    if (const auto i = plain.find(c); c != '\0' && i != plain.npos)
      return at_ += 2, literal(static_cast<unsigned char>(values[i]));
    if (c == 'v') return at_ += 2, literal(0x0b);
    if (c == 'x' || c == 'u') return code_point();
    if (c != '\0' && std::string_view("sSdDwWpPhHbB").find(c) != std::string_view::npos)
      return last_literal_ = 0, set_escape(c, in_class);
    if (!in_class && (c == 'A' || c == 'z' || c == 'Z'))
      return at_ += 2, last_literal_ = 0, std::string{'\\', c};
    const bool is_letter_or_digit = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
    if (c == '\0' || is_letter_or_digit) fail("`\\" + std::string(c != '\0', c) + "`");
    const Utf8Character read = read_utf8(in_, at_ + 1);
    at_ += 1 + read.bytes;
    return literal(read.point);
  }
  std::string literal(char32_t c) { return check_literal(c), hex(c); }

  std::string set_escape(char c, bool in_class) {
    at_ += 2;
    const auto lower = static_cast<char>(c | 32);
    bool is_negated = c != lower;
    if (lower == 'b') {
      if (in_class) at_ -= 2, fail("`\\" + std::string(1, c) + "` in a class");
      const std::string w = "[" + word() + "]", is = "(?<=" + w + ")", is_not = "(?<!" + w + ")";
      const std::string next = "(?=" + w + ")", not_next = "(?!" + w + ")";
      return is_negated ? "(?:" + is + next + "|" + is_not + not_next + ")"
                        : "(?:" + is + not_next + "|" + is_not + next + ")";
    }
    if (lower == 's')
      return in_class ? (is_negated ? not_space() : space())
                      : (is_negated ? "[^" : "[") + space() + "]";
    const std::string set = lower == 'h' ? "0-9a-fA-F" : property(lower, in_class, is_negated);
    if (!in_class) return (is_negated ? "[^" : "[") + set + "]";
    if (is_negated) fail("a negated set in a class");
    return set;
  }
  std::string code_point() {
    const bool has_braces = peek(1) == 'x' && peek(2) == '{';
    std::size_t from = at_ + (has_braces ? 3u : 2u), n = 0;
    const std::size_t most = has_braces ? 8 : peek(1) == 'u' ? 4 : 2;
    char32_t value = 0;
    for (; n < most && from + n < in_.size() && std::isxdigit(in_[from + n]); ++n)
      value = value * 16 +
              static_cast<char32_t>(std::string_view("0123456789abcdef")
                                        .find(static_cast<char>(std::tolower(in_[from + n]))));
    const bool is_closed = !has_braces || (from + n < in_.size() && in_[from + n] == '}');
    const bool is_byte = !has_braces && most == 2 && value >= 0x80;
    if (n == 0 || (most == 4 && n < 4) || !is_closed || is_byte || value > 0x10ffff ||
        (value >= 0xd800 && value <= 0xdfff))
      fail("`\\" + std::string(1, peek(1)) + "` that names no character");
    at_ = from + n + has_braces;
    return literal(value);
  }

  std::string character_class() {
    std::string out = "[";
    ++at_;
    if (peek() == '^') {
      if (is_caseless_) fail("`[^` within `(?i`");
      out += in_[at_++];
    }
    if (peek() == ']') fail("`[]`");
    for (bool can_begin_range = false; peek() != ']';) {
      if (at_ >= in_.size()) fail("a class that does not end");
      last_literal_ = 0;
      if (peek() == '[') fail("`[` in a class");
      if (peek() == '&' && peek(1) == '&') fail("`&&`");
      if (peek() == '-') {
        const bool is_range = can_begin_range && peek(1) != ']';
        out += is_range ? "-" : "\\-", ++at_;
        can_begin_range = false;
        if (is_range) class_item(out, true);
      } else {
        can_begin_range = class_item(out, false);
      }
    }
    ++at_, last_literal_ = 0;
    return out + "]";
  }

  /// Appends a character or a set; returns true for a character.
  bool class_item(std::string& out, bool ends_range) {
    if (at_ >= in_.size()) fail("a class that does not end");
    if (peek() == '\\') {
      const bool is_set = std::string_view("sSdDwWpPhHbB").find(peek(1)) != std::string_view::npos;
      if (is_set && ends_range) fail("a range that ends with a set");
      out += escape(true);
      return !is_set;
    }
    const Utf8Character read = read_utf8(in_, at_);
    check_literal(read.point);
    out += hex(read.point), at_ += read.bytes;
    return true;
  }

  std::string_view in_;
  std::string out_;
  std::size_t at_ = 0, atom_ = 0;  // atom_: where what a quantifier would repeat begins in `out_`
  bool is_caseless_ = false;
  char last_literal_ = 0;
  std::vector<Group> groups_;
};

inline std::string to_pcre2(std::string_view pattern) {
  return RegexTranslator(pattern).translate();
}

inline std::string quoted_for_pcre2(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                          static_cast<unsigned char>(c) >= 0x80;
    if (c == '\0') out += "\\x00";
    else (is_plain ? out : out += '\\') += c;
  }
  return out;
}

}  // namespace ikebana::detail::tokenizer
