#pragma once
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Every step is dispatched anew. Costs nothing.
template <>
struct Capture<Off> {};
template <>
struct Mechanism<Capture<Off>> : Hooks {
  Capture<Off> values;
  explicit Mechanism(Capture<Off> v) : values(v) {}
};

}  // namespace ikebana
