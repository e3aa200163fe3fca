#pragma once
// What the precisions with BF16 weights share: which parameters those are. By default biases and
// the weights of norms are not: few bytes, and LibTorch's norms on a CPU refuse BF16 weights next
// to FP32 inputs.
#include <ikebana/parameters/rule.hpp>
#include <ikebana/precision/autocast.hpp>

namespace ikebana::detail {

/// Autocast to BF16 around parameters of which some are BF16 themselves.
struct LowWeights : Autocast<at::kBFloat16> {
 protected:
  /// Notes for each unit which type its parameters have, and which of them are to be BF16.
  void choose(const UnitTable& table, const ParameterRule& keep) {
    if (!keep)
      throw BadValue(
          "Precision: keep_fp32 is empty. Give it a rule (name, parameter) -> bool, or leave the "
          "default.");
    units_.clear();
    for (const Unit& unit : table.units()) {
      auto& chosen = units_.emplace_back();
      for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
        const at::Tensor& p = unit.parameters[i];
        chosen.types.push_back(p.scalar_type());
        chosen.low.push_back(is_float(p.scalar_type()) && !keep(unit.names[i], p));
      }
    }
  }
  /// FP32, and what it may be made of; doubles are left alone, as autocast leaves them.
  static bool is_float(at::ScalarType type) {
    return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  }
  /// Shard may have made other tensors of a unit's parameters: then all of them are BF16.
  bool is_low(const Unit& unit, std::size_t i, std::size_t count) const {
    const auto& low = units_[unit.index].low;
    return low.size() != count || low[i];
  }
  at::ScalarType former_type(const Unit& unit, std::size_t i, std::size_t count) const {
    const auto& types = units_[unit.index].types;
    return types.size() == count ? types[i] : at::kFloat;
  }

 private:
  struct Chosen {
    std::vector<at::ScalarType> types;
    std::vector<bool> low;
  };
  std::vector<Chosen> units_;
};

}  // namespace ikebana::detail
