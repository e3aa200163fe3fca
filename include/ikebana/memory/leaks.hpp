#pragma once
// Finds memory that is still in use although it should not be.
#include <ikebana/detail/bytes.hpp>
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
  std::vector<Leak> leaks() {
    std::map<const MemoryWhere*, Leak> by_place;
    for (const MemoryBlock& block : history_.record().blocks) {
      Leak& leak = by_place[block.where.get()];
      leak.bytes += block.bytes, ++leak.count, leak.where = block.where;
    }
    std::vector<Leak> all;
    for (auto& [place, leak] : by_place) all.push_back(std::move(leak));
    std::stable_sort(all.begin(), all.end(),
                     [](const Leak& a, const Leak& b) { return a.bytes > b.bytes; });
    return all;
  }
  /// The same for people; empty where there is none.
  std::string text() {
    std::string text;
    for (const Leak& leak : leaks()) {
      text += std::to_string(leak.count) + (leak.count == 1 ? " block, " : " blocks, ") +
              detail::bytes_text(leak.bytes) + ", made " + leak.where->text() + "\n";
      for (const std::string& function : leak.where->stack) text += "    " + function + "\n";
    }
    return text;
  }

 private:
  MemoryHistory history_;
};

}  // namespace ikebana
