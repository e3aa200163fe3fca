#pragma once
// One-element tensors as numbers.
#include <cmath>
#include <ikebana/detail/recording.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/detail/without_values.hpp>
#include <limits>

namespace ikebana::detail {

/// True where the host computes with the memory of a tensor: on a CPU, unless a step is recorded.
inline bool on_host(const at::Tensor& t) { return t.device().is_cpu() && !recording(); }
/// True where the host may also read and write its elements. While this thread computes without
/// values, those of a tensor of one element alone.
inline bool readable(const at::Tensor& t) {
  return on_host(t) && (!without_values() || t.numel() == 1);
}

/// The value of a one-element tensor on the CPU. Dispatches no operator for a Float, Long or
/// Double.
inline double number_on_host(const at::Tensor& t) {
  // By the untyped pointer: from clang 18 on, the typed function has another symbol than in the
  // wheel, which g++ compiled.
  if (t.scalar_type() == at::kFloat) return *static_cast<const float*>(t.const_data_ptr());
  if (t.scalar_type() == at::kDouble) return *static_cast<const double*>(t.const_data_ptr());
  if (t.scalar_type() == at::kLong)
    return static_cast<double>(*static_cast<const std::int64_t*>(t.const_data_ptr()));
  return t.item<double>();
}
/// The value of a one-element tensor. Waits for its device. While a step is recorded the read is an
/// operator, so that a recording sees it.
inline double number(const at::Tensor& t) {
  return readable(t) ? number_on_host(t) : t.item<double>();
}

/// True where a number is neither infinite nor, unless it is, 0 in a dtype.
inline bool fits(double number, at::ScalarType type) {
  const double size = std::abs(number);
  double smallest = 0x1p-149, largest = std::numeric_limits<float>::max();
  if (type == at::kDouble) smallest = 0x1p-1074, largest = std::numeric_limits<double>::max();
  if (type == at::kHalf) smallest = 0x1p-24, largest = 65504;
  if (type == at::kBFloat16) smallest = 0x1p-133;
  return size == 0 || (size >= smallest && size <= largest);
}

/// A number as a tensor without dimensions. Dispatches no operator on the CPU, except while a step
/// is recorded.
inline at::Tensor scalar(double number, at::ScalarType type, c10::Device device) {
  if (device.is_cpu() && !recording())
    return at::detail::scalar_tensor_static(number, type, device);
  return at::scalar_tensor(number, at::dtype(type).device(device));
}

}  // namespace ikebana::detail
