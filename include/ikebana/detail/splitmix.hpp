#pragma once
// SplitMix64: makes random bits from integers, by a pure function, so that they are the same on
// every machine and with every LibTorch.
#include <cstdint>

namespace ikebana::detail {

/// Returns 64 bits, each of which depends on all 64 bits of `x`. It is a bijection: the finalizer
/// of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
/// The number that SplitMix64 adds to its state for each number that it draws.
inline constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;

/// Hashes several numbers into one, which depends on their order.
template <class... Numbers>
constexpr std::uint64_t key(Numbers... numbers) {
  std::uint64_t k = 0;
  ((k = mix(k + golden + static_cast<std::uint64_t>(numbers))), ...);
  return k;
}

}  // namespace ikebana::detail
