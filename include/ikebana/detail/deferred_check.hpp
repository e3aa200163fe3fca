#pragma once
// Conditions that only the device knows. On the CPU they are checked at once; from a device the
// flag is copied asynchronously and checked when the next step begins; those of a step that is
// recorded are kept for what replays it.
#include <deque>
#include <functional>
#include <ikebana/detail/flag_copy.hpp>
#include <utility>
#include <vector>

namespace ikebana::detail {

/// Raises an error when a flag computed on the device is set: at once on the CPU, one step later on
/// another device.
class DeferredCheck {
 public:
  using Raise = std::function<void()>;
  /// A check of a recorded step. After that step, and after each replay of it, `raise()` is to be
  /// called where `flag` is not 0.
  struct Recorded {
    at::Tensor flag;
    Raise raise;
  };

  /// `raise` throws; it is called when `flag` (one element) is not 0.
  template <class F>
  void expect_zero(const at::Tensor& flag, F&& raise) {
    if (readable(flag)) {
      if (number_on_host(flag) != 0) raise();
      return;
    }
    if (recording()) return void(recorded_.push_back({flag, std::forward<F>(raise)}));
    pending_.push_back({FlagCopy(flag), std::forward<F>(raise)});
  }

  /// The checks of the last step, if it was recorded.
  std::vector<Recorded> take_recorded() { return std::exchange(recorded_, {}); }

  /// Called when a step begins. Waits for the step before the last one, never for the last one.
  /// Unless `alone`, no flag is read earlier than that, so that all ranks read it in the same step.
  void check(bool alone = true) {
    recorded_.clear();
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
  std::vector<Recorded> recorded_;
};

}  // namespace ikebana::detail
