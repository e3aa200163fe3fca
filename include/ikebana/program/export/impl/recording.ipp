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

IKEBANA_INLINE std::string place_of(const std::string& op, const std::string& module) {
  return "`" + op + "`" + (module.empty() ? "" : " in unit `" + module + "`");
}

/// Calls `f(id)` for each tensor of an operand, which it may change.
template <class F>
void each_id(Operand& operand, F&& f) {
  if (auto* id = std::get_if<ValueId>(&operand)) f(*id);
  else if (auto* list = std::get_if<ValueList>(&operand))
    for (auto& one : *list)
      if (one) f(*one);
}

IKEBANA_INLINE void forget_unused(Recording& recording, ValueList& outputs) {
  using Kind = RecordedValue::Kind;
  std::vector<bool> used(recording.values.size());
  for (std::size_t i = 0; i < used.size(); ++i)
    used[i] = recording.values[i].kind == Kind::Weight || recording.values[i].kind == Kind::Input;
  Operand results = outputs;
  const auto each = [&](auto&& f) {
    for (RecordedNode& node : recording.nodes)
      for (auto* operands : {&node.inputs, &node.outputs})
        for (Operand& operand : *operands) each_id(operand, f);
    each_id(results, f);
  };
  each([&](ValueId& id) { used[id] = true; });
  std::vector<ValueId> renamed(used.size());
  std::vector<RecordedValue> values;
  std::vector<RecordedConstant> constants;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    renamed[i] = values.size();
    values.push_back(std::move(recording.values[i]));
    if (values.back().kind != Kind::Constant) continue;
    constants.push_back(std::move(recording.constants[values.back().index]));
    values.back().index = constants.size() - 1;
  }
  each([&](ValueId& id) { id = renamed[id]; });
  outputs = std::get<ValueList>(results);
  recording.values = std::move(values), recording.constants = std::move(constants);
}

}  // namespace ikebana::detail::exported
