#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/optimizer/engine/scratch.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t Scratch::bytes(std::int64_t elements, at::ScalarType type) {
  constexpr std::int64_t line = 64;
  auto size = static_cast<std::int64_t>(c10::elementSize(type));
  return (elements * size + line - 1) / line * line;
}

IKEBANA_INLINE void Scratch::reserve(std::int64_t bytes, c10::Device device) {
  if (buffer_.defined() && buffer_.device() == device && buffer_.numel() >= bytes) return;
  buffer_.reset();
  buffer_ = at::empty({bytes}, at::TensorOptions(device).dtype(at::kByte));
}

IKEBANA_INLINE at::Tensor Scratch::allocate(at::IntArrayRef sizes, at::ScalarType type) {
  if (recording()) return at::empty(sizes, buffer_.options().dtype(type));
  const auto offset = used_ / static_cast<std::int64_t>(c10::elementSize(type));
  used_ += bytes(c10::multiply_integers(sizes), type);
  return tensor_on(buffer_.storage(), sizes, c10::contiguous_strides(sizes), offset, type);
}

IKEBANA_INLINE double as_number(const at::Tensor& t, double) {
  if (t.scalar_type() == at::kDouble) return *static_cast<const double*>(t.const_data_ptr());
  return number(t);
}

IKEBANA_INLINE at::Tensor bias_correction(double beta, const at::Tensor& step) {
  return at::mul(step, std::log(beta)).expm1_().neg_();
}

IKEBANA_INLINE void subtract_scaled(const at::Tensor& p, const at::Tensor& change, double factor) {
  p.add_(change, -factor);
}

IKEBANA_INLINE void subtract_scaled(const at::Tensor& p, const at::Tensor& change,
                                    const at::Tensor& factor) {
  p.sub_(change.mul_(factor));
}

IKEBANA_INLINE void lerp_inplace(const at::Tensor& p, const at::Tensor& end, double weight) {
  p.lerp_(end, weight);
}

IKEBANA_INLINE void lerp_inplace(const at::Tensor& p, const at::Tensor& end,
                                 const at::Tensor& weight) {
  p.lerp_(end, weight.to(p.scalar_type()));
}

}  // namespace ikebana::detail
