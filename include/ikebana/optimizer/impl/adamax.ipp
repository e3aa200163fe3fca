#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/adamax.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Adamax>::Mechanism(Adamax v)
    : ElementsByOperators(std::move(v), {{"exp_avg"}, {"exp_inf"}}) {
  check_values();
}

IKEBANA_INLINE void Mechanism<Adamax>::update(const Masters& masters, StepGradients& gradients) {
  ElementsByOperators::update(masters, gradients);
}

}  // namespace ikebana
