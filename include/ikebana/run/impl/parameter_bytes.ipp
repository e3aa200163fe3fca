#pragma once
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/run/parameter_bytes.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t StorageBytes::add(const at::Tensor& t) {
  if (!t.defined() || !t.has_storage() || is_away(t) || t.is_meta()) return 0;
  if (!seen_.insert(t.storage().unsafeGetStorageImpl()).second) return 0;
  return static_cast<std::int64_t>(t.storage().nbytes());
}

IKEBANA_INLINE std::int64_t uncounted_bytes(const UnitTable& table) {
  std::int64_t bytes = 0;
  for (const Unit& unit : table.units())
    for (const at::Tensor& t : unit.parameters) bytes += bridge::uncounted_bytes(t);
  for (const at::Tensor& t : each_once(table.units()[0].module->buffers()))
    bytes += bridge::uncounted_bytes(t);
  return bytes;
}

}  // namespace ikebana::detail
