#pragma once
// Defines the policy ClipGradValue and its mechanism.
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/non_finite.hpp>

namespace ikebana {

/// Clamps each element of every gradient to [-clip_value, clip_value]. `clip_value` has no default
/// and must be positive. It clamps the true gradients: if they must still be divided, by a late
/// count or a loss scale, that costs one more pass. A NaN stays NaN, and an infinite element
/// becomes `clip_value`, as in PyTorch; under FP16 both skip the step. The stored rows of a sparse
/// gradient are clamped, after equal rows were summed. Cost: one pass over the gradients; under
/// FP16 one more, before it, to find an overflow. Several ranks exchange nothing. Source:
/// torch.nn.utils.clip_grad_value_.
struct ClipGradValue {
  double clip_value = 0;  ///< the largest magnitude of an element, above 0
};

template <>
struct Mechanism<ClipGradValue> : ClipHooks {
  using carries_out = ClipGradValue;
  static constexpr bool takes_divisor = true;
  ClipGradValue values;
  explicit Mechanism(ClipGradValue v) : values(v) { check(); }

  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    check();
    for (const at::Tensor& gradient : gradients.values) check_gradient(gradient);
    detail::find_overflow(gradients);
    gradients.apply_divisor();
    gradients.in_windows(/*writes=*/true, [&](const Tensors& some) { clamp(some); });
    gradients.norm_is_current = false, gradients.squared_norm.reset();
  }
  std::string describe() const { return "clip_value=" + c10::str(values.clip_value); }

 private:
  void check() const;
  static void check_gradient(const at::Tensor& gradient);
  /// Clamps in one pass on a CPU, and by few kernels for all gradients on a device.
  void clamp(const Tensors& gradients) const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/clip/impl/clip_grad_value.ipp>
#endif
