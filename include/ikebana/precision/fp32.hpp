#pragma once
// Precision<FP32>, the default.
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
};

}  // namespace ikebana
