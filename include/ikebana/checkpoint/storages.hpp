#pragma once
// Sets of memory blocks, each counted once.
#include <algorithm>
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana::detail {

/// The storages of tensors. Does not keep their memory; an address is that of one storage as long
/// as this exists. A template for the same reason as Frame.
template <class = void>
class StorageSet {
 public:
  /// False where it is there already, or the tensor has no memory.
  bool add(const at::Tensor& t) {
    if (!t.defined() || !t.has_storage() || t.storage().nbytes() == 0 || has(t)) return false;
    all_.push_back(
        {t.storage().getWeakStorageImpl(), static_cast<std::int64_t>(t.storage().nbytes())});
    return true;
  }
  template <class Tensors>
  void add_all(const Tensors& tensors) {
    for (const at::Tensor& t : tensors) add(t);
  }
  void add_all_of(const StorageSet& others) {
    for (const One& one : others.all_)
      if (!has(one.storage._unsafe_get_target())) all_.push_back(one);
  }
  bool has(const at::Tensor& t) const {
    return t.defined() && t.has_storage() && has(t.storage().unsafeGetStorageImpl());
  }
  /// The bytes of those that are not in `others`.
  std::int64_t bytes_beyond(const StorageSet& others) const {
    std::int64_t sum = 0;
    for (const One& one : all_)
      if (!others.has(one.storage._unsafe_get_target())) sum += one.bytes;
    return sum;
  }
  std::int64_t bytes() const { return bytes_beyond({}); }
  std::int64_t bytes_of(const c10::StorageImpl* storage) const {
    for (const One& one : all_)
      if (one.storage._unsafe_get_target() == storage) return one.bytes;
    return 0;
  }
  bool has(const c10::StorageImpl* storage) const {
    return std::any_of(all_.begin(), all_.end(),
                       [&](const One& one) { return one.storage._unsafe_get_target() == storage; });
  }
  /// True where something besides one tensor keeps one of them.
  bool any_is_shared() const {
    return std::any_of(all_.begin(), all_.end(),
                       [](const One& one) { return one.storage.use_count() > 1; });
  }
  std::size_t size() const { return all_.size(); }

 private:
  struct One {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::int64_t bytes;
  };

  std::vector<One> all_;
};

}  // namespace ikebana::detail
