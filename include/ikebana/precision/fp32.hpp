#pragma once
// Precision<FP32>, the default.
#include <ikebana/bridge/cpu_products.hpp>
#include <ikebana/precision/finite_loss.hpp>

namespace ikebana {

/// Computes in the dtype of the weights. The default; costs nothing.
template <>
struct Precision<FP32> {};

template <std::same_as<Precision<FP32>> Policy>
struct Mechanism<Policy> : detail::FiniteLoss {
  using carries_out = Precision<FP32>;
  Precision<FP32> values;
  explicit Mechanism(Precision<FP32> v) : values(v) {}

  void attach(c10::Device device, const UnitTable& table) {
    if (!device.is_cpu()) return;
    for (const Unit& unit : table.units())
      for (const at::Tensor& p : unit.parameters)
        if (!bridge::has_native_products(p.scalar_type()))
          return detail::warn_of_slow_products(p.scalar_type());
  }
};

}  // namespace ikebana
