#pragma once
// The values that a number of a saved state may have.
#include <limits>

namespace ikebana {

/// The values that saved numbers may have. A NaN is in no range.
struct NumberRange {
  double min;        ///< the least number of it
  double max;        ///< the largest number of it
  bool is_whole;     ///< only whole numbers
  const char* text;  ///< what the numbers must be, for errors

  /// Whether it contains a number.
  bool has(double number) const;
  /// The first of the numbers from `x` to `end` that it does not contain; `end` if there is none.
  const double* first_outside(const double* x, const double* end) const;
};
/// Counts of steps and the like.
inline constexpr NumberRange count_range{0, 0x1p53, true, "a whole number that is not negative"};
/// Learning rates and other factors.
inline constexpr NumberRange factor_range{0, std::numeric_limits<double>::max(), false,
                                          "finite and not negative"};
/// Factors of a moving average: below 1.
inline constexpr NumberRange beta_range{0, 1 - std::numeric_limits<double>::epsilon() / 2, false,
                                        "in [0, 1)"};
/// Scales and other numbers above 0.
inline constexpr NumberRange positive_range{std::numeric_limits<double>::min(),
                                            std::numeric_limits<double>::max(), false,
                                            "finite and positive"};
/// Any number but an infinite one.
inline constexpr NumberRange finite_range{-std::numeric_limits<double>::max(),
                                          std::numeric_limits<double>::max(), false, "finite"};
/// Any number, also an infinite one.
inline constexpr NumberRange ordered_range{-std::numeric_limits<double>::infinity(),
                                           std::numeric_limits<double>::infinity(), false,
                                           "a number"};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/number_range.ipp>
#endif
