#pragma once
#include <ikebana/precision/autocast.hpp>

namespace ikebana {

/// Everything in the numbers of the weights. The default; costs nothing.
template <>
struct Precision<FP32> {};

template <>
struct Mechanism<Precision<FP32>> : Hooks {
  Precision<FP32> values;
  explicit Mechanism(Precision<FP32> v) : values(v) {}

  template <class Ranks>
  void accept(StepGradients& gradients, const at::Tensor& loss, Ranks& ranks,
              detail::Later& later) {
    detail::accept_finite(gradients, loss, ranks, later);
  }
};

}  // namespace ikebana
