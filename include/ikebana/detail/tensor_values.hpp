#pragma once
// Makes tensors over given memory, or over no memory, and visits tensors among the arguments and
// results of operators.
#include <algorithm>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <string>

namespace ikebana::detail {

using StorageKey = c10::StorageImpl*;
inline StorageKey key_of(const at::Tensor& t) { return t.storage().unsafeGetStorageImpl(); }

/// Returns whether two tensors are over one storage. Does not ask for the data pointer, as
/// `is_alias_of` does, because a tensor without memory refuses that.
bool same_storage(const at::Tensor& a, const at::Tensor& b);

/// Returns the name of an operator, such as `aten::normal_` or `aten::add_.Tensor`.
std::string name_of(const c10::OperatorHandle& op);

/// Returns `value` with each tensor `t` replaced by `f(t)`.
template <class F>
c10::IValue with_tensors(const c10::IValue& value, F&& f) {
  auto one = [&](const at::Tensor& t) { return t.defined() ? at::Tensor(f(t)) : t; };
  if (value.isTensor()) return one(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(one(t));
    return list;
  }
  if (!value.isOptionalTensorList()) return value;
  c10::List<std::optional<at::Tensor>> list;
  for (const std::optional<at::Tensor>& t : value.toOptionalTensorList().vec())
    list.push_back(t ? std::optional<at::Tensor>(one(*t)) : t);
  return list;
}
/// Calls `f(t)` for each tensor in `value`, also for undefined ones. An element `none` beside
/// tensors counts as one.
template <class F>
void visit_with_undefined(const c10::IValue& value, F&& f) {
  if (value.isTensor()) return f(value.toTensor());
  if (!value.isList()) return;
  const auto list = value.toListRef();
  if (std::any_of(list.begin(), list.end(), [](const auto& element) { return element.isTensor(); }))
    for (const c10::IValue& element : list)
      f(element.isTensor() ? element.toTensor() : at::Tensor());
}
/// Calls `f(t)` for each defined tensor in `value`.
template <class F>
void visit_tensors(const c10::IValue& value, F&& f) {
  visit_with_undefined(value, [&](const at::Tensor& t) {
    if (t.defined()) f(t);
  });
}
template <class F>
void visit_all(c10::ArrayRef<c10::IValue> values, F&& f) {
  for (const c10::IValue& value : values) visit_tensors(value, f);
}

/// Returns whether a tensor is only elements in memory, so that `tensor_over` can make it.
bool is_plain(const at::Tensor& t);
/// Makes a tensor over a storage. Calls no operator.
at::Tensor tensor_on(c10::Storage storage, at::IntArrayRef sizes, at::IntArrayRef strides,
                     std::int64_t offset, at::ScalarType type);
/// Makes a tensor over a storage, with the dtype and the layout of `like`.
at::Tensor tensor_over(const c10::Storage& storage, const at::Tensor& like);
/// Makes a storage of so many bytes that has no memory.
c10::Storage storage_without_memory(c10::Device device, std::size_t bytes);
/// Sets the error of operators that would read or write the storage.
void set_error(const c10::Storage& storage, const std::string& text);

/// Makes a tensor on the CPU over `memory`, which `owner` keeps as long as the tensor's storage
/// exists. `at::from_blob` does so as well, but ends the process if it cannot allocate its own
/// data; this function throws.
at::Tensor tensor_over(void* memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                       at::ScalarType type, std::shared_ptr<void> owner);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/tensor_values.ipp>
#endif
