#pragma once
// One-element tensors as numbers.
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// True where the elements of a tensor can be read without waiting for a device.
inline bool readable(const at::Tensor& t) { return t.device().is_cpu(); }

/// The value of a one-element tensor. Waits for its device; dispatches no operator for a float on
/// the CPU.
inline double number(const at::Tensor& t) {
  // By the untyped pointer: from clang 18 on, the typed function has another symbol than in the
  // wheel, which g++ compiled.
  if (readable(t) && t.scalar_type() == at::kFloat)
    return *static_cast<const float*>(t.const_data_ptr());
  return t.item<double>();
}

/// A number as a tensor without dimensions. Dispatches no operator on the CPU.
inline at::Tensor scalar(double number, at::ScalarType type, c10::Device device) {
  if (device.is_cpu()) return at::detail::scalar_tensor_static(number, type, device);
  return at::scalar_tensor(number, at::dtype(type).device(device));
}

}  // namespace ikebana::detail
