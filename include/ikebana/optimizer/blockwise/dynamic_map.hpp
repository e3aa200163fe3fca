#pragma once
// Defines an 8-bit code for values in [-1, 1] or [0, 1]. It is finest near zero, where most moments
// are.
#include <array>
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana::detail {

/// The dynamic tree data type of Dettmers et al., arXiv:2110.02861. It has 256 values: 0, 1, and
/// evenly spaced values in seven decades, in each twice as many as in the decade below. A signed
/// map also has their negatives, and half as many in each decade.
class DynamicMap {
 public:
  static constexpr std::size_t size = 256;

  explicit DynamicMap(bool is_signed);

  float operator[](std::uint8_t code) const { return values_[code]; }
  /// Returns the code of 0.
  std::uint8_t zero() const { return zero_; }
  /// Returns the code of the value nearest to x; the smaller one if two are equally near. |x| may
  /// exceed 1 by rounding errors only.
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
  std::vector<std::uint8_t> lowest_code_;  // the lowest code, by bin
  std::uint8_t zero_ = 0;
};

const DynamicMap& dynamic_map(bool is_signed);

/// The two dynamic maps as tensors on a device.
class DeviceMaps {
 public:
  struct Map {
    at::Tensor values, bounds;  ///< DynamicMap::values and the finite DynamicMap::bounds
  };
  void prepare(c10::Device device);
  template <class Visit>
  void each_number(const Visit& visit) const {
    for (const Map& map : maps_)
      if (map.values.defined()) visit(map.values), visit(map.bounds);
  }
  /// Returns the map of the first moment (0) or the second (1).
  const Map& operator[](std::size_t moment) const { return maps_[moment]; }

 private:
  /// On a CPU, returns the map's own memory and calls no operator, since a recorded step may be the
  /// first that needs it.
  static at::Tensor on_device(const std::array<float, DynamicMap::size>& all, std::int64_t n,
                              c10::Device device);

  std::array<Map, 2> maps_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/blockwise/impl/dynamic_map.ipp>
#endif
