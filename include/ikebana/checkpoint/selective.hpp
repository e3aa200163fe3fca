#pragma once
#include <ikebana/checkpoint/operator_rule.hpp>
#include <ikebana/checkpoint/recompute.hpp>

namespace ikebana {

/// Every unit keeps its inputs and the outputs of its costly operators, and computes the others
/// again in backward: most of Checkpoint<Full>'s memory back for a small part of its time. `keep`
/// chooses operators below autograd; by default products of matrices, convolutions and attention.
/// Casts, views, and operators that write into what they are given are computed again whatever the
/// rule says. Changes no bit. Costs a microsecond an operator besides. Source:
/// torch.utils.checkpoint's create_selective_checkpoint_contexts.
template <>
struct Checkpoint<Selective> {
  OperatorRule keep = matrix_operators;
};

template <>
struct Mechanism<Checkpoint<Selective>> : detail::Recomputing {
  Checkpoint<Selective> values;
  explicit Mechanism(Checkpoint<Selective> v) : values(std::move(v)) {
    if (!values.keep)
      throw BadValue(
          "Checkpoint<Selective>: keep is empty. Give a rule, e.g. operators({\"aten::mm\"}), or "
          "leave it out.");
  }

  void attach(c10::Device device, const UnitTable& table) {
    Recomputing::attach(device, table);
    if (!bridge::operator_modes_available())
      throw Error(
          "Checkpoint<Selective>: another library of this process has taken the dispatch key by "
          "which operators are seen. Use Checkpoint<Full>, or load one version of ikebana.");
  }
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, const Next& next, Args&&... args) {
    return in_own_frame(&values.keep, unit, next, std::forward<Args>(args)...);
  }
  std::string describe() const {
    using Default = bool (*)(const bridge::OperatorCall&);
    const auto* rule = values.keep.target<Default>();
    return rule && *rule == matrix_operators ? "keeps products of matrices, convolutions, attention"
                                             : "keeps operators by a rule of its own";
  }
};

}  // namespace ikebana
