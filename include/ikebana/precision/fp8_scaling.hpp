#pragma once
// The scales of FP8 tensors, by which they are multiplied before the cast to fill its range.
#include <array>
#include <ikebana/hooks.hpp>
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
/// is left free. The first step, and tensors that were zero in all these steps, are scaled as with
/// DynamicScaling. Fields and defaults as Transformer Engine's DelayedScaling.
struct DelayedScaling {
  std::int64_t amax_history_len = 1024;  ///< steps whose magnitudes count
  double margin = 0;                     ///< powers of two of the range that are left free

  /// Whether both fields are equal.
  bool operator==(const DelayedScaling&) const = default;
};

namespace detail {

/// The three tensors of a linear layer that are cast to FP8.
enum class FP8Role : std::int64_t { Input, Weight, Gradient };

inline at::ScalarType fp8_type(FP8Role role) {
  return role == FP8Role::Gradient ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
}
/// The largest finite value: 448 in E4M3, 57344 in E5M2.
inline double fp8_max(FP8Role role) { return role == FP8Role::Gradient ? 57344 : 448; }

/// An FP8 tensor, the scale by which it was multiplied, and the inverse of that scale.
struct Quantized {
  at::Tensor values, inverse, scale;
};
/// Values beyond the range saturate, whereas a plain cast makes them NaN; NaN stays NaN.
inline Quantized quantize(const at::Tensor& x, const at::Tensor& scale, FP8Role role) {
  double max = fp8_max(role);
  return {(x * scale).clamp_(-max, max).to(fp8_type(role)), scale.reciprocal(), scale};
}

/// The scales of all layers, one per tensor. The history of DelayedScaling is on the device; new
/// scales are made from it at the end of each step.
class FP8Scales {
 public:
  using Scaling = std::variant<DynamicScaling, DelayedScaling>;

  FP8Scales(const Scaling& scaling, std::int64_t layers, c10::Device device) {
    auto* delayed = std::get_if<DelayedScaling>(&scaling);
    if (!delayed) return;
    auto options = at::TensorOptions(device).dtype(at::kFloat);
    history_ = at::zeros({delayed->amax_history_len, layers, 3}, options);
    latest_ = at::zeros({layers, 3}, options);
    amax_ = at::zeros({layers, 3}, options), scale_ = at::zeros({layers, 3}, options);
    double factor = std::exp2(-delayed->margin);
    max_ = at::tensor({448 * factor, 448 * factor, 57344 * factor}, options);
    position_ = at::zeros({}, options.dtype(at::kLong));
  }

  /// `x` (FP32) in FP8. With `record`, later scales take its magnitude into account.
  Quantized quantized(std::int64_t layer, FP8Role role, const at::Tensor& x, bool record) {
    at::Tensor now = at::linalg_vector_norm(x, std::numeric_limits<double>::infinity());
    at::Tensor scale = now.clamp_min(1e-12).reciprocal() * fp8_max(role);
    if (!delayed()) return quantize(x, scale, role);
    auto slot = [&](const at::Tensor& t) { return t[layer][static_cast<std::int64_t>(role)]; };
    if (record) slot(latest_).copy_(at::maximum(slot(latest_), now));
    at::Tensor known = slot(scale_);
    return quantize(x, at::where(known > 0, known, scale), role);
  }
  /// Adds the step's largest magnitudes to the history, except those that are not finite. A tensor
  /// that was recorded twice, as in a recompute, counts once.
  void end_step() noexcept {
    if (!delayed()) return;
    // Of an index without dimensions CUDA's deterministic form makes a row of another shape.
    history_.index_copy_(0, position_.view({1}), latest_.nan_to_num_(0, 0, 0).unsqueeze(0));
    position_.add_(1).remainder_(history_.size(0));
    latest_.zero_();
    make_scales();
  }
  void abort() noexcept {
    if (delayed()) latest_.zero_();
  }
  void state(Archive& archive) {
    if (!delayed()) return;
    const NumberRange index{0, static_cast<double>(history_.size(0) - 1), true,
                            "an index of amax_history"};
    archive.tensor("amax_history", history_, &factor_range);
    archive.tensor("position", position_, &index);
    if (archive.loading()) make_scales();
  }
  template <class Visit>
  void each_number(const Visit& visit) const {
    if (delayed())
      for (const auto* t : {&latest_, &amax_, &scale_, &max_}) visit(*t);
  }

 private:
  bool delayed() const { return history_.defined(); }
  /// A scale is 0 if the history has no magnitude above 0.
  void make_scales() noexcept {
    at::amax_out(amax_, history_, {0});
    at::div_out(scale_, max_, amax_).nan_to_num_(0, 0, 0);
  }

  at::Tensor history_, latest_;    // largest magnitudes: of past steps, and of the present one
  at::Tensor amax_, scale_, max_;  // by layer and role
  at::Tensor position_;            // of the oldest step in history_; the host need not know it
};

}  // namespace detail
}  // namespace ikebana
