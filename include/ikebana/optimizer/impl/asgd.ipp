#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/asgd.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<ASGD>::Mechanism(ASGD v)
    : ElementsByOperators(std::move(v), {{"ax"}, detail::number_slot("eta", 0)}) {
  check_values();
}

IKEBANA_INLINE std::string Mechanism<ASGD>::describe() const {
  return detail::named_values("lr", values.lr, "lambd", values.lambd, "alpha", values.alpha, "t0",
                              values.t0, "weight_decay", values.weight_decay) +
         flags();
}

IKEBANA_INLINE void Mechanism<ASGD>::start(const at::Tensor& eta, double lr, double step) {
  if (step == 1) eta.fill_(lr);
}

IKEBANA_INLINE void Mechanism<ASGD>::start(const at::Tensor& eta, const at::Tensor& lr,
                                           const at::Tensor& step) {
  eta.copy_(at::where(step == 1, lr.to(at::kFloat), eta));
}

IKEBANA_INLINE void Mechanism<ASGD>::add_to_average(const at::Tensor& average, const at::Tensor& p,
                                                    double step, at::Tensor spare) const {
  const auto weight = static_cast<float>(step == 1 ? 1 : 1 / std::max(1.0, step - 1 - values.t0));
  if (weight == 1) average.copy_(p);
  else average.add_(at::sub_out(spare, p, average).mul_(double{weight}));
}

IKEBANA_INLINE void Mechanism<ASGD>::add_to_average(const at::Tensor& average, const at::Tensor& p,
                                                    const at::Tensor& step,
                                                    at::Tensor spare) const {
  const at::Tensor weight = (step - (1 + values.t0)).clamp_min(1).reciprocal();
  average.add_(at::sub_out(spare, p, average).mul_(at::where(step == 1, 1, weight)));
}

IKEBANA_INLINE void Mechanism<ASGD>::check_values() const {
  check_rate();
  check(std::isfinite(values.lambd + values.alpha + values.t0), [&] {
    return "lambd is " + c10::str(values.lambd) + ", alpha " + c10::str(values.alpha) + " and t0 " +
           c10::str(values.t0) + "; they must be finite.";
  });
}

IKEBANA_INLINE void Mechanism<ASGD>::update(const Masters& masters, StepGradients& gradients) {
  ElementsByOperators::update(masters, gradients);
}

}  // namespace ikebana
