#pragma once
// Defines the plan of Accumulate<Fit<>>: bytes in use, the number of microbatches, and when it
// tries fewer.
#include <cstdint>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/shared_memory_limit.hpp>
#include <optional>
#include <vector>

namespace ikebana::detail {

/// Measures the bytes that steps use. They are unknown on a device without statistics, and on a CPU
/// whose memory is not counted because it has neither a limit nor a MemoryCounter.
class FitMemory {
 public:
  void attach(c10::Device device, std::int64_t limit);
  /// Throws BadValue for a limit that cannot be held.
  void check(std::int64_t limit);
  std::int64_t now() const { return counter_ ? counter_->now() : 0; }
  /// Begins an attempt.
  void begin();
  /// Returns the bytes in use before the attempt. `used` returns the bytes beyond these at its
  /// peak.
  std::int64_t base() const { return base_; }
  std::int64_t used() const;
  /// Ends an attempt that ran out of memory and was undone: as many bytes are in use as before it.
  void end_failed();
  /// Returns the most bytes that may be in use.
  std::int64_t bound(std::int64_t limit) const;

 private:
  void watch(std::int64_t limit);

  c10::Device device_ = at::kCPU;
  std::optional<bridge::MemoryCounter> counter_;
  std::int64_t base_ = 0;
};

}  // namespace ikebana::detail

namespace ikebana {

/// A change of the number of microbatches.
struct FitChange {
  std::int64_t step = 0;       ///< steps before the one for which it changed
  std::int64_t from = 0;       ///< microbatches of a batch before the change
  std::int64_t to = 0;         ///< the number afterwards: more because memory ran out, or fewer as
                               ///< a try
  std::int64_t bytes = 0;      ///< the most bytes in use, beyond the bytes before; 0: not known
  bool in_evaluation = false;  ///< true if the number of evaluations changed, which is a separate
                               ///< number
};

namespace detail {

/// The number of microbatches. After a number of steps without running out of memory, half as many
/// microbatches are tried; each failed try doubles this number of steps. Everything except
/// `failed_base` is part of a saved state.
struct FitPlan {
  std::int64_t microbatches = 1;  ///< the number for each batch of a step
  std::int64_t evaluated = 1;     ///< parts of each batch of an evaluation
  std::int64_t quiet = 0;         ///< steps since the last change, or since fewer were ruled out
  std::int64_t failures = 0;      ///< tries of fewer that failed, one after the other
  bool on_trial = false;          ///< fewer were tried, and not enough steps have passed since then
  std::int64_t used = 0;  ///< most bytes of a quiet step, beyond the bytes before it; 0: not known
  std::int64_t failed = 0;  ///< bytes of a step that did not fit, beyond bytes before; 0: not known
  std::int64_t failed_base = 0;  ///< bytes before that step

  /// A margin on the bytes of activations twice as large.
  static constexpr double margin = 1.1;
  /// The most `failures`: a saved state has this number, and `quiet` is shifted by it.
  static constexpr std::int64_t most_failures = 20;

  /// Returns true if enough quiet steps have passed: `steps`, doubled by each failed try. Returns
  /// false for 0.
  bool may_shrink(std::int64_t steps) const { return microbatches > 1 && has_passed(steps); }
  /// Returns true if a step with half as many microbatches, whose activations are twice as large,
  /// should fit: `base` bytes are in use before it, and at most `limit` may be in use.
  bool should_fit(std::int64_t base, std::int64_t limit) const;
  void shrink() noexcept;
  /// Counts quiet steps from 0 again, since fewer microbatches would not fit.
  void wait_again() noexcept { quiet = used = 0; }
  void grow(std::int64_t to, std::int64_t bytes, std::int64_t base) noexcept;
  void end_step(std::int64_t bytes, std::int64_t steps) noexcept;

 private:
  bool has_passed(std::int64_t steps) const;
};

/// The last changes in a trainer, and the number of steps that were undone soon after another.
/// Allocates in its constructor only.
class FitHistory {
 public:
  static constexpr std::size_t most = 256;

  FitHistory() { changes_.reserve(most); }
  void add(const FitChange& change) noexcept;
  /// Adds a step that was undone and repeated. Returns true if another one was undone within the
  /// ten steps before.
  bool add_undone(std::int64_t step) noexcept;
  const std::vector<FitChange>& changes() const { return changes_; }
  std::int64_t count() const { return count_; }
  std::int64_t soon() const { return soon_; }

 private:
  std::vector<FitChange> changes_;  // the last ones
  std::int64_t count_ = 0, soon_ = 0, undone_ = -1;
};

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/accumulate/impl/fit_plan.ipp>
#endif
