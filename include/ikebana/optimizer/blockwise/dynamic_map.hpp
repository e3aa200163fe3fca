#pragma once
// An 8-bit code for values in [-1, 1] or [0, 1], finest near zero, where most moments are.
#include <array>
#include <cstdint>
#include <vector>

namespace ikebana::detail {

/// The dynamic tree data type of Dettmers et al., arXiv:2110.02861: 256 values, which are 0, 1, and
/// in seven decades evenly spaced ones, twice as many as in the decade below. A signed map has the
/// negatives of them, too, and half as many in each decade.
class DynamicMap {
 public:
  static constexpr std::size_t size = 256;

  explicit DynamicMap(bool is_signed);

  float operator[](std::uint8_t code) const { return values_[code]; }
  /// The code of 0.
  std::uint8_t zero() const { return zero_; }
  /// The code of the value nearest to x, of two equally near the smaller. |x| may exceed 1 by
  /// rounding errors only.
  std::uint8_t code(float x) const;
  const std::array<float, size>& values() const { return values_; }
  /// Values above bounds()[i] have codes above i; the last bound is infinite.
  const std::array<float, size>& bounds() const { return bounds_; }

 private:
  // Bins of floats with the same sign, exponent and seven leading bits of the fraction, from 2^-31
  // to 2. A bin is so narrow that it holds at most one bound, so one comparison finds the code.
  static constexpr std::uint32_t min = (127u - 31) << 7, bins = 33u << 7;
  static std::uint32_t bin(float x);
  void fill_lookup_table();
  std::uint8_t nearest(float x) const;

  std::array<float, size> values_, bounds_;
  std::vector<std::uint8_t> lowest_code_;  // by bin
  std::uint8_t zero_ = 0;
};

const DynamicMap& dynamic_map(bool is_signed);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/blockwise/impl/dynamic_map.ipp>
#endif
