#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/adadelta.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Adadelta>::Mechanism(Adadelta v)
    : ElementsByOperators(std::move(v), {{"square_avg"}, {"acc_delta"}}) {
  check_values();
}

IKEBANA_INLINE std::string Mechanism<Adadelta>::describe() const {
  return detail::named_values("lr", values.lr, "rho", values.rho, "eps", values.eps, "weight_decay",
                              values.weight_decay) +
         flags();
}

IKEBANA_INLINE void Mechanism<Adadelta>::check_values() const {
  check_rate(), check_eps();
  check(values.rho >= 0 && values.rho <= 1,
        [&] { return "rho is " + c10::str(values.rho) + "; it must lie in [0, 1]."; });
}

IKEBANA_INLINE void Mechanism<Adadelta>::update(const Masters& masters, StepGradients& gradients) {
  ElementsByOperators::update(masters, gradients);
}

}  // namespace ikebana
