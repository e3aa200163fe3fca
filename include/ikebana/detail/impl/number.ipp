#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/without_values.hpp>
#include <limits>

namespace ikebana {

IKEBANA_INLINE bool readable(const at::Tensor& t) {
  return detail::on_host(t) && (!detail::without_values() || t.numel() == 1);
}

namespace detail {

IKEBANA_INLINE double number_on_host(const at::Tensor& t) {
  // Uses the untyped pointer, because from clang 18 on the typed function has another symbol than
  // in the wheel, which g++ compiled.
  if (t.scalar_type() == at::kFloat) return *static_cast<const float*>(t.const_data_ptr());
  if (t.scalar_type() == at::kDouble) return *static_cast<const double*>(t.const_data_ptr());
  if (t.scalar_type() == at::kLong)
    return static_cast<double>(*static_cast<const std::int64_t*>(t.const_data_ptr()));
  return t.item<double>();
}

IKEBANA_INLINE double number(const at::Tensor& t) {
  return readable(t) ? number_on_host(t) : t.item<double>();
}

IKEBANA_INLINE bool fits(double number, at::ScalarType type) {
  const double size = std::abs(number);
  double smallest = 0x1p-149, largest = std::numeric_limits<float>::max();
  if (type == at::kDouble) smallest = 0x1p-1074, largest = std::numeric_limits<double>::max();
  if (type == at::kHalf) smallest = 0x1p-24, largest = 65504;
  if (type == at::kBFloat16) smallest = 0x1p-133;
  return size == 0 || (size >= smallest && size <= largest);
}

IKEBANA_INLINE at::Tensor scalar(double number, at::ScalarType type, c10::Device device) {
  if (device.is_cpu() && !recording())
    return at::detail::scalar_tensor_static(number, type, device);
  return at::scalar_tensor(number, at::dtype(type).device(device));
}

}  // namespace detail
}  // namespace ikebana
