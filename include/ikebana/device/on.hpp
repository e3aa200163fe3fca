#pragma once
// The policy On{device} and its mechanism.
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Moves the model to a device and trains it there: `On{torch::kCUDA}`. By default, the model is
/// trained on the device of its parameters.
struct On {
  c10::Device device;  ///< fixed when the trainer is made
};

template <std::same_as<On> Policy>
struct Mechanism<Policy> : DeviceHooks {
  using carries_out = On;
  On values;
  explicit Mechanism(On v) : values(v), device_(v.device) {}
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    detail::check_unchanged(values.device == device_, "On: device");
  }
  std::string describe() const { return values.device.str(); }

 private:
  c10::Device device_;  // when the trainer was made
};

}  // namespace ikebana
