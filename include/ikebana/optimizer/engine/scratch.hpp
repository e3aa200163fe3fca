#pragma once
// Defines the scratch memory of an update, and arithmetic on its scalars.
#include <cmath>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// One buffer on one device, cut into tensors. It is allocated in `prepare` and freed when the
/// update ends.
class Scratch {
 public:
  /// Returns the bytes that a tensor of `elements` elements takes: a multiple of a cache line.
  static std::int64_t bytes(std::int64_t elements, at::ScalarType type);
  /// Allocates the buffer, unless there is one that is as large.
  void reserve(std::int64_t bytes, c10::Device device);
  void release() noexcept { buffer_.reset(); }  ///< frees the buffer
  /// Makes the whole buffer available again; tensors cut from it before are invalid.
  void clear() noexcept { used_ = 0; }
  /// Returns a contiguous, uninitialized tensor in the buffer. While a step is recorded, the tensor
  /// has separate memory, which a recording can keep.
  at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType type);
  /// As `allocate`, with the shape and dtype of `t`.
  at::Tensor like(const at::Tensor& t) { return allocate(t.sizes(), t.scalar_type()); }

 private:
  at::Tensor buffer_;
  std::int64_t used_ = 0;
};

// Scalars of an update (lr, step count, norms) are doubles if the host may read them, else tensors
// without dimensions, so that the host does not wait for the device. With these overloads each
// formula is written once for both.

double as_number(const at::Tensor& t, double);
inline at::Tensor as_number(const at::Tensor& t, const at::Tensor&) { return t.to(at::kFloat); }

inline double power(double base, double exponent) { return std::pow(base, exponent); }
inline at::Tensor power(const at::Tensor& base, double exponent) { return base.pow(exponent); }
inline at::Tensor power(double base, const at::Tensor& exponent) { return at::pow(base, exponent); }
/// Returns 1 - beta^step. A tensor is not computed as a difference of two FP32 numbers, which would
/// lose three digits in the first steps.
inline double bias_correction(double beta, double step) { return 1 - std::pow(beta, step); }
at::Tensor bias_correction(double beta, const at::Tensor& step);
/// Converts to Double, for a formula that takes differences of large numbers.
inline double exact(double x) { return x; }
inline at::Tensor exact(const at::Tensor& x) { return x.to(at::kDouble); }
inline double root(double x) { return std::sqrt(x); }
inline at::Tensor root(const at::Tensor& x) { return x.sqrt(); }
inline double smaller(double x, double y) { return std::min(x, y); }
inline at::Tensor smaller(const at::Tensor& x, const at::Tensor& y) { return at::minimum(x, y); }
inline double at_least(double x, double low) { return std::max(x, low); }
inline at::Tensor at_least(const at::Tensor& x, double low) { return x.clamp_min(low); }

/// Computes p -= factor * change. Takes one pass if the factor is a double. If it is a tensor,
/// overwrites `change`.
void subtract_scaled(const at::Tensor& p, const at::Tensor& change, double factor);
void subtract_scaled(const at::Tensor& p, const at::Tensor& change, const at::Tensor& factor);
/// Computes p += weight * (end - p).
void lerp_inplace(const at::Tensor& p, const at::Tensor& end, double weight);
void lerp_inplace(const at::Tensor& p, const at::Tensor& end, const at::Tensor& weight);

}  // namespace ikebana::detail

namespace ikebana {
using detail::Scratch;
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/scratch.ipp>
#endif
