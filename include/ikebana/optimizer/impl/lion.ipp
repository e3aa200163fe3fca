#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/lion.hpp>

namespace ikebana::detail {

/// Updates one parameter on any device by LibTorch's operators.
inline void lion_by_operators(const ParameterUpdate& update, const Lion& v) {
  const at::Tensor &p = update.parameter(), &m = update.state(0), &g = update.gradient();
  at::Tensor direction = update.scratch.like(p);
  if (v.maximize) g.neg_();
  at::lerp_out(direction, m, g, 1 - update.betas()[0]).sign_();
  m.lerp_(g, 1 - update.betas()[1]);
  direction.add_(m, 0);  // makes it NaN if the gradient was not finite, because the sign of NaN is
                         // 0
  update.with_lr_and_step([&](const auto& lr, const auto&) {
    if (update.weight_decay() != 0) p.mul_(1 - lr * update.weight_decay());
    subtract_scaled(p, direction, lr);
  });
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Mechanism<Lion>::Mechanism(Lion v)
    : PerParameterOptimizer(std::move(v), {{"exp_avg"}}) {
  check_values();
}

IKEBANA_INLINE void Mechanism<Lion>::update(const Masters&, StepGradients& gradients) {
  update_each(gradients, [&](const ParameterUpdate& update) {
    if (update.on_device) return detail::lion_by_operators(update, values);
    detail::dispatch_dtype(update.parameter().scalar_type(),
                           [&]<class T>(T) { detail::lion_on_cpu<T>(update, values); });
  });
}

IKEBANA_INLINE std::string Mechanism<Lion>::describe() const {
  return "lr=" + c10::str(values.lr) + ", betas=(" + c10::str(values.betas[0]) + ", " +
         c10::str(values.betas[1]) + "), weight_decay=" + c10::str(values.weight_decay) +
         (values.maximize ? ", maximize" : "");
}

}  // namespace ikebana
