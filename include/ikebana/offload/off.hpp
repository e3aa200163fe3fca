#pragma once
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Everything rests where it computes. Costs nothing.
template <>
struct Offload<Off> {};
template <>
struct Mechanism<Offload<Off>> : Hooks {
  Offload<Off> values;
  explicit Mechanism(Offload<Off> v) : values(v) {}
};

}  // namespace ikebana
