#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/value_names.hpp>

namespace ikebana::detail::exported {

IKEBANA_INLINE ValueNames::ValueNames(const ProgramParts& parts)
    : of(parts.graph.values.size()),
      weights(parts.weights.all().size()),
      inputs(parts.inputs.named.tensors().size()) {
  using Kind = RecordedValue::Kind;
  for (ValueId id = 0; id < of.size(); ++id) {
    const RecordedValue& value = parts.graph.values[id].recorded;
    if (value.kind == Kind::Weight) weights[value.index] = id;
    if (value.kind == Kind::Input) inputs[value.index] = id;
    if (value.kind == Kind::Constant) constants.push_back(id);
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const NamedWeight& weight = parts.weights.all()[i];
    of[weights[i]] = all.add_input((weight.is_parameter ? "p_" : "b_") + weight.name);
  }
  for (const ValueId id : constants)
    of[id] = all.add_input("c_" + constant_name(parts.graph.values[id].recorded.index));
  std::size_t next = 0;
  parts.inputs.named.each_leaf([&](const Nested& leaf, std::string path) {
    if (path.ends_with("]")) path.pop_back();
    leaves.push_back({all.add_input(path), leaf.kind == Nested::Kind::Tensor});
    if (leaves.back().is_tensor) of[inputs[next++]] = leaves.back().name;
  });
}

}  // namespace ikebana::detail::exported
