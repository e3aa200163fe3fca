#pragma once
// Defines Precision<FP32>, the default.
#include <ikebana/precision/finite_loss.hpp>

namespace ikebana {

/// Computes in the dtype of the weights. It is the default and costs nothing.
template <>
struct Precision<FP32> {};

template <>
struct Mechanism<Precision<FP32>> : detail::FiniteLoss {
  using carries_out = Precision<FP32>;
  Precision<FP32> values;
  explicit Mechanism(Precision<FP32> v) : values(v) {}

  void attach(c10::Device device, const UnitTable& table);
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/fp32.ipp>
#endif
