#pragma once
// 256 numbers that stand for all in [-1, 1] or [0, 1]: more of them where moments are, near zero.
#include <array>
#include <bit>
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana::detail {

/// The dynamic tree data type of Dettmers et al., arXiv:2110.02861: seven decades, each with twice
/// as many numbers, evenly spaced, as the one below it; 0 and 1. Signed, half of them are negative.
class DynamicMap {
 public:
  static constexpr std::size_t size = 256;

  explicit DynamicMap(bool is_signed) {
    std::vector<double> all = {0, 1};
    for (int decade = 0; decade < 7; ++decade) {
      int count = 1 << (decade + (is_signed ? 0 : 1));
      for (int i = 0; i < count; ++i) {
        double mean = 0.1 + 0.9 * (i + 0.5) / count, number = std::pow(10, decade - 6) * mean;
        all.push_back(number);
        if (is_signed) all.push_back(-number);
      }
    }
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < size; ++i) numbers_[i] = static_cast<float>(all[i]);
    for (std::size_t i = 0; i + 1 < size; ++i)
      bounds_[i] = static_cast<float>((all[i] + all[i + 1]) / 2);
    bounds_[size - 1] = std::numeric_limits<float>::infinity();
    zero_ = static_cast<std::uint8_t>(std::lower_bound(all.begin(), all.end(), 0) - all.begin());
    index();
  }

  float operator[](std::uint8_t code) const { return numbers_[code]; }
  /// The code of 0.
  std::uint8_t zero() const { return zero_; }
  /// The code of the number nearest to x, of two as near the smaller. |x| <= 1 but for rounding.
  std::uint8_t code(float x) const {
    std::uint8_t low = first_[place(x)];
    return static_cast<std::uint8_t>(low + (x > bounds_[low]));
  }
  const std::array<float, size>& numbers() const { return numbers_; }
  /// Numbers above bounds()[i] have codes above i; the last is infinite.
  const std::array<float, size>& bounds() const { return bounds_; }

 private:
  // Floats by their sign, exponent and seven bits of their fraction, from 2^-31 to 2: so narrow a
  // range holds one bound at most, and one comparison is left.
  static constexpr std::uint32_t min = (127u - 31) << 7, places = 33u << 7;
  static std::uint32_t place(float x) {
    auto bits = std::bit_cast<std::uint32_t>(x);
    std::uint32_t magnitude = (bits >> 16) & 0x7fff;
    magnitude = std::min(magnitude < min ? 0 : magnitude - min, places - 1);
    return magnitude + (bits >> 31) * places;
  }
  void index() {
    first_.resize(2 * places);
    for (std::uint32_t i = 0; i < places; ++i) {
      float begin = i == 0 ? 0.0f : std::bit_cast<float>((i + min) << 16);
      float end = std::bit_cast<float>((i + 1 + min) << 16);
      first_[i] = nearest(begin), first_[i + places] = nearest(-end);
    }
  }
  std::uint8_t nearest(float x) const {
    return static_cast<std::uint8_t>(std::lower_bound(bounds_.begin(), bounds_.end(), x) -
                                     bounds_.begin());
  }

  std::array<float, size> numbers_, bounds_;
  std::vector<std::uint8_t> first_;
  std::uint8_t zero_ = 0;
};

inline const DynamicMap& dynamic_map(bool is_signed) {
  static const DynamicMap with_sign(true), without_sign(false);
  return is_signed ? with_sign : without_sign;
}

}  // namespace ikebana::detail
