#pragma once
// Keeps the last values of a sequence.
#include <algorithm>
#include <cstddef>
#include <vector>

namespace ikebana::detail {

/// The last values that were added, up to a number. Allocates once.
template <class Value>
class Recent {
 public:
  /// Forgets all values, and keeps up to `most` from now on.
  void reset(std::size_t most) {
    values_.clear(), next_ = 0, most_ = most;
    values_.reserve(most);
  }
  void add(const Value& value) noexcept {
    if (values_.size() < most_) return values_.push_back(value);
    values_[next_] = value;
    next_ = (next_ + 1) % most_;
  }
  std::size_t size() const { return values_.size(); }
  /// Returns the value that was added last.
  const Value& latest() const {
    if (values_.size() < most_) return values_.back();
    return values_[(next_ + most_ - 1) % most_];
  }
  /// Returns the oldest of them.
  const Value& oldest() const { return values_[values_.size() < most_ ? 0 : next_]; }
  /// Returns the values, the oldest first.
  std::vector<Value> in_order() const {
    std::vector<Value> all(values_);
    std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(next_), all.end());
    return all;
  }

 private:
  std::vector<Value> values_;
  std::size_t next_ = 0, most_ = 0;
};

}  // namespace ikebana::detail
