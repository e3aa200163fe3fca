#pragma once
// Defines a number that stands for a measurement that was left out.
#include <bit>
#include <cstdint>

namespace ikebana::detail {

/// The value of a field for a measurement that was not given: a NaN, because 0 would look like a
/// measurement. Its bits differ from other NaNs, like R's NA, so that a loss which is NaN is not
/// mistaken for it.
inline constexpr double not_given = std::bit_cast<double>(std::uint64_t{0x7ff8006e6f6e6500});

/// Returns whether a number was given. The result of a computation with `not_given` is not given
/// either.
bool is_given(double number);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/not_given.ipp>
#endif
