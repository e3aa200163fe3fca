#pragma once
// Conditions that only the device knows. On the CPU they are checked at once; from a device the
// flag is copied asynchronously and checked when the next step begins.
#include <deque>
#include <functional>
#include <ikebana/detail/number.hpp>

namespace ikebana::detail {

/// Raises an error when a flag computed on the device is set: at once on the CPU, one step later on
/// another device.
class DeferredCheck {
 public:
  using Raise = std::function<void()>;

  /// `raise` throws; it is called when `flag` (one element) is not 0.
  template <class F>
  void expect_zero(const at::Tensor& flag, F&& raise) {
    if (readable(flag)) {
      if (number(flag) != 0) raise();
      return;
    }
    auto host = at::empty({}, flag.options().device(at::kCPU).pinned_memory(true));
    host.copy_(flag, /*non_blocking=*/true);
    c10::Event arrived(flag.device().type());
    arrived.recordOnce(c10::impl::VirtualGuardImpl(flag.device().type()).getStream(flag.device()));
    pending_.push_back({std::move(host), std::move(arrived), std::forward<F>(raise), 0});
  }

  /// Called when a step begins. Waits for the step before the last one, never for the last one.
  void check() {
    while (!pending_.empty()) {
      Pending& oldest = pending_.front();
      if (!oldest.arrived.query()) {
        if (oldest.age++ == 0) return;
        oldest.arrived.synchronize();
      }
      Pending arrived = std::move(oldest);
      pending_.pop_front();
      if (number(arrived.flag) != 0) arrived.raise();
    }
  }

 private:
  struct Pending {
    at::Tensor flag;
    c10::Event arrived;
    Raise raise;
    int age;
  };
  std::deque<Pending> pending_;
};

}  // namespace ikebana::detail
