#pragma once
// Conditions that only the device knows. On the CPU they are checked at once; from a device the
// flag is copied asynchronously and checked when the next step begins.
#include <deque>
#include <functional>
#include <ikebana/detail/flag_copy.hpp>

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
    pending_.push_back({FlagCopy(flag), std::forward<F>(raise)});
  }

  /// Called when a step begins. Waits for the step before the last one, never for the last one.
  /// Unless `alone`, no flag is read earlier than that, so that all ranks read it in the same step.
  void check(bool alone = true) {
    while (!pending_.empty()) {
      Pending& oldest = pending_.front();
      if (!(alone && oldest.flag.has_arrived()) && oldest.age++ == 0) return;
      Pending arrived = std::move(oldest);
      pending_.pop_front();
      if (arrived.flag.wait()) arrived.raise();
    }
  }

 private:
  struct Pending {
    FlagCopy flag;
    Raise raise;
    int age = 0;
  };
  std::deque<Pending> pending_;
};

}  // namespace ikebana::detail
