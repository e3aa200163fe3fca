#pragma once
// Reads the effects of LibTorch's operators from their schemas and tags.
#include <ikebana/program/export/recording.hpp>
#include <string_view>

namespace ikebana::detail::exported {

/// Returns true for operators that replace all values of what they write to, and read nothing of
/// it.
bool only_writes(std::string_view op);
/// Returns true for operators that read the sizes and the dtype of a tensor, but not its values.
bool only_looks(std::string_view op);
/// Returns true for operators that give the host a number or a truth value that depends on values.
bool reads_on_host(const c10::OperatorHandle& op);
/// Returns true if the sizes of the result depend on values. The operator's tags say so, but for
/// indexing this is so only with a mask.
bool sizes_by_values(const c10::OperatorHandle& op, c10::ArrayRef<const c10::IValue> arguments);
/// Returns true for a list with tensors.
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
/// may differ on the machine that runs the program. Writes lists of one number, which stand for all
/// dimensions, in full.
void write_defaults(RecordedNode& node, const std::vector<RecordedValue>& values);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/operator_facts.ipp>
#endif
