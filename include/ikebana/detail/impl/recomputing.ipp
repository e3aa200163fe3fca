#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/recomputing.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool& recomputing() {
  static thread_local bool flag = false;
  return flag;
}

}  // namespace ikebana::detail
