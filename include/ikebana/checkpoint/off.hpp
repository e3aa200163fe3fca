#pragma once
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Every activation that backward needs is kept. Costs nothing.
template <>
struct Checkpoint<Off> {};
template <>
struct Mechanism<Checkpoint<Off>> : Hooks {
  Checkpoint<Off> values;
  explicit Mechanism(Checkpoint<Off> v) : values(v) {}
};

}  // namespace ikebana
