#pragma once
#include <ikebana/bridge/cpu_products.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/precision/fp32.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Precision<FP32>>::attach(c10::Device device, const UnitTable& table) {
  if (!device.is_cpu()) return;
  for (const Unit& unit : table.units())
    for (const at::Tensor& p : unit.parameters)
      if (!bridge::has_native_products(p.scalar_type()))
        return detail::warn_of_slow_products(p.scalar_type());
}

}  // namespace ikebana
