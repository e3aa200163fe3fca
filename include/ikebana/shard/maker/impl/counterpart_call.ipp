#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/maker/counterpart_call.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor CounterpartCall::argument_of(const at::Tensor& result) const {
  for (const Pair& pair : pairs_)
    if (pair.counterpart.is_same(result)) return pair.given;
  return {};
}

IKEBANA_INLINE c10::Storage CounterpartCall::storage_of(const at::Tensor& result) const {
  for (const Pair& pair : pairs_)
    if (key_of(pair.counterpart) == key_of(result)) return pair.given.storage();
  return {};
}

IKEBANA_INLINE std::size_t CounterpartCall::new_bytes() const {
  std::size_t bytes = 0;
  visit_all(results_, [&](const at::Tensor& t) {
    if (is_plain(t) && !storage_of(t)) bytes += t.storage().nbytes();
  });
  return bytes;
}

IKEBANA_INLINE bool CounterpartCall::pass_layouts() const {
  for (const auto& [given, counterpart] : pairs_) {
    if (key_of(counterpart) != counterpart_storages_.at(key_of(given)).unsafeGetStorageImpl())
      return false;
    if (given.sizes() == counterpart.sizes() && given.strides() == counterpart.strides() &&
        given.storage_offset() == counterpart.storage_offset())
      continue;
    given.unsafeGetTensorImpl()->set_sizes_and_strides(counterpart.sizes(), counterpart.strides(),
                                                       counterpart.storage_offset());
    if (TapeStorage* storage = tape_.find(given)) {
      storage->shown.set_nbytes(counterpart.storage().nbytes());
      storage->meta.set_nbytes(counterpart.storage().nbytes());
    }
  }
  return true;
}

IKEBANA_INLINE CounterpartCall::CounterpartCall(Tape& tape, const bridge::OperatorCall& call,
                                                const Storages* real)
    : tape_(tape), real_(real) {
  const auto& arguments = call.schema().arguments();
  torch::jit::Stack stack;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    stack.push_back(counterpart_of(arguments[i].name(), call.arguments()[i]));
  call.compute_on(stack);
  const std::size_t n = call.schema().returns().size();
  results_.assign(stack.end() - static_cast<std::ptrdiff_t>(n), stack.end());
}

IKEBANA_INLINE c10::IValue CounterpartCall::counterpart_of(const std::string& name,
                                                           const c10::IValue& value) {
  if (real_ == nullptr) {
    if (name == "device") return c10::Device(at::kMeta);
    if (name == "pin_memory" || value.isGenerator()) return {};
  }
  return with_tensors(value, [&](const at::Tensor& t) { return counterpart_of(t); });
}

IKEBANA_INLINE at::Tensor CounterpartCall::counterpart_of(const at::Tensor& t) {
  for (const Pair& pair : pairs_)
    if (pair.given.is_same(t)) return pair.counterpart;
  return pairs_.emplace_back(Pair{t, tensor_over(counterpart_storage(t), t)}).counterpart;
}

IKEBANA_INLINE const c10::Storage& CounterpartCall::counterpart_storage(const at::Tensor& t) {
  c10::Storage& counterpart = counterpart_storages_[key_of(t)];
  if (counterpart) return counterpart;
  const TapeStorage* storage = tape_.find(t);
  if (real_ != nullptr) return counterpart = storage ? real_->at(key_of(t)) : t.storage();
  return counterpart =
             storage ? storage->meta : storage_without_memory(at::kMeta, t.storage().nbytes());
}

}  // namespace ikebana::detail
