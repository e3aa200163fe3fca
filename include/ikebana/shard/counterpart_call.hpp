#pragma once
// An operator that is called on other tensors than its own, to see what it returns.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/shard/tape.hpp>

namespace ikebana::detail {

/// One call, with a counterpart in place of each tensor: a meta tensor, or one with the values that
/// the tape makes. Two that share memory have counterparts that do, so that views are known as
/// such. Throws what the operator throws. A template for the same reason as Tape.
template <class = void>
class CounterpartCall {
 public:
  using Storages = typename Tape<>::Storages;

  /// On meta tensors.
  CounterpartCall(Tape<>& tape, const bridge::OperatorCall& call)
      : CounterpartCall(tape, call, nullptr) {}
  /// On tensors with values: `real` has those of all storages of the tape that the call reads.
  CounterpartCall(Tape<>& tape, const bridge::OperatorCall& call, const Storages& real)
      : CounterpartCall(tape, call, &real) {}

  const std::vector<c10::IValue>& results() const { return results_; }
  /// The tensor of the caller for which `result` stands, as of an operator in place; or undefined.
  at::Tensor argument_of(const at::Tensor& result) const {
    for (const Pair& pair : pairs_)
      if (pair.counterpart.is_same(result)) return pair.given;
    return {};
  }
  /// The storage of the caller of which `result` is a view; null: it has memory of its own.
  c10::Storage storage_of(const at::Tensor& result) const {
    for (const Pair& pair : pairs_)
      if (key_of(pair.counterpart) == key_of(result)) return pair.given.storage();
    return {};
  }
  /// Bytes of memory that the operator makes.
  std::size_t new_bytes() const {
    std::size_t bytes = 0;
    visit_all(results_, [&](const at::Tensor& t) {
      if (is_plain(t) && !storage_of(t)) bytes += t.storage().nbytes();
    });
    return bytes;
  }
  /// Gives the caller's tensors the layouts that an operator such as `t_` gave to their
  /// counterparts. False where it gave one another storage.
  bool pass_layouts() const {
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

 private:
  struct Pair {
    at::Tensor given, counterpart;
  };
  CounterpartCall(Tape<>& tape, const bridge::OperatorCall& call, const Storages* real)
      : tape_(tape), real_(real) {
    const auto& arguments = call.schema().arguments();
    torch::jit::Stack stack;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      stack.push_back(counterpart_of(arguments[i].name(), call.arguments()[i]));
    call.compute_on(stack);
    const std::size_t n = call.schema().returns().size();
    results_.assign(stack.end() - static_cast<std::ptrdiff_t>(n), stack.end());
  }
  c10::IValue counterpart_of(const std::string& name, const c10::IValue& value) {
    if (real_ == nullptr) {
      if (name == "device") return c10::Device(at::kMeta);
      if (name == "pin_memory" || value.isGenerator()) return {};
    }
    return with_tensors(value, [&](const at::Tensor& t) { return counterpart_of(t); });
  }
  at::Tensor counterpart_of(const at::Tensor& t) {
    for (const Pair& pair : pairs_)
      if (pair.given.is_same(t)) return pair.counterpart;
    return pairs_.emplace_back(Pair{t, tensor_over(counterpart_storage(t), t)}).counterpart;
  }
  const c10::Storage& counterpart_storage(const at::Tensor& t) {
    c10::Storage& counterpart = counterpart_storages_[key_of(t)];
    if (counterpart) return counterpart;
    const TapeStorage* storage = tape_.find(t);
    if (real_ != nullptr) return counterpart = storage ? real_->at(key_of(t)) : t.storage();
    return counterpart =
               storage ? storage->meta : storage_without_memory(at::kMeta, t.storage().nbytes());
  }

  Tape<>& tape_;
  const Storages* real_;
  std::vector<c10::IValue> results_;
  std::vector<Pair> pairs_;
  std::map<StorageKey, c10::Storage> counterpart_storages_;
};

}  // namespace ikebana::detail
