#pragma once
// In which order ranks begin to reduce the gradients of units.
#include <algorithm>
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
  void reset(std::size_t units) {
    order_.resize(units), forward_.reserve(units);
    for (std::size_t i = 0; i < units; ++i) order_[i] = units - 1 - i;
  }
  /// A microbatch begins.
  void begin() noexcept { forward_.clear(), next_ = 0; }
  /// Forward runs a unit for the first time in this microbatch.
  void enter(std::size_t unit) { forward_.push_back(unit); }
  /// All ranks have made the step, and ran units in the same order.
  void commit() noexcept {
    auto is_run = [&](std::size_t unit) {
      return std::find(forward_.begin(), forward_.end(), unit) != forward_.end();
    };
    const auto rest = std::remove_if(order_.begin(), order_.end() - 1, is_run);
    std::copy_backward(order_.begin(), rest, order_.end() - 1);
    std::copy(forward_.rbegin(), forward_.rend(), order_.begin());
  }
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
