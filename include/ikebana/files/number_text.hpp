#pragma once
// Reads a number from a text, such as a field of a csv file, exactly.
#include <cstdint>
#include <string>
#include <string_view>

namespace ikebana::detail {

/// A number that was read from a text.
struct NumberText {
  enum class Kind {
    NoNumber,    ///< the text is no number
    Integer,     ///< an integer of 64 bits, in `integer`; `real` is the nearest double
    BigInteger,  ///< an integer outside of 64 bits; `real` is the nearest double
    Real,        ///< `real` is the nearest double, or an infinity that the text names
    TooLarge,    ///< a number beyond the range of a double
  };
  Kind kind = Kind::NoNumber;
  std::int64_t integer = 0;
  double real = 0;
  bool has_leading_zero = false;  ///< a zero with a digit behind it, as in a postal code
};

/// Reads `-12`, `+1.5`, `.5`, `1.`, `1e5` and `inf` or `infinity` in any case; spaces and tabs
/// around a number are skipped. `decimal` is the decimal point. Other texts, such as `0x10`,
/// `1_000` and `nan`, are no numbers.
NumberText read_number(std::string_view text, char decimal = '.');

/// Returns the text without spaces and tabs around it.
std::string_view without_blanks(std::string_view text);
/// Writes the beginning of a text from a file in quotation marks, for an error message.
std::string quoted_value(std::string_view text);

/// The powers of ten that a double holds exactly.
inline constexpr double exact_powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
inline constexpr std::uint64_t largest_exact = std::uint64_t{1} << 53;

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/number_text.ipp>
#endif
