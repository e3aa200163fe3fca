#pragma once
// Reads from schemas and tags of LibTorch's operators which effects they have.
#include <ikebana/program/export/recording.hpp>
#include <string_view>

namespace ikebana::detail::exported {

/// True for operators that replace all values of what they write to, and read none.
bool only_writes(std::string_view op);
/// True for operators that look at the sizes and the dtype of a tensor, not at its values.
bool only_looks(std::string_view op);
/// True for operators that give the host a number or a truth which depends on values.
bool reads_on_host(const c10::OperatorHandle& op);
/// True if the sizes of the result depend on values: the operator says so, and indexing does so
/// only with a mask.
bool sizes_by_values(const c10::OperatorHandle& op, c10::ArrayRef<const c10::IValue> arguments);
/// True for a list with tensors.
bool is_tensors(const c10::IValue& value);
/// Calls `f(tensor)` for each defined tensor of an argument.
template <class F>
void each_tensor(const c10::IValue& value, F&& f) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) f(value.toTensor());
  } else if (is_tensors(value)) {
    for (const c10::IValue& one : value.toListRef())
      if (one.isTensor() && one.toTensor().defined()) f(one.toTensor());
  }
}
/// Writes the dtype and the device of a new tensor into the call that makes it, because defaults
/// may differ where the program runs; and lists of one number, which stand for all dimensions, in
/// full.
void write_defaults(RecordedNode& node, const std::vector<RecordedValue>& values);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/operator_facts.ipp>
#endif
