#pragma once
// Sets of memory blocks, each counted once.
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana::detail {

/// The storages of tensors. Does not keep their memory; an address is that of one storage as long
/// as this exists.
class StorageSet {
 public:
  /// False where it is there already, or the tensor has no memory.
  bool add(const at::Tensor& t);
  template <class Tensors>
  void add_all(const Tensors& tensors) {
    for (const at::Tensor& t : tensors) add(t);
  }
  void add_all_of(const StorageSet& others);
  bool has(const at::Tensor& t) const;
  /// The bytes of those that are not in `others`.
  std::int64_t bytes_beyond(const StorageSet& others) const;
  std::int64_t bytes() const { return bytes_beyond({}); }
  std::int64_t bytes_of(const c10::StorageImpl* storage) const;
  bool has(const c10::StorageImpl* storage) const;
  /// True where something besides one tensor keeps one of them.
  bool any_is_shared() const;
  std::size_t size() const { return all_.size(); }

 private:
  struct One {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::int64_t bytes;
  };

  std::vector<One> all_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/storages.ipp>
#endif
