#pragma once
// The null choice of the axes whose words take no parameter: clip, average, device, and so on.
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Nothing answers this axis, and nothing happens. Costs nothing.
template <class Axis>
struct Without {};
template <class Axis>
struct Mechanism<Without<Axis>> : Hooks {
  Without<Axis> values;
  explicit Mechanism(Without<Axis> v) : values(v) {}
};

}  // namespace ikebana
