#pragma once
// Defines the scales of FP8 tensors, by which they are multiplied before the cast to fill its
// range.
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/numbers.hpp>
#include <variant>

namespace ikebana {

/// Scales each tensor by its own largest magnitude. Cost: one more pass over each tensor. Source:
/// torchao's tensorwise dynamic scaling.
struct DynamicScaling {
  /// Always true: there are no values.
  bool operator==(const DynamicScaling&) const = default;
};

/// Scales by the largest magnitude of the last `amax_history_len` steps, so that no product waits
/// for the magnitude of its own tensor. Larger values saturate; a factor of 2^`margin` of the range
/// is left free. In the first step, and for tensors that were zero in all these steps, it scales as
/// DynamicScaling does. Fields and defaults as Transformer Engine's DelayedScaling.
struct DelayedScaling {
  std::int64_t amax_history_len = 1024;  ///< steps whose magnitudes count
  double margin = 0;                     ///< powers of two of the range that are left free

  /// Compares both fields.
  bool operator==(const DelayedScaling&) const = default;
};

namespace detail {

/// The three tensors of a linear layer that are cast to FP8.
enum class FP8Role : std::int64_t { Input, Weight, Gradient };

at::ScalarType fp8_type(FP8Role role);
/// Returns the largest finite value: 448 in E4M3, 57344 in E5M2.
inline double fp8_max(FP8Role role) { return role == FP8Role::Gradient ? 57344 : 448; }

/// An FP8 tensor, the scale by which it was multiplied, and the inverse of that scale.
struct Quantized {
  at::Tensor values, inverse, scale;
};
/// Casts values by the scale. Values beyond the range saturate, whereas a plain cast makes them
/// NaN. NaN stays NaN.
Quantized quantize(const at::Tensor& x, const at::Tensor& scale, FP8Role role);

/// The scales of all layers, one per tensor. The history of DelayedScaling is on the device; new
/// scales are made from it at the end of each step.
class FP8Scales {
 public:
  using Scaling = std::variant<DynamicScaling, DelayedScaling>;

  FP8Scales(const Scaling& scaling, std::int64_t layers, c10::Device device);

  /// Returns `x` (FP32) in FP8. With `record`, later scales take its magnitude into account.
  Quantized quantized(std::int64_t layer, FP8Role role, const at::Tensor& x, bool record);
  /// Adds the step's largest magnitudes to the history if they are finite. A tensor that was
  /// recorded twice, as in a recompute, counts once.
  void end_step() noexcept;
  void abort() noexcept;
  void state(Archive& archive);
  template <class Visit>
  void each_number(const Visit& visit) const {
    if (delayed())
      for (const auto* t : {&latest_, &amax_, &scale_, &max_}) visit(*t);
  }

 private:
  bool delayed() const { return history_.defined(); }
  /// A scale is 0 if the history has no magnitude above 0.
  void make_scales() noexcept;

  at::Tensor history_, latest_;    // the largest magnitudes of past steps, and of the present one
  at::Tensor amax_, scale_, max_;  // the values, by layer and role
  at::Tensor position_;  // the row of the oldest step in history_; the host does not read it
};

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/fp8_scaling.ipp>
#endif
