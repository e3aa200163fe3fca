#pragma once
#include <ikebana/clip/grad_norm.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE std::string Mechanism<GradNorm>::describe() const {
  return values.error_if_nonfinite ? "" : "skips a norm that is not finite";
}

}  // namespace ikebana
