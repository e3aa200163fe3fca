#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks/update.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool rejected(const StepGradients& gradients) {
  return gradients.found_inf.defined() && readable(gradients.found_inf) &&
         number(gradients.found_inf) != 0;
}

}  // namespace ikebana::detail
