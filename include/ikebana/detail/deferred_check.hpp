#pragma once
// Conditions that only the device knows. On the CPU they are checked at once; from a device the
// flag is copied asynchronously and checked when the next step begins; those of a step that is
// recorded are kept for what replays it.
#include <deque>
#include <functional>
#include <ikebana/detail/flag_copy.hpp>
#include <ikebana/detail/without_values.hpp>
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
    const Now now = now_of(flag);
    if (now == Now::NotZero) raise();
    else if (now == Now::NotKnown) add(flag, std::forward<F>(raise));
  }

  /// The checks of the last step, if it was recorded.
  std::vector<Recorded> take_recorded() { return std::exchange(recorded_, {}); }

  /// Called when a step begins. Waits for the step before the last one, never for the last one.
  /// Unless `alone`, no flag is read earlier than that, so that all ranks read it in the same step.
  void check(bool alone = true);
  /// The step is undone: its flags say nothing of what is there now.
  void undo() noexcept;

 private:
  struct Pending {
    FlagCopy flag;
    Raise raise;
    std::int64_t after_check;  // how many there were before it
  };
  enum class Now { Zero, NotZero, NotKnown };
  /// Zero in a step without values, whose flags are never known.
  static Now now_of(const at::Tensor& flag);
  void add(const at::Tensor& flag, Raise raise);
  /// Pinned memory and an event cost more than the copy: those that are read are used again.
  FlagCopy copied(const at::Tensor& flag);

  static constexpr std::size_t most_spare = 4;
  std::int64_t checks_ = 0;
  std::deque<Pending> pending_;
  std::vector<FlagCopy> spare_;
  std::vector<Recorded> recorded_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/deferred_check.ipp>
#endif
