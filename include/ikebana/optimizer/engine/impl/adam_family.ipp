#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/adam_family.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void check_adam(const PolicyValues& v) {
  v.check_rate();
  v.check_betas();
  v.check_eps();
}

IKEBANA_INLINE std::string describe_adam(const PolicyValues& v, bool amsgrad, bool maximize) {
  return v.text_of_adam() + (amsgrad ? ", amsgrad" : "") + (maximize ? ", maximize" : "") +
         (v.groups.empty() ? "" : ", groups=" + std::to_string(v.groups.size()));
}

}  // namespace ikebana::detail
