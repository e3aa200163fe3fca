#pragma once
#include <algorithm>
#include <ikebana/checkpoint/budget/storages.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool StorageSet::add(const at::Tensor& t) {
  if (!t.defined() || !t.has_storage() || t.storage().nbytes() == 0 || has(t)) return false;
  all_.push_back(
      {t.storage().getWeakStorageImpl(), static_cast<std::int64_t>(t.storage().nbytes())});
  return true;
}

IKEBANA_INLINE void StorageSet::add_all_of(const StorageSet& others) {
  for (const One& one : others.all_)
    if (!has(one.storage._unsafe_get_target())) all_.push_back(one);
}

IKEBANA_INLINE bool StorageSet::has(const at::Tensor& t) const {
  return t.defined() && t.has_storage() && has(t.storage().unsafeGetStorageImpl());
}

IKEBANA_INLINE std::int64_t StorageSet::bytes_beyond(const StorageSet& others) const {
  std::int64_t sum = 0;
  for (const One& one : all_)
    if (!others.has(one.storage._unsafe_get_target())) sum += one.bytes;
  return sum;
}

IKEBANA_INLINE std::int64_t StorageSet::bytes_of(const c10::StorageImpl* storage) const {
  for (const One& one : all_)
    if (one.storage._unsafe_get_target() == storage) return one.bytes;
  return 0;
}

IKEBANA_INLINE bool StorageSet::has(const c10::StorageImpl* storage) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const One& one) { return one.storage._unsafe_get_target() == storage; });
}

IKEBANA_INLINE bool StorageSet::any_is_shared() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const One& one) { return one.storage.use_count() > 1; });
}

}  // namespace ikebana::detail
