#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/adagrad.hpp>

namespace ikebana::detail {

inline void adagrad_by_operators(const ParameterUpdate& update, const Adagrad& v) {
  const at::Tensor &p = update.parameter(), &sum = update.state(0), &g = update.gradient();
  at::Tensor root_of_sum = update.scratch.like(p);
  if (v.maximize) g.neg_();
  if (update.weight_decay() != 0) g.add_(p, update.weight_decay());
  sum.addcmul_(g, g);
  at::sqrt_out(root_of_sum, sum).add_(update.eps());
  g.div_(root_of_sum);
  update.with_lr_and_step([&](const auto& lr, const auto& step) {
    subtract_scaled(p, g, lr / (1 + (step - 1) * v.lr_decay));
  });
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Mechanism<Adagrad>::Mechanism(Adagrad v)
    : PerParameterOptimizer(v, {sum_slot(v)}), initial_(v.initial_accumulator_value) {
  check_values();
}

IKEBANA_INLINE void Mechanism<Adagrad>::update(const Masters& masters, StepGradients& gradients) {
  if (is_fused(masters.values[0])) return update_fused(gradients);
  update_each(gradients,
              [&](const ParameterUpdate& update) { detail::adagrad_by_operators(update, values); });
}

IKEBANA_INLINE std::string Mechanism<Adagrad>::describe() const {
  return "lr=" + c10::str(values.lr) + ", lr_decay=" + c10::str(values.lr_decay) +
         ", weight_decay=" + c10::str(values.weight_decay) + ", eps=" + c10::str(values.eps) +
         (initial_ == 0 ? "" : ", initial_accumulator_value=" + c10::str(initial_)) +
         (values.maximize ? ", maximize" : "");
}

IKEBANA_INLINE Slot Mechanism<Adagrad>::sum_slot(const Adagrad& v) {
  return {"sum", [first = v.initial_accumulator_value](const at::Tensor& p, const Slice&) {
            return at::full_like(p, first);
          }};
}

IKEBANA_INLINE void Mechanism<Adagrad>::update_fused(const StepGradients& gradients) noexcept {
  for (auto ready = ready_buckets(gradients); const Bucket& b : ready)
    at::_fused_adagrad_(b.parameters, b.gradients, b.state[0], b.steps, b.lr, values.lr_decay,
                        b.numbers.weight_decay, b.numbers.eps, values.maximize, ready.divisor,
                        ready.found_inf);
}

IKEBANA_INLINE void Mechanism<Adagrad>::check_values() const {
  check_rate();
  const double sum = values.lr_decay + values.eps + values.initial_accumulator_value;
  check(values.lr_decay >= 0 && values.eps >= 0 && values.initial_accumulator_value >= 0 &&
            std::isfinite(sum),
        [&] {
          return "lr_decay is " + c10::str(values.lr_decay) + ", eps " + c10::str(values.eps) +
                 ", initial_accumulator_value " + c10::str(values.initial_accumulator_value) +
                 "; they must be finite and not negative.";
        });
  detail::check_unchanged(values.initial_accumulator_value == initial_,
                          "Adagrad: initial_accumulator_value");
}

}  // namespace ikebana
