#pragma once
// How many microbatches Accumulate<Fit<>> makes of a batch, and when it tries fewer.
#include <cstdint>
#include <ikebana/bridge/memory.hpp>
#include <ikebana/bridge/shared_memory_limit.hpp>
#include <optional>
#include <vector>

namespace ikebana::detail {

/// The bytes that steps use. Not known on a device without statistics, and on a CPU whose memory is
/// not counted: it has neither a limit nor a MemoryCounter.
class FitMemory {
 public:
  void attach(c10::Device device, std::int64_t limit);
  /// Throws BadValue for a limit that cannot be held.
  void check(std::int64_t limit);
  std::int64_t now() const { return counter_ ? counter_->now() : 0; }
  /// An attempt begins.
  void begin();
  /// Bytes in use before the attempt, and at its peak beyond these.
  std::int64_t base() const { return base_; }
  std::int64_t used() const;
  /// An attempt ran out of memory and was undone: as much is in use as before it.
  void end_failed();
  /// How many bytes may be in use.
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
  std::int64_t from = 0;       ///< microbatches of a batch, before
  std::int64_t to = 0;         ///< and after: more since memory ran out, fewer as a try
  std::int64_t bytes = 0;      ///< that were in use at the most, beyond those before; 0: not known
  bool in_evaluation = false;  ///< of an evaluation, whose number is its own
};

namespace detail {

/// The number of microbatches. After a while without running out of memory half as many are tried;
/// each such try that fails doubles the while. All but `failed_base` is part of a saved state.
struct FitPlan {
  std::int64_t microbatches = 1;  ///< of each batch of a step
  std::int64_t evaluated = 1;     ///< parts of each batch of an evaluation
  std::int64_t quiet = 0;         ///< steps since the last change, or since fewer were ruled out
  std::int64_t failures = 0;      ///< tries of fewer that failed, one after the other
  bool on_trial = false;          ///< fewer were tried, and the while after that has not passed
  std::int64_t used = 0;    ///< most bytes of a quiet step, beyond those before it; 0: not known
  std::int64_t failed = 0;  ///< bytes beyond those before a step that did not fit; 0: not known
  std::int64_t failed_base = 0;  ///< bytes before that step

  /// More bytes than activations twice as large should need.
  static constexpr double margin = 1.1;
  /// Of `failures`, which a saved state has and by which `quiet` is shifted.
  static constexpr std::int64_t most_failures = 20;

  /// Whether the while has passed that begins with `steps` steps; 0: it never does.
  bool may_shrink(std::int64_t steps) const { return microbatches > 1 && has_passed(steps); }
  /// Whether a step with half as many microbatches, whose activations are twice as large, should
  /// fit: `base` bytes are in use before it, and at most `limit` may be.
  bool should_fit(std::int64_t base, std::int64_t limit) const;
  void shrink() noexcept;
  /// Fewer would not fit: waits for another while.
  void wait_again() noexcept { quiet = used = 0; }
  void grow(std::int64_t to, std::int64_t bytes, std::int64_t base) noexcept;
  void end_step(std::int64_t bytes, std::int64_t steps) noexcept;

 private:
  bool has_passed(std::int64_t steps) const;
};

/// The last changes of a trainer, and how often steps were undone soon after another. Allocates
/// when it is made, and then no more.
class FitHistory {
 public:
  static constexpr std::size_t most = 256;

  FitHistory() { changes_.reserve(most); }
  void add(const FitChange& change) noexcept;
  /// A step was made that had been undone. True where another one was within the ten steps before.
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
