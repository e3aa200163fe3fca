#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensors.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string tensor_text(const at::Tensor& t) {
  if (!t.defined()) return "(undefined)";
  return std::string(c10::toString(t.scalar_type())) + c10::str(t.sizes()) + " on " +
         t.device().str();
}

}  // namespace ikebana::detail
