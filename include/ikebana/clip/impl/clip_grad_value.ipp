#pragma once
#include <ikebana/clip/clip_grad_value.hpp>
#include <ikebana/clip/gradient_layout.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<ClipGradValue>::check() const {
  if (values.clip_value == 0)
    throw BadValue("ClipGradValue: clip_value is not given. Write ClipGradValue{.clip_value = 1}.");
  if (!(values.clip_value > 0))
    throw BadValue("ClipGradValue: clip_value is " + c10::str(values.clip_value) +
                   "; it must be positive.");
}

IKEBANA_INLINE void Mechanism<ClipGradValue>::check_gradient(const at::Tensor& gradient) {
  detail::check_layout("ClipGradValue", gradient);
  if (gradient.is_complex())
    throw BadModel("ClipGradValue: a gradient of shape " + c10::str(gradient.sizes()) +
                   " is complex, and complex numbers have no order. Use ClipGradNorm.");
}

IKEBANA_INLINE void Mechanism<ClipGradValue>::clamp(const Tensors& gradients) const {
  Tensors elements;
  for (const at::Tensor& gradient : gradients) {
    elements.push_back(elements_of(gradient));
    if (gradient.is_cpu()) elements.back().clamp_(-values.clip_value, values.clip_value);
  }
  if (elements.empty() || elements[0].is_cpu()) return;
  at::_foreach_clamp_min_(elements, -values.clip_value);
  at::_foreach_clamp_max_(elements, values.clip_value);
}

}  // namespace ikebana
