#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/adamax.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Adamax>::Mechanism(Adamax v)
    : ElementsByOperators(std::move(v), {{"exp_avg"}, {"exp_inf"}}) {
  check_values();
}

}  // namespace ikebana
