#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/lamb.hpp>

namespace ikebana::detail {

/// Returns norm / norm of the change, or 1 if one of them is 0.
inline double trust_ratio(double norm, double of_change) {
  return norm > 0 && of_change > 0 ? norm / of_change : 1;
}

inline at::Tensor trust_ratio(const at::Tensor& norm, const at::Tensor& of_change) {
  return at::where(norm.gt(0).logical_and_(of_change.gt(0)), norm / of_change, 1);
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Mechanism<LAMB>::Mechanism(LAMB v)
    : ByOperators(std::move(v), {{"exp_avg"}, {"exp_avg_sq"}}) {
  needs_whole_ = updates_cut_ = true;  // the norms are of whole parameters
  check_values();
}

IKEBANA_INLINE void Mechanism<LAMB>::update(const Masters&, StepGradients& gradients) {
  if (ranks_ != nullptr) return update_slices(gradients);
  update_each(gradients, [&](const ParameterUpdate& update) {
    add_to_moments(update);
    update.with_lr_and_step([&](const auto& lr, const auto& step) {
      const at::Tensor change = next_change(update, step);
      const auto norm = detail::as_number(at::linalg_vector_norm(update.parameter()), lr),
                 of_change = detail::as_number(at::linalg_vector_norm(change), lr);
      detail::subtract_scaled(update.parameter(), change,
                              lr * detail::trust_ratio(norm, of_change));
    });
  });
}

IKEBANA_INLINE void Mechanism<LAMB>::add_to_moments(const ParameterUpdate& update) const {
  const at::Tensor& g = signed_gradient(update);
  update.state(0).lerp_(g, 1 - update.betas()[0]);
  update.state(1).mul_(update.betas()[1]).addcmul_(g, g, 1 - update.betas()[1]);
}

IKEBANA_INLINE void Mechanism<LAMB>::update_slices(const StepGradients& gradients) {
  auto squared_norm = [](const at::Tensor& t) {
    return at::linalg_vector_norm(t).to(at::kDouble).square();
  };
  update_cut(gradients, [&](std::vector<CutParameter>& all) {
    if (all.empty()) return;
    const auto count = std::ssize(all);
    std::vector<at::Tensor> sums = {at::zeros({count, 2}, all[0].options().dtype(at::kDouble))};
    for (std::int64_t k = 0; k < count; ++k)
      all[static_cast<std::size_t>(k)].read([&](const ParameterUpdate& update) {
        add_to_moments(update);
        update.with_lr_and_step([&](const auto&, const auto& step) {
          sums[0][k][0].copy_(squared_norm(update.parameter()));
          sums[0][k][1].copy_(squared_norm(next_change(update, step)));
        });
      });
    ranks_->sum(sums);
    const at::Tensor norms = sums[0].sqrt();
    for (std::int64_t k = 0; k < count; ++k)
      all[static_cast<std::size_t>(k)].write([&](const ParameterUpdate& update) {
        update.with_lr_and_step([&](const auto& lr, const auto& step) {
          const auto ratio = detail::trust_ratio(detail::as_number(norms[k][0], lr),
                                                 detail::as_number(norms[k][1], lr));
          detail::subtract_scaled(update.parameter(), next_change(update, step), lr * ratio);
        });
      });
  });
}

}  // namespace ikebana
