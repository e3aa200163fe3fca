#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/state/number_range.hpp>

namespace ikebana {

IKEBANA_INLINE bool NumberRange::has(double number) const {
  return number >= min && number <= max && (!is_whole || number == std::floor(number));
}

IKEBANA_INLINE const double* NumberRange::first_outside(const double* x, const double* end) const {
  while (x != end && has(*x)) ++x;
  return x;
}

}  // namespace ikebana
