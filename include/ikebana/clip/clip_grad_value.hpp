#pragma once
// The policy ClipGradValue and its mechanism.
#include <ikebana/clip/layout.hpp>
#include <ikebana/hooks/non_finite.hpp>

namespace ikebana {

/// Clamps each element of every gradient to [-clip_value, clip_value]. `clip_value` has no default
/// and must be positive. It clamps the true gradients: where they are still to be divided, by a
/// late count or a loss scale, that costs a pass more. A NaN stays NaN, and an infinite element
/// becomes `clip_value`, as in PyTorch; under FP16 both skip the step. The stored rows of a sparse
/// gradient are clamped, after equal rows were summed. Cost: one pass over the gradients; under
/// FP16 one more, which finds an overflow before. Several ranks exchange nothing. Source:
/// torch.nn.utils.clip_grad_value_.
struct ClipGradValue {
  double clip_value = 0;  ///< the largest magnitude of an element, above 0
};

template <std::same_as<ClipGradValue> Policy>
struct Mechanism<Policy> : ClipHooks {
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
  void check() const {
    if (values.clip_value == 0)
      throw BadValue(
          "ClipGradValue: clip_value is not given. Write ClipGradValue{.clip_value = 1}.");
    if (!(values.clip_value > 0))
      throw BadValue("ClipGradValue: clip_value is " + c10::str(values.clip_value) +
                     "; it must be positive.");
  }
  static void check_gradient(const at::Tensor& gradient) {
    detail::check_layout("ClipGradValue", gradient);
    if (gradient.is_complex())
      throw BadModel("ClipGradValue: a gradient of shape " + c10::str(gradient.sizes()) +
                     " is complex, and complex numbers have no order. Use ClipGradNorm.");
  }
  /// One pass on a CPU, and on a device few kernels for all of them.
  void clamp(const Tensors& gradients) const {
    Tensors elements;
    for (const at::Tensor& gradient : gradients) {
      elements.push_back(elements_of(gradient));
      if (gradient.is_cpu()) elements.back().clamp_(-values.clip_value, values.clip_value);
    }
    if (elements.empty() || elements[0].is_cpu()) return;
    at::_foreach_clamp_min_(elements, -values.clip_value);
    at::_foreach_clamp_max_(elements, values.clip_value);
  }
};

}  // namespace ikebana
