#pragma once
// A number that was left out, as distinct from one that was measured.
#include <bit>
#include <cstdint>

namespace ikebana::detail {

/// What a field has that holds a measurement and was given none: a NaN, since 0 would look like a
/// measurement. It has bits of its own, as R's NA, so that a loss which is NaN is another.
inline constexpr double not_given = std::bit_cast<double>(std::uint64_t{0x7ff8006e6f6e6500});

/// Whether a number was given. What is computed with one that was not is not given either.
bool is_given(double number);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/not_given.ipp>
#endif
