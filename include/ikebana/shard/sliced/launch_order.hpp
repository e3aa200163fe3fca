#pragma once
// The order in which ranks begin the sums of gradients of units.
#include <cstddef>
#include <vector>

namespace ikebana::detail {

/// The order in which ranks begin to reduce the gradients of units: the reverse of the order in
/// which the forward of the last step ran the units, which all ranks have compared. It is the same
/// on all ranks, so that no two ranks each wait for a sum that the other one begins later. A unit
/// whose gradients come early waits for the units before it in this order; a unit that a microbatch
/// does not run waits for nothing.
class LaunchOrder {
 public:
  /// Takes all units from the last to the first, the root: the order of forward is not known.
  void reset(std::size_t units);
  /// Called when a microbatch begins.
  void begin() noexcept { forward_.clear(), next_ = 0; }
  /// Called when forward runs a unit for the first time in this microbatch.
  void enter(std::size_t unit) { forward_.push_back(unit); }
  /// Called when all ranks have made the step, and ran units in the same order.
  void commit() noexcept;
  /// Calls `launch(unit)` for each unit whose turn it is, until `is_ready(unit)` is false.
  template <class Ready, class Launch>
  void advance(const Ready& is_ready, const Launch& launch) {
    for (; next_ < order_.size() && is_ready(order_[next_]); ++next_) launch(order_[next_]);
  }

 private:
  std::vector<std::size_t> order_, forward_;
  std::size_t next_ = 0;  // the first in `order_` that is not launched
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/launch_order.ipp>
#endif
