#pragma once
// By which numbers tensors are multiplied before they become FP8, so that they fill its range.
#include <array>
#include <ikebana/hooks.hpp>
#include <variant>

namespace ikebana {

/// Scales from the present tensor's largest magnitude: exact range, one more pass over each tensor.
/// Source: torchao's tensorwise dynamic scaling.
struct DynamicScaling {};

/// Scales from the largest magnitude of the last `amax_history_len` steps, so that a product waits
/// for nothing; what is larger saturates. 2^`margin` is left free above. The first step, and what
/// was zero throughout, is scaled as by DynamicScaling. Fields and defaults as Transformer Engine's
/// DelayedScaling.
struct DelayedScaling {
  std::int64_t amax_history_len = 1024;
  double margin = 0;
};

namespace detail {

/// The three tensors of a linear layer that become FP8.
enum class FP8Role : std::int64_t { Input, Weight, Gradient };

inline at::ScalarType fp8_type(FP8Role role) {
  return role == FP8Role::Gradient ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
}
/// The largest finite number: E4M3 448, E5M2 57344.
inline double fp8_max(FP8Role role) { return role == FP8Role::Gradient ? 57344 : 448; }

/// An FP8 tensor, what it is to be multiplied by to get back, and what it was multiplied by.
struct Quantized {
  at::Tensor values, inverse, scale;
};
/// What lies outside saturates, where a plain cast would make NaN of it; NaN stays NaN.
inline Quantized quantize(const at::Tensor& x, const at::Tensor& scale, FP8Role role) {
  double max = fp8_max(role);
  return {(x * scale).clamp_(-max, max).to(fp8_type(role)), scale.reciprocal(), scale};
}

/// The scales of all layers, one a tensor: where a history is kept, it lives in two tensors of the
/// device and is made use of once a step.
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
    double room = std::exp2(-delayed->margin);
    max_ = at::tensor({448 * room, 448 * room, 57344 * room}, options);
  }

  /// `x` (FP32) in FP8. `record`: it is one of the tensors that later scales are made from.
  Quantized quantized(std::int64_t layer, FP8Role role, const at::Tensor& x, bool record) {
    at::Tensor now = at::linalg_vector_norm(x, std::numeric_limits<double>::infinity());
    at::Tensor scale = now.clamp_min(1e-12).reciprocal() * fp8_max(role);
    if (!delayed()) return quantize(x, scale, role);
    auto slot = [&](const at::Tensor& t) { return t[layer][static_cast<std::int64_t>(role)]; };
    if (record) slot(latest_).copy_(at::maximum(slot(latest_), now));
    at::Tensor known = slot(scale_);
    return quantize(x, at::where(known > 0, known, scale), role);
  }
  /// A step is over: its largest magnitudes join the history, but for those that are not finite.
  /// The same tensor seen twice, as in a recompute, is seen once.
  void end_step() noexcept {
    if (!delayed()) return;
    history_[position_].copy_(latest_.nan_to_num_(0, 0, 0));
    position_ = (position_ + 1) % history_.size(0);
    latest_.zero_();
    make_scales();
  }
  void abort() noexcept {
    if (delayed()) latest_.zero_();
  }
  void state(Archive& archive) {
    if (!delayed()) return;
    archive.tensor("amax_history", history_);
    archive.number("position", position_);
    if (archive.loading()) make_scales();
  }

 private:
  bool delayed() const { return history_.defined(); }
  /// 0 where the history says nothing.
  void make_scales() noexcept {
    at::amax_out(amax_, history_, {0});
    at::div_out(scale_, max_, amax_).nan_to_num_(0, 0, 0);
  }

  at::Tensor history_, latest_;     // largest magnitudes: of steps, and of the present one
  at::Tensor amax_, scale_, max_;  // by layer and role
  std::int64_t position_ = 0;       // of the oldest step in the history
};

}  // namespace detail
}  // namespace ikebana
