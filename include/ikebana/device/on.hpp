#pragma once
#include <ikebana/hooks.hpp>

namespace ikebana {

/// The device that the model is moved to and trained on: `On{torch::kCUDA}`. Left out, it is where
/// the model's parameters are.
struct On {
  c10::Device device;
};

template <>
struct Mechanism<On> : Hooks {
  On values;
  explicit Mechanism(On v) : values(v) {}
  std::string describe() const { return values.device.str(); }
};

}  // namespace ikebana
