#pragma once
#include <ikebana/hooks.hpp>

namespace ikebana {

/// No weight is masked. Costs nothing.
template <>
struct Prune<Off> {};
template <>
struct Mechanism<Prune<Off>> : Hooks {
  Prune<Off> values;
  explicit Mechanism(Prune<Off> v) : values(v) {}
};

}  // namespace ikebana
