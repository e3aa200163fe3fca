#pragma once
// The base of the precisions with BF16 weights: which parameters are BF16.
#include <ikebana/parameters/matched_names.hpp>
#include <ikebana/precision/autocast.hpp>
#include <string>
#include <string_view>

namespace ikebana {

/// Parameters of at most one dimension, which take few bytes: biases, and the weights of norms,
/// whose kernels on a CPU do not accept BF16 weights with FP32 inputs. But not the biases of
/// torch::nn::RNN, LSTM and GRU, which cuDNN wants in the dtype of their matrices.
inline bool biases_and_norms(const std::string& name, const at::Tensor& parameter) {
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  return parameter.dim() <= 1 && !last.starts_with("bias_ih_l") && !last.starts_with("bias_hh_l");
}

}  // namespace ikebana

namespace ikebana::detail {

/// Autocast to BF16, with parameters of which some are BF16.
struct LowPrecisionWeights : Autocast<at::kBFloat16> {
 protected:
  /// Stores for each unit the dtypes of its parameters, and which of them become BF16. Throws
  /// BadValue if `keep_fp32` is empty, or by name and matches none.
  void choose(const UnitTable& table, const ParameterRule& keep_fp32) {
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
  void check_rule(const ParameterRule& keep_fp32) const {
    check_unchanged(keep_fp32.is(rule_), "Precision: keep_fp32");
  }
  /// True for FP32 and 16-bit dtypes. Doubles are not converted, neither does autocast.
  static bool is_float(at::ScalarType type) {
    return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  }
  /// If Shard has merged or split a unit's parameters, all of its tensors are BF16.
  bool is_low(const Unit& unit, std::size_t i, std::size_t count) const {
    const auto& low = units_[unit.index].low;
    return low.size() != count || low[i];
  }
  at::ScalarType original_dtype(const Unit& unit, std::size_t i, std::size_t count) const {
    const auto& types = units_[unit.index].types;
    return types.size() == count ? types[i] : at::kFloat;
  }

 private:
  struct Chosen {
    std::vector<at::ScalarType> types;
    std::vector<bool> low;
  };
  ParameterRule rule_;  // when the trainer was made
  std::vector<Chosen> units_;
};

}  // namespace ikebana::detail
