#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/model/matched_names.hpp>
#include <ikebana/precision/low_precision_weights.hpp>
#include <string_view>

namespace ikebana {

IKEBANA_INLINE bool biases_and_norms(const std::string& name, const at::Tensor& parameter) {
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  return parameter.dim() <= 1 && !last.starts_with("bias_ih_l") && !last.starts_with("bias_hh_l");
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE void LowPrecisionWeights::choose(const UnitTable& table,
                                                const ParameterRule& keep_fp32) {
  if (!keep_fp32)
    throw BadValue(
        "Precision: keep_fp32 is empty. Give it a rule (name, parameter) -> bool, or leave the "
        "default.");
  check_matches("Precision: keep_fp32 matches", keep_fp32, parameter_names(table),
                ". Correct it, or leave the default.");
  rule_ = keep_fp32;
  units_.clear();
  for (const Unit& unit : table.units()) {
    auto& chosen = units_.emplace_back();
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const at::Tensor& p = unit.parameters[i];
      chosen.types.push_back(p.scalar_type());
      chosen.low.push_back(is_float(p.scalar_type()) &&
                           !holds_for(keep_fp32, unit.names[i], unit.other_names[i], p));
    }
  }
}

IKEBANA_INLINE void LowPrecisionWeights::check_rule(const ParameterRule& keep_fp32) const {
  check_unchanged(keep_fp32.is(rule_), "Precision: keep_fp32");
}

IKEBANA_INLINE bool LowPrecisionWeights::is_float(at::ScalarType type) {
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

IKEBANA_INLINE bool LowPrecisionWeights::is_low(const Unit& unit, std::size_t i,
                                                std::size_t count) const {
  const auto& low = units_[unit.index].low;
  return low.size() != count || low[i];
}

IKEBANA_INLINE at::ScalarType LowPrecisionWeights::original_dtype(const Unit& unit, std::size_t i,
                                                                  std::size_t count) const {
  const auto& types = units_[unit.index].types;
  return types.size() == count ? types[i] : at::kFloat;
}

}  // namespace ikebana::detail
