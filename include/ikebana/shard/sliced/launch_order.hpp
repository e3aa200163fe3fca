#pragma once
// In which order ranks begin to reduce the gradients of units.
#include <cstddef>
#include <vector>

namespace ikebana::detail {

/// The same order on all ranks, so that none waits for a sum that another one begins only after one
/// that waits for the first: the reverse of that in which the forward of the last step ran the
/// units, which all ranks have compared. A unit whose gradients come earlier than those of one
/// before it waits for that one; a unit that a microbatch does not run waits for nothing.
class LaunchOrder {
 public:
  /// All units from the last to the first, the root: nothing is known of the order of forward.
  void reset(std::size_t units);
  /// A microbatch begins.
  void begin() noexcept { forward_.clear(), next_ = 0; }
  /// Forward runs a unit for the first time in this microbatch.
  void enter(std::size_t unit) { forward_.push_back(unit); }
  /// All ranks have made the step, and ran units in the same order.
  void commit() noexcept;
  /// Calls `launch(unit)` for each unit whose turn it is, until `is_ready(unit)` is false.
  template <class Ready, class Launch>
  void advance(const Ready& is_ready, const Launch& launch) {
    for (; next_ < order_.size() && is_ready(order_[next_]); ++next_) launch(order_[next_]);
  }

 private:
  std::vector<std::size_t> order_, forward_;
  std::size_t next_ = 0;  // the first in `order_` that was not launched
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/launch_order.ipp>
#endif
