#pragma once
#include <algorithm>
#include <array>
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/operator_facts.hpp>

namespace ikebana::detail::exported {

IKEBANA_INLINE bool only_writes(std::string_view op) {
  constexpr std::array<std::string_view, 9> names{
      "aten::fill_",   "aten::zero_", "aten::copy_",   "aten::normal_",     "aten::uniform_",
      "aten::random_", "aten::set_",  "aten::resize_", "aten::exponential_"};
  return std::ranges::any_of(names, [&](auto name) { return op == name; });
}
IKEBANA_INLINE bool only_looks(std::string_view op) {
  return op.find("_like") != op.npos || op.starts_with("aten::new_");
}
IKEBANA_INLINE bool reads_on_host(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 5> names{"aten::item", "aten::_local_scalar_dense",
                                                  "aten::is_nonzero", "aten::equal",
                                                  "aten::allclose"};
  return op.hasTag(at::Tag::data_dependent_output) ||
         std::ranges::find(names, op.operator_name().name) != names.end();
}
inline bool is_mask(const c10::IValue& index) {
  return index.isTensor() && index.toTensor().defined() &&
         (index.toTensor().scalar_type() == at::kBool ||
          index.toTensor().scalar_type() == at::kByte);
}
IKEBANA_INLINE bool sizes_by_values(const c10::OperatorHandle& op,
                                    c10::ArrayRef<const c10::IValue> arguments) {
  if (!op.hasTag(at::Tag::dynamic_output_shape)) return false;
  if (op.operator_name().name != "aten::index") return true;
  for (const c10::IValue& index : arguments[1].toListRef())
    if (is_mask(index)) return true;
  return false;
}
IKEBANA_INLINE bool is_tensors(const c10::IValue& value) {
  if (value.isTensorList()) return true;
  return value.isList() && !value.toListRef().empty() &&
         std::ranges::any_of(value.toListRef(), [](const auto& one) { return one.isTensor(); });
}
IKEBANA_INLINE void write_defaults(RecordedNode& node, const std::vector<RecordedValue>& values) {
  const auto& schema = node.op.schema().arguments();
  bool has_tensors = false;
  for (const Operand& input : node.inputs) each_value(input, [&](ValueId) { has_tensors = true; });
  const auto* made = node.outputs.size() == 1 ? std::get_if<ValueId>(&node.outputs[0]) : nullptr;
  for (std::size_t i = 0; i < schema.size(); ++i) {
    auto* value = std::get_if<c10::IValue>(&node.inputs[i]);
    if (value == nullptr) continue;
    if (value->isIntList() && schema[i].N() && value->toIntList().size() == 1)
      *value = std::vector<std::int64_t>(static_cast<std::size_t>(*schema[i].N()),
                                         value->toIntVector()[0]);
    if (has_tensors || made == nullptr || !value->isNone() || !schema[i].kwarg_only()) continue;
    const TensorFacts& facts = values[*made].facts;
    if (schema[i].name() == "dtype") *value = static_cast<std::int64_t>(facts.dtype);
    if (schema[i].name() == "device") *value = facts.device;
  }
}

}  // namespace ikebana::detail::exported
