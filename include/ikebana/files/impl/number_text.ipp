#pragma once
#include <algorithm>
#include <charconv>
#include <ikebana/detail/form.hpp>
#include <ikebana/files/number_text.hpp>
#include <ikebana/state/files/json.hpp>
#include <limits>

namespace ikebana::detail {

inline bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

IKEBANA_INLINE std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

IKEBANA_INLINE std::string quoted_value(std::string_view text) {
  return "\"" + Json::excerpt(text) + "\"";
}

/// Returns whether the text is `name` in any case; `name` is in lower case.
inline bool equals_in_any_case(std::string_view text, std::string_view name) {
  return std::equal(text.begin(), text.end(), name.begin(), name.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

/// The length of each part of a number without its sign.
struct NumberParts {
  std::size_t whole = 0, fraction = 0;
  bool has_point = false, has_exponent = false, is_number = false;
};

inline NumberParts number_parts(std::string_view text, char decimal) {
  NumberParts parts;
  std::size_t at = 0;
  auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && is_decimal_digit(text[at])) ++at;
    return at - begin;
  };
  parts.whole = digits();
  if (at < text.size() && text[at] == decimal) {
    parts.has_point = true, ++at;
    parts.fraction = digits();
  }
  parts.is_number = parts.whole + parts.fraction > 0;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    parts.has_exponent = true, ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) parts.is_number = false;
  }
  if (at != text.size()) parts.is_number = false;
  return parts;
}

/// Returns the nearest double of a number without sign. A number that is too small is 0.
inline NumberText read_real(std::string_view text, char decimal) {
  std::string copy;
  if (decimal != '.') {
    copy = text;
    std::replace(copy.begin(), copy.end(), decimal, '.');
    text = copy;
  }
  NumberText number{.kind = NumberText::Kind::Real};
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number.real);
  if (read.ec == std::errc::result_out_of_range) {
    // The digits before an exponent are too few to move a number from one end to the other.
    const auto e = text.find_first_of("eE");
    const bool is_small = e == text.npos ? text.find_first_of("123456789") > text.find('.')
                                         : e + 1 < text.size() && text[e + 1] == '-';
    if (!is_small) number.kind = NumberText::Kind::TooLarge;
    number.real = 0;
  }
  return number;
}

IKEBANA_INLINE NumberText read_number(std::string_view text, char decimal) {
  using Kind = NumberText::Kind;
  text = without_blanks(text);
  if (text.empty()) return {};
  const bool is_negative = text[0] == '-';
  if (is_negative || text[0] == '+') text.remove_prefix(1);
  if (equals_in_any_case(text, "inf") || equals_in_any_case(text, "infinity")) {
    const double infinity = std::numeric_limits<double>::infinity();
    return {.kind = Kind::Real, .real = is_negative ? -infinity : infinity};
  }
  const NumberParts parts = number_parts(text, decimal);
  if (!parts.is_number) return {};
  NumberText number = read_real(text, decimal);
  number.has_leading_zero = parts.whole > 1 && text[0] == '0';
  if (is_negative) number.real = -number.real;
  if (parts.has_point || parts.has_exponent) return number;
  if (number.kind == Kind::TooLarge) return number;
  std::uint64_t whole = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), whole);
  const auto limit = std::uint64_t{1} << 63;
  if (read.ec != std::errc() || whole > limit || (whole == limit && !is_negative)) {
    number.kind = Kind::BigInteger;
    return number;
  }
  number.kind = Kind::Integer;
  number.integer = static_cast<std::int64_t>(is_negative ? std::uint64_t{0} - whole : whole);
  return number;
}

}  // namespace ikebana::detail
