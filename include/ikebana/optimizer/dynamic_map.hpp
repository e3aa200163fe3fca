#pragma once
// An 8-bit code for values in [-1, 1] or [0, 1], finest near zero, where most moments are.
#include <array>
#include <bit>
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana::detail {

/// The dynamic tree data type of Dettmers et al., arXiv:2110.02861: 256 values, which are 0, 1, and
/// in seven decades evenly spaced ones, twice as many as in the decade below. A signed map has the
/// negatives of them, too, and half as many in each decade.
class DynamicMap {
 public:
  static constexpr std::size_t size = 256;

  explicit DynamicMap(bool is_signed) {
    std::vector<double> all = {0, 1};
    for (int decade = 0; decade < 7; ++decade) {
      int count = 1 << (decade + (is_signed ? 0 : 1));
      for (int i = 0; i < count; ++i) {
        double mean = 0.1 + 0.9 * (i + 0.5) / count, value = std::pow(10, decade - 6) * mean;
        all.push_back(value);
        if (is_signed) all.push_back(-value);
      }
    }
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < size; ++i) values_[i] = static_cast<float>(all[i]);
    for (std::size_t i = 0; i + 1 < size; ++i)
      bounds_[i] = static_cast<float>((all[i] + all[i + 1]) / 2);
    bounds_[size - 1] = std::numeric_limits<float>::infinity();
    zero_ = static_cast<std::uint8_t>(std::lower_bound(all.begin(), all.end(), 0) - all.begin());
    fill_lookup_table();
  }

  float operator[](std::uint8_t code) const { return values_[code]; }
  /// The code of 0.
  std::uint8_t zero() const { return zero_; }
  /// The code of the value nearest to x, of two equally near the smaller. |x| may exceed 1 by
  /// rounding errors only.
  std::uint8_t code(float x) const {
    std::uint8_t low = lowest_code_[bin(x)];
    return static_cast<std::uint8_t>(low + (x > bounds_[low]));
  }
  const std::array<float, size>& values() const { return values_; }
  /// Values above bounds()[i] have codes above i; the last bound is infinite.
  const std::array<float, size>& bounds() const { return bounds_; }

 private:
  // Bins of floats with the same sign, exponent and seven leading bits of the fraction, from 2^-31
  // to 2. A bin is so narrow that it holds at most one bound, so one comparison finds the code.
  static constexpr std::uint32_t min = (127u - 31) << 7, bins = 33u << 7;
  static std::uint32_t bin(float x) {
    auto bits = std::bit_cast<std::uint32_t>(x);
    std::uint32_t magnitude = (bits >> 16) & 0x7fff;
    magnitude = std::min(magnitude < min ? 0 : magnitude - min, bins - 1);
    return magnitude + (bits >> 31) * bins;
  }
  void fill_lookup_table() {
    lowest_code_.resize(2 * bins);
    for (std::uint32_t i = 0; i < bins; ++i) {
      float begin = i == 0 ? 0.0f : std::bit_cast<float>((i + min) << 16);
      float end = std::bit_cast<float>((i + 1 + min) << 16);
      lowest_code_[i] = nearest(begin), lowest_code_[i + bins] = nearest(-end);
    }
  }
  std::uint8_t nearest(float x) const {
    return static_cast<std::uint8_t>(std::lower_bound(bounds_.begin(), bounds_.end(), x) -
                                     bounds_.begin());
  }

  std::array<float, size> values_, bounds_;
  std::vector<std::uint8_t> lowest_code_;  // by bin
  std::uint8_t zero_ = 0;
};

inline const DynamicMap& dynamic_map(bool is_signed) {
  static const DynamicMap with_sign(true), without_sign(false);
  return is_signed ? with_sign : without_sign;
}

}  // namespace ikebana::detail
