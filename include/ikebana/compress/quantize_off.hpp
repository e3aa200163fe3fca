#pragma once
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Weights compute in the numbers of Precision. Costs nothing.
template <>
struct Quantize<Off> {};
template <>
struct Mechanism<Quantize<Off>> : Hooks {
  Quantize<Off> values;
  explicit Mechanism(Quantize<Off> v) : values(v) {}
};

}  // namespace ikebana
