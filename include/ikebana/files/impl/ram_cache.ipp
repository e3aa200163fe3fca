#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/files/ram_cache.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool SharedCounts::take(std::int64_t n, std::int64_t max) {
  if (bytes.fetch_add(n) <= max - n) return true;
  bytes -= n;
  ++not_kept;
  return false;
}

}  // namespace ikebana::detail
