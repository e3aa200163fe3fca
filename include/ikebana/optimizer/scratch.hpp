#pragma once
// Scratch memory of an update, and arithmetic on its scalars.
#include <cmath>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// One buffer on one device, cut into tensors. It is allocated in `prepare` and freed when the
/// update ends.
class Scratch {
 public:
  /// Bytes that a tensor of so many elements takes: a multiple of a cache line.
  static std::int64_t bytes(std::int64_t elements, at::ScalarType type) {
    constexpr std::int64_t line = 64;
    auto size = static_cast<std::int64_t>(c10::elementSize(type));
    return (elements * size + line - 1) / line * line;
  }
  void reserve(std::int64_t bytes, c10::Device device) {
    if (buffer_.defined() && buffer_.device() == device && buffer_.numel() >= bytes) return;
    buffer_.reset();
    buffer_ = at::empty({bytes}, at::TensorOptions(device).dtype(at::kByte));
  }
  void release() noexcept { buffer_.reset(); }
  /// Makes the whole buffer available again; tensors cut from it before are invalid.
  void clear() noexcept { used_ = 0; }
  /// A contiguous, uninitialized tensor in the buffer; while a step is recorded one of its own,
  /// whose memory a recording can keep.
  at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType type) {
    if (recording()) return at::empty(sizes, buffer_.options().dtype(type));
    const auto offset = used_ / static_cast<std::int64_t>(c10::elementSize(type));
    used_ += bytes(c10::multiply_integers(sizes), type);
    return tensor_on(buffer_.storage(), sizes, c10::contiguous_strides(sizes), offset, type);
  }
  at::Tensor like(const at::Tensor& t) { return allocate(t.sizes(), t.scalar_type()); }

 private:
  at::Tensor buffer_;
  std::int64_t used_ = 0;
};

// Scalars of an update (lr, step count, norms) are doubles where the host may read them, and
// tensors without dimensions elsewhere, so that the host does not wait for the device. With these
// overloads each formula is written once for both.

inline double as_number(const at::Tensor& t, double) {
  if (t.scalar_type() == at::kDouble) return *static_cast<const double*>(t.const_data_ptr());
  return number(t);
}
inline at::Tensor as_number(const at::Tensor& t, const at::Tensor&) { return t.to(at::kFloat); }

inline double power(double base, double exponent) { return std::pow(base, exponent); }
inline at::Tensor power(const at::Tensor& base, double exponent) { return base.pow(exponent); }
inline at::Tensor power(double base, const at::Tensor& exponent) { return at::pow(base, exponent); }
/// 1 - beta^step. As a tensor it is no difference of two FP32 numbers, which would have lost three
/// digits of the first steps.
inline double bias_correction(double beta, double step) { return 1 - std::pow(beta, step); }
inline at::Tensor bias_correction(double beta, const at::Tensor& step) {
  return at::mul(step, std::log(beta)).expm1_().neg_();
}
/// For a formula that takes differences of large numbers.
inline double exact(double x) { return x; }
inline at::Tensor exact(const at::Tensor& x) { return x.to(at::kDouble); }
inline double root(double x) { return std::sqrt(x); }
inline at::Tensor root(const at::Tensor& x) { return x.sqrt(); }
inline double smaller(double x, double y) { return std::min(x, y); }
inline at::Tensor smaller(const at::Tensor& x, const at::Tensor& y) { return at::minimum(x, y); }
inline double at_least(double x, double low) { return std::max(x, low); }
inline at::Tensor at_least(const at::Tensor& x, double low) { return x.clamp_min(low); }

/// p -= factor * change. One pass with a double; with a tensor, `change` is overwritten.
inline void subtract_scaled(const at::Tensor& p, const at::Tensor& change, double factor) {
  p.add_(change, -factor);
}
inline void subtract_scaled(const at::Tensor& p, const at::Tensor& change,
                            const at::Tensor& factor) {
  p.sub_(change.mul_(factor));
}
/// p += weight * (end - p)
inline void lerp_inplace(const at::Tensor& p, const at::Tensor& end, double weight) {
  p.lerp_(end, weight);
}
inline void lerp_inplace(const at::Tensor& p, const at::Tensor& end, const at::Tensor& weight) {
  p.lerp_(end, weight.to(p.scalar_type()));
}

}  // namespace ikebana::detail
