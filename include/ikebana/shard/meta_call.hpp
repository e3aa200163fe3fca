#pragma once
// An operator that is called on meta tensors: what it would return, without values.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/shard/tape.hpp>

namespace ikebana::detail {

/// One call, with a meta tensor in place of each tensor. Those of the tape keep their storage among
/// meta tensors, so that views are known as such. Throws what the operator throws.
/// A template for the same reason as Tape.
template <class = void>
class MetaCall {
 public:
  MetaCall(Tape<>& tape, const bridge::OperatorCall& call) : tape_(tape) {
    const auto& arguments = call.schema().arguments();
    for (std::size_t i = 0; i < arguments.size(); ++i)
      stack_.push_back(on_meta(arguments[i].name(), call.arguments()[i]));
    call.compute_on(stack_);
    const std::size_t n = call.schema().returns().size();
    results_.assign(stack_.end() - static_cast<std::ptrdiff_t>(n), stack_.end());
  }

  const std::vector<c10::IValue>& results() const { return results_; }
  /// The tensor of the caller for which `result` stands, as of an operator in place; or undefined.
  at::Tensor argument_of(const at::Tensor& result) const {
    for (const Pair& pair : pairs_)
      if (pair.meta.is_same(result)) return pair.given;
    return {};
  }
  /// The storage of the caller of which `result` is a view; null: it has memory of its own.
  c10::Storage storage_of(const at::Tensor& result) const {
    for (const Pair& pair : pairs_)
      if (key_of(pair.meta) == key_of(result)) return pair.given.storage();
    return {};
  }
  /// Bytes of memory that the operator makes.
  std::size_t new_bytes() const {
    std::size_t bytes = 0;
    visit_all(results_, [&](const at::Tensor& t) {
      if (t.is_meta() && is_plain(t) && !storage_of(t)) bytes += t.storage().nbytes();
    });
    return bytes;
  }
  /// Gives the caller's tensors the layouts that an operator such as `t_` gave to those here. False
  /// where it gave one another storage.
  bool pass_layouts() const {
    for (const auto& [given, meta] : pairs_) {
      if (key_of(meta) != meta_storage(given).unsafeGetStorageImpl()) return false;
      if (given.sizes() == meta.sizes() && given.strides() == meta.strides() &&
          given.storage_offset() == meta.storage_offset())
        continue;
      given.unsafeGetTensorImpl()->set_sizes_and_strides(meta.sizes(), meta.strides(),
                                                         meta.storage_offset());
      if (tape_.find(given)) given.storage().set_nbytes(meta.storage().nbytes());
    }
    return true;
  }

 private:
  struct Pair {
    at::Tensor given, meta;
  };
  c10::IValue on_meta(const std::string& name, const c10::IValue& value) {
    if (name == "device") return c10::Device(at::kMeta);
    if (name == "pin_memory" || value.isGenerator()) return {};
    return with_tensors(value, [&](const at::Tensor& t) { return on_meta(t); });
  }
  at::Tensor on_meta(const at::Tensor& t) {
    for (const Pair& pair : pairs_)
      if (pair.given.is_same(t)) return pair.meta;
    return pairs_.emplace_back(Pair{t, tensor_over(meta_storage(t), t)}).meta;
  }
  c10::Storage meta_storage(const at::Tensor& t) const {
    if (const TapeStorage* storage = tape_.find(t)) return storage->meta;
    c10::Storage& meta = others_[key_of(t)];
    if (!meta) meta = storage_without_memory(at::kMeta, t.storage().nbytes());
    return meta;
  }

  Tape<>& tape_;
  torch::jit::Stack stack_;
  std::vector<c10::IValue> results_;
  std::vector<Pair> pairs_;
  mutable std::map<StorageKey, c10::Storage> others_;
};

}  // namespace ikebana::detail
