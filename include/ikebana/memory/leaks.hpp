#pragma once
// Finds memory that is still in use although it should not be.
#include <ikebana/memory/history.hpp>

namespace ikebana {

/// Memory of tensors that were made at the same place, and their number.
struct Leak {
  std::int64_t bytes = 0;                    ///< of all of them
  std::int64_t count = 0;                    ///< of blocks of memory
  std::shared_ptr<const MemoryWhere> where;  ///< never null
};

/// The options of a LeakFinder.
struct LeakFinderOptions {
  /// Also which functions made it: some microseconds more per allocation.
  bool stack_traces = false;
};

/// Finds memory of tensors on the CPU that was allocated since it was made, by any thread, and is
/// in use: after a step in which nothing should stay, each is a leak, as losses with their graphs
/// that are kept in a list. Make it after a first step, which makes the state of optimizers, and
/// drop reports and outputs before asking. Costs as a MemoryHistory, and memory only for what is in
/// use.
class LeakFinder {
 public:
  /// Hears of every allocation on the CPU from now on.
  explicit LeakFinder(LeakFinderOptions options = {})
      : history_({.max_events = 0, .stack_traces = options.stack_traces}) {}

  /// What is in use, by where it was made, the most bytes first. Several tensors that share memory
  /// count once; empty ones not at all.
  std::vector<Leak> leaks();
  /// The same for people; empty where there is none.
  std::string text();

 private:
  MemoryHistory history_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/leaks.ipp>
#endif
