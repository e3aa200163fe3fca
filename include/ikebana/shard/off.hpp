#pragma once
#include <ikebana/hooks.hpp>

namespace ikebana {

/// One rank: the whole model is here, and its sums are the total. Costs nothing.
template <>
struct Shard<Off> {};
template <>
struct Mechanism<Shard<Off>> : Hooks {
  Shard<Off> values;
  explicit Mechanism(Shard<Off> v) : values(v) {}
};

}  // namespace ikebana
