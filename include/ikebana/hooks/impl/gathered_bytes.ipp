#pragma once
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks/gathered_bytes.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t StorageBytes::add(const at::Tensor& t) {
  if (!t.defined() || !t.has_storage() || is_away(t) || t.is_meta()) return 0;
  if (!seen_.insert(t.storage().unsafeGetStorageImpl()).second) return 0;
  return static_cast<std::int64_t>(t.storage().nbytes());
}

}  // namespace ikebana::detail
