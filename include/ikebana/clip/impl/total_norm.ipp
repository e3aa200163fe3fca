#pragma once
#include <ikebana/clip/gradient_layout.hpp>
#include <ikebana/clip/total_norm.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/hooks/non_finite.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void NormOfAll::accept_norm(StepGradients& gradients, DeferredCheck& deferred,
                                           bool is_error) {
  const at::Tensor norm = std::exchange(checked_, {});
  if (!norm.defined() || gradients.protocol.loss_is_scaled) return;
  if (readable(norm) && std::isfinite(number(norm))) return;
  const auto raise = [name = name_, which = std::exchange(culprit_, {})] {
    throw NonFinite(std::string(name) + ": the norm of the gradients is not finite" + which +
                    "; nothing was updated. Lower the learning rate, or skip such steps: "
                    ".error_if_nonfinite = false.");
  };
  if (is_error && gradients.checks_later(norm)) return gradients.protocol.finite.add({norm}, raise);
  at::Tensor flag = non_finite_flag(gradients, norm);
  gradients.reject(flag);
  if (is_error) deferred.expect_zero(flag, raise);
}

IKEBANA_INLINE const at::Tensor& NormOfAll::compute(StepGradients& gradients, bool is_whole,
                                                    Sum over_slices, bool is_error) {
  if (!gradients.norm.defined() || !gradients.norm_is_current)
    set_norm(gradients, is_whole, over_slices);
  const at::Tensor& norm = gradients.norm;
  checked_ = norm;  // a later policy may clamp values that are not finite
  const bool must_name = norm.defined() && is_error && !gradients.protocol.loss_is_scaled &&
                         readable(norm) && !std::isfinite(number(norm));
  culprit_ = must_name ? culprit(gradients) : "";
  return norm;
}

IKEBANA_INLINE void NormOfAll::set_norm(StepGradients& gradients, bool is_whole,
                                        Sum over_slices) const {
  at::Tensor norm;
  if (is_whole) norm = norm_of_all(gradients);
  else if (gradients.squared_norm.defined()) norm = gradients.squared_norm.sqrt();
  else norm = over_slices(squared_of_slices(gradients)).sqrt();
  if (norm.defined() && gradients.divisor.defined()) norm = norm / gradients.divisor;
  gradients.norm = std::move(norm);
  gradients.norm_is_current = true;
}

IKEBANA_INLINE Tensors NormOfAll::elements_of_all(const Tensors& gradients) const {
  Tensors all;
  for (const at::Tensor& gradient : gradients) {
    check_layout(name_, gradient);
    all.push_back(elements_of(gradient));
  }
  return all;
}

IKEBANA_INLINE at::Tensor NormOfAll::norm_of_all(const StepGradients& all) const {
  const bool any_sparse =
      std::any_of(all.values.begin(), all.values.end(),
                  [](const at::Tensor& gradient) { return gradient.layout() != at::kStrided; });
  if (any_sparse) return norm_of(elements_of_all(all.values), all.protocol.storage);
  return norm_of(all.values, all.protocol.storage);
}

IKEBANA_INLINE at::Tensor NormOfAll::squared_of_slices(const StepGradients& gradients) const {
  const at::Tensor norm = norm_of_all(gradients);
  bool wide = false;
  for (const at::Tensor& master : masters_->values) wide |= master.scalar_type() == at::kDouble;
  const at::ScalarType type = wide ? at::kDouble : at::kFloat;
  if (norm.defined()) return norm.square().to(type);
  return at::zeros({}, masters_->values[0].options().dtype(type).requires_grad(false));
}

IKEBANA_INLINE at::Tensor NormOfAll::norm_of(const Tensors& gradients, StateStorage* storage) {
  if (gradients.empty()) return {};
  Tensors norms;
  for_windows(storage, gradients, /*writes=*/false, [&](const Tensors& window) {
    Tensors some = at::_foreach_norm(window, 2);
    if (norms.empty()) norms = std::move(some);
    else norms.insert(norms.end(), some.begin(), some.end());
  });
  at::Tensor norm = at::linalg_vector_norm(stacked(norms), 2);
  const bool wide = norm.scalar_type() == at::kFloat || norm.scalar_type() == at::kDouble;
  return wide ? norm : norm.to(at::kFloat);
}

IKEBANA_INLINE at::Tensor NormOfAll::stacked(const Tensors& norms) {
  c10::SmallVector<float, 64> all;
  for (const at::Tensor& norm : norms) {
    if (!readable(norm) || norm.scalar_type() != at::kFloat) return at::stack(norms);
    all.push_back(static_cast<float>(number(norm)));
  }
  return at::tensor(c10::ArrayRef<float>(all));
}

IKEBANA_INLINE std::string NormOfAll::culprit(const StepGradients& gradients) const {
  for (std::size_t k = 0; k < gradients.values.size(); ++k) {
    if (elements_of(gradients.values[k]).isfinite().all().item<bool>()) continue;
    return masters_ ? ", nor is the gradient of `" + masters_->names[gradients.indices[k]] + "`"
                    : "";
  }
  if (gradients.squared_norm.defined())  // it is over all ranks
    return ", although each gradient of this rank is: another rank's is not, or it overflows";
  return ", although every gradient is: it overflows";
}

}  // namespace ikebana::detail
