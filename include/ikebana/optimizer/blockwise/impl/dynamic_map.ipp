#pragma once
#include <bit>
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/blockwise/dynamic_map.hpp>

namespace ikebana::detail {

IKEBANA_INLINE DynamicMap::DynamicMap(bool is_signed) {
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

IKEBANA_INLINE std::uint8_t DynamicMap::code(float x) const {
  std::uint8_t low = lowest_code_[bin(x)];
  return static_cast<std::uint8_t>(low + (x > bounds_[low]));
}

IKEBANA_INLINE std::uint32_t DynamicMap::bin(float x) {
  auto bits = std::bit_cast<std::uint32_t>(x);
  std::uint32_t magnitude = (bits >> 16) & 0x7fff;
  magnitude = std::min(magnitude < min ? 0 : magnitude - min, bins - 1);
  return magnitude + (bits >> 31) * bins;
}

IKEBANA_INLINE void DynamicMap::fill_lookup_table() {
  lowest_code_.resize(2 * bins);
  for (std::uint32_t i = 0; i < bins; ++i) {
    float begin = i == 0 ? 0.0f : std::bit_cast<float>((i + min) << 16);
    float end = std::bit_cast<float>((i + 1 + min) << 16);
    lowest_code_[i] = nearest(begin), lowest_code_[i + bins] = nearest(-end);
  }
}

IKEBANA_INLINE std::uint8_t DynamicMap::nearest(float x) const {
  return static_cast<std::uint8_t>(std::lower_bound(bounds_.begin(), bounds_.end(), x) -
                                   bounds_.begin());
}

IKEBANA_INLINE const DynamicMap& dynamic_map(bool is_signed) {
  static const DynamicMap with_sign(true), without_sign(false);
  return is_signed ? with_sign : without_sign;
}

IKEBANA_INLINE void DeviceMaps::prepare(c10::Device device) {
  if (maps_[0].values.defined() && maps_[0].values.device() == device) return;
  for (bool is_signed : {true, false}) {
    const DynamicMap& map = dynamic_map(is_signed);
    maps_[is_signed ? 0 : 1] = {on_device(map.values(), DynamicMap::size, device),
                                on_device(map.bounds(), DynamicMap::size - 1, device)};
  }
}

IKEBANA_INLINE at::Tensor DeviceMaps::on_device(const std::array<float, DynamicMap::size>& all,
                                                std::int64_t n, c10::Device device) {
  if (device.is_cpu()) return at::from_blob(const_cast<float*>(all.data()), {n}, at::kFloat);
  return at::tensor(at::ArrayRef<float>(all.data(), static_cast<std::size_t>(n)))
      .to(device, /*non_blocking=*/true);
}

}  // namespace ikebana::detail
