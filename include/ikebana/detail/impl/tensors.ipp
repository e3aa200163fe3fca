#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensors.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string path_of_part(const std::string& path, const std::string& part) {
  const bool has_dot = !path.empty() && !part.empty() && part[0] != '[' && part[0] != '<';
  return path + (has_dot ? "." : "") + part;
}

IKEBANA_INLINE std::string tensor_text(const at::Tensor& t) {
  if (!t.defined()) return "(undefined)";
  return std::string(c10::toString(t.scalar_type())) + c10::str(t.sizes()) + " on " +
         t.device().str();
}

}  // namespace ikebana::detail
