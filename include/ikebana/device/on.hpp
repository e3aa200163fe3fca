#pragma once
// Defines the policy On{device} and its mechanism.
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <string>

namespace ikebana {

namespace detail {

/// A c10::Device that is also made from a name in the code, as Python's torch.device.
class DeviceByName {
 public:
  DeviceByName(c10::Device device) : device_(device) {}
  DeviceByName(c10::DeviceType type) : device_(type) {}
  DeviceByName(const char* name) : device_(named(name)) {}
  DeviceByName(const std::string& name) : device_(named(name)) {}
  operator c10::Device() const { return device_; }
  c10::DeviceType type() const { return device_.type(); }
  c10::DeviceIndex index() const { return device_.index(); }
  bool is_cpu() const { return device_.is_cpu(); }
  bool is_cuda() const { return device_.is_cuda(); }
  std::string str() const { return device_.str(); }
  friend bool operator==(const DeviceByName&, const DeviceByName&) = default;
  friend bool operator==(const DeviceByName& a, const c10::Device& b) { return a.device_ == b; }

 private:
  static c10::Device named(const std::string& name);

  c10::Device device_;
};

}  // namespace detail

/// Moves the model to a device and trains it there: `On{torch::kCUDA}`, or by name, `On{"cuda:1"}`.
/// By default, the model is trained on the device of its parameters. Throws BadValue for a name
/// that LibTorch does not know.
struct On {
  detail::DeviceByName device;  ///< fixed when the trainer is made
};

template <>
struct Mechanism<On> : DeviceHooks {
  using carries_out = On;
  On values;
  explicit Mechanism(On v) : values(v), device_(v.device) {}
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    detail::check_unchanged(c10::Device(values.device) == device_, "On: device");
  }
  std::string describe() const { return values.device.str(); }

 private:
  c10::Device device_;  // the value when the trainer was made
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/device/impl/on.ipp>
#endif
