#pragma once
// Checks of conditions that only the device knows. On the CPU a condition is checked at once. From
// a device its flag is copied asynchronously and checked when the next step begins. The checks of a
// recorded step are kept for the code that replays it.
#include <deque>
#include <functional>
#include <ikebana/detail/flag_copy.hpp>
#include <ikebana/detail/without_values.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace ikebana::detail {

/// The last parameter of the hook `accept`: raises an error when a flag that the device computed is
/// set, at once on the CPU, and on another device when a later step begins, so that nothing waits.
class DeferredCheck {
 public:
  using Raise = std::function<void()>;
  /// A check of a recorded step. After that step, and after each replay of it, the caller must call
  /// `raise()` if `flag` is not 0.
  struct Recorded {
    at::Tensor flag;
    Raise raise;
  };

  /// Calls `raise`, which throws, if `flag` (one element) is not 0.
  template <class F>
  void expect_zero(const at::Tensor& flag, F&& raise) {
    const std::optional<bool> is_set = known(flag);
    if (!is_set) add(flag, std::forward<F>(raise));
    else if (*is_set) raise();
  }

  /// Returns the checks of the last step, if it was recorded.
  std::vector<Recorded> take_recorded() { return std::exchange(recorded_, {}); }

  /// Checks the flags of former steps. Call it when a step begins. Waits for the step before the
  /// last one, never for the last one. Unless `alone`, reads no flag earlier, so that all ranks
  /// read it in the same step.
  void check(bool alone = true);
  /// Drops the flags of a step that is undone.
  void undo() noexcept;

 private:
  struct Pending {
    FlagCopy flag;
    Raise raise;
    std::int64_t after_check;  // number of calls of `check` before it
  };
  /// Returns whether the flag is not 0, if the host may read it now. In a step without values no
  /// flag is ever known, and it returns false.
  static std::optional<bool> known(const at::Tensor& flag);
  void add(const at::Tensor& flag, Raise raise);
  /// Copies a flag. Reuses the pinned memory and the event of a flag that was read, because they
  /// cost more than the copy.
  FlagCopy copied(const at::Tensor& flag);

  static constexpr std::size_t most_spare = 4;
  std::int64_t checks_ = 0;
  std::deque<Pending> pending_;
  std::vector<FlagCopy> spare_;
  std::vector<Recorded> recorded_;
};

}  // namespace ikebana::detail

namespace ikebana {
using detail::DeferredCheck;
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/deferred_check.ipp>
#endif
