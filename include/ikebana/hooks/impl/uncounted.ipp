#pragma once
#include <ikebana/bridge/memory.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/hooks/uncounted.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t uncounted_bytes(const UnitTable& table) {
  std::int64_t bytes = 0;
  for (const Unit& unit : table.units())
    for (const at::Tensor& t : unit.parameters) bytes += bridge::uncounted_bytes(t);
  for (const at::Tensor& t : each_once(table.units()[0].module->buffers()))
    bytes += bridge::uncounted_bytes(t);
  return bytes;
}

}  // namespace ikebana::detail
