#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/recording.hpp>

namespace ikebana::detail::exported {

IKEBANA_INLINE TensorFacts TensorFacts::of(const at::Tensor& t) {
  TensorFacts facts;
  facts.sizes = t.sizes().vec();
  facts.dtype = t.scalar_type(), facts.layout = t.layout(), facts.device = t.device();
  if (t.layout() == c10::Layout::Strided) facts.strides = t.strides().vec();
  return facts;
}

IKEBANA_INLINE bool TensorFacts::is_like(const TensorFacts& other) const {
  return sizes.size() == other.sizes.size() && dtype == other.dtype && layout == other.layout &&
         device == other.device;
}

IKEBANA_INLINE std::string name_of(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

IKEBANA_INLINE std::string place_of(const std::string& op, const std::string& module) {
  return "`" + op + "`" + (module.empty() ? "" : " in unit `" + module + "`");
}

}  // namespace ikebana::detail::exported
