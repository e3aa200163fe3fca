#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/nadam.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<NAdam>::Mechanism(NAdam v)
    : ElementsByOperators(std::move(v),
                          {{"exp_avg"}, {"exp_avg_sq"}, detail::number_slot("mu_product", 1)}) {
  check_values();
}

IKEBANA_INLINE std::string Mechanism<NAdam>::describe() const {
  return detail::named_values("lr", values.lr, "betas", values.betas, "eps", values.eps,
                              "weight_decay", values.weight_decay, "momentum_decay",
                              values.momentum_decay) +
         flags();
}

IKEBANA_INLINE void Mechanism<NAdam>::check_values() const {
  check_rate(), check_betas(), check_eps();
  check_at_least_0(values.momentum_decay, "momentum_decay");
}

IKEBANA_INLINE void Mechanism<NAdam>::update(const Masters& masters, StepGradients& gradients) {
  ElementsByOperators::update(masters, gradients);
}

}  // namespace ikebana
