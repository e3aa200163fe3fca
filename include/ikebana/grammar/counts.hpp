#pragma once
// Defines the counts that a policy takes in its type and that are not plain numbers.
#include <cstdint>
#include <limits>

namespace ikebana {

/// A count that comes as a value: `Accumulate<>{.microbatches = n}`.
inline constexpr std::int64_t Dynamic = std::numeric_limits<std::int64_t>::min();
namespace detail {
/// Counts from here down stand for `Fit<Max>`; the digits behind the first are the digits of Max.
inline constexpr std::int64_t first_fit = -4'000'000'000'000'000'000;
constexpr bool is_fit(std::int64_t count) { return count <= first_fit && count != Dynamic; }
constexpr std::int64_t max_of_fit(std::int64_t count) { return first_fit - count; }
}  // namespace detail
/// A count of microbatches that is as large as memory asks for, and at most `Max`:
/// `Accumulate<Fit<64>>`, or `Accumulate<Fit<>>{.max = 64}`.
template <std::int64_t Max = Dynamic>
inline constexpr std::int64_t Fit =
    Max == Dynamic ? Dynamic + 1 : detail::first_fit - (Max < 0 ? 0 : Max);

}  // namespace ikebana
