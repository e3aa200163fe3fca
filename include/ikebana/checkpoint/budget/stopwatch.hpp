#pragma once
#include <chrono>
#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/without_values.hpp>

namespace ikebana::detail {

/// Measures nanoseconds. Waits for the device, which only measured steps do. What is computed
/// without values takes no time.
class Stopwatch {
 public:
  explicit Stopwatch(c10::Device device) : device_(device), begin_(now()) {}
  std::int64_t nanoseconds() const { return now() - begin_; }

 private:
  std::int64_t now() const {
    if (without_values()) return 0;
    bridge::synchronize(device_);
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
  }

  c10::Device device_;
  std::int64_t begin_;
};

}  // namespace ikebana::detail
