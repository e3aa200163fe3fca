#pragma once
// The policy On{device} and its mechanism.
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Moves the model to a device and trains it there: `On{torch::kCUDA}`. By default, the model is
/// trained on the device of its parameters.
struct On {
  c10::Device device;
};

template <std::same_as<On> Policy>
struct Mechanism<Policy> : DeviceHooks {
  On values;
  explicit Mechanism(On v) : values(v) {}
  std::string describe() const { return values.device.str(); }
};

}  // namespace ikebana
