#pragma once
// Finds memory that is still in use although it should not be.
#include <ikebana/memory/history.hpp>

namespace ikebana {

/// Memory of tensors that were made at the same place, and their number.
struct Leak {
  std::int64_t bytes = 0;                    ///< the bytes of all of them
  std::int64_t count = 0;                    ///< the number of blocks of memory
  std::shared_ptr<const MemoryWhere> where;  ///< never null
};

/// The options of a LeakFinder.
struct LeakFinderOptions {
  /// Records also the functions that made it, which costs some microseconds more per allocation.
  bool stack_traces = false;
};

/// Finds memory of tensors on the CPU that any thread has allocated since the finder was made, and
/// that is in use. After a step that should leave nothing, each is a leak, such as losses with
/// their graphs that are kept in a list. Make it after a first step, which makes the state of
/// optimizers, and drop reports and outputs before asking. Costs as much time as a MemoryHistory,
/// and memory only for what is in use.
class LeakFinder {
 public:
  /// Records every allocation on the CPU from now on.
  explicit LeakFinder(LeakFinderOptions options = {})
      : history_({.max_events = 0, .stack_traces = options.stack_traces}) {}

  /// Returns the memory in use, by the place where it was made, the most bytes first. Tensors that
  /// share memory count once, and empty tensors do not count.
  std::vector<Leak> leaks();
  /// Returns the leaks as a text for people; empty if there are no leaks.
  std::string text();

 private:
  MemoryHistory history_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/leaks.ipp>
#endif
