#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/libtorch/libtorch_state.hpp>

namespace ikebana::detail {

IKEBANA_INLINE torch::optim::OptimizerOptions& base_of(torch::optim::OptimizerOptions& options) {
  return options;
}

IKEBANA_INLINE const torch::optim::OptimizerOptions& base_of(
    const torch::optim::OptimizerOptions& options) {
  return options;
}

IKEBANA_INLINE torch::optim::OptimizerParamState& base_of(
    torch::optim::OptimizerParamState& state) {
  return state;
}

IKEBANA_INLINE const torch::optim::OptimizerParamState& base_of(
    const torch::optim::OptimizerParamState& state) {
  return state;
}

IKEBANA_INLINE bool is_saved_number(const c10::IValue& v) {
  return v.isInt() || v.isDouble() || v.isBool();
}

IKEBANA_INLINE c10::IValue loaded_number(const at::Tensor& saved, const c10::IValue& usual) {
  const bool whole = at::isIntegralType(saved.scalar_type(), /*includeBool=*/false);
  TORCH_CHECK(saved.dim() == 0 && (whole || !(usual.isInt() || usual.isBool())), "it is ",
              c10::toString(saved.scalar_type()), saved.sizes(), ", not a whole number");
  if (usual.isBool()) return saved.item<std::int64_t>() != 0;
  if (usual.isInt() || (usual.isNone() && whole)) return saved.item<std::int64_t>();
  return saved.item<double>();
}

IKEBANA_INLINE StateDict saved_within(Archive& archive, const std::string& name) {
  StateDict all;
  const auto [dict, prefix] = archive.saved();
  const std::string start = prefix + name + ".";
  for (auto i = dict.lower_bound(start); i != dict.end() && i->first.starts_with(start); ++i)
    if (const std::string key = i->first.substr(start.size()); key.find('.') == key.npos)
      archive.ignore(name + "." + key), all[key] = i->second;
  return all;
}

}  // namespace ikebana::detail
