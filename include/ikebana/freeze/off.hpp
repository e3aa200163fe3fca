#pragma once
#include <ikebana/hooks.hpp>

namespace ikebana {

/// What requires a gradient gets one. Costs nothing.
template <>
struct Freeze<Off> {};
template <>
struct Mechanism<Freeze<Off>> : Hooks {
  Freeze<Off> values;
  explicit Mechanism(Freeze<Off> v) : values(v) {}
};

}  // namespace ikebana
