#pragma once
#include <cstring>
#include <ikebana/core/policy_checks.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void refuse_cycled_momentum(const std::string& schedule,
                                           const std::string& optimizer) {
  throw BadValue(schedule + ": cycle_momentum is true, and " + optimizer +
                 " has neither momentum nor betas. Write .cycle_momentum = false, or an optimizer "
                 "that has one of them, such as SGD or AdamW.");
}

}  // namespace ikebana::detail
