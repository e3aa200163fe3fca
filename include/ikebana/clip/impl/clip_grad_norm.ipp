#pragma once
#include <ikebana/clip/clip_grad_norm.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE std::string Mechanism<ClipGradNorm>::describe() const {
  return "max_norm=" + c10::str(values.max_norm) +
         (values.error_if_nonfinite ? "" : ", skips a norm that is not finite");
}

IKEBANA_INLINE void Mechanism<ClipGradNorm>::check() const {
  if (!(values.max_norm > 0))
    throw BadValue("ClipGradNorm: max_norm is " + c10::str(values.max_norm) +
                   "; it must be positive.");
}

IKEBANA_INLINE at::Tensor Mechanism<ClipGradNorm>::divisor(const at::Tensor& norm) const {
  if (!detail::readable(norm)) return ((norm + 1e-6) / values.max_norm).clamp_min(1);
  if (norm.scalar_type() == at::kFloat) return factor<float>(norm);
  return factor<double>(norm);
}

}  // namespace ikebana
