#pragma once
// Random numbers that are a function of where they are used. Own integers only, so that they are
// the same on every machine and with every LibTorch.
#include <cstdint>

namespace ikebana::detail {

/// 64 bits of which each depends on all 64 of `x`; a bijection. The finalizer of SplitMix64
/// (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
inline constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;  // the step of SplitMix64

/// One number for several, in their order.
template <class... Numbers>
constexpr std::uint64_t key(Numbers... numbers) {
  std::uint64_t k = 0;
  ((k = mix(k + golden + static_cast<std::uint64_t>(numbers))), ...);
  return k;
}

/// What a key is for: the same seed and epoch never give two uses the same numbers.
enum class Use : std::uint64_t { Order, Sample, Batch, Generator };

}  // namespace ikebana::detail
