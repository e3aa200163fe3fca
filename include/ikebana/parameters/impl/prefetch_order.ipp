#pragma once
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/parameters/prefetch_order.hpp>

namespace ikebana {

IKEBANA_INLINE void UnitOrder::begin() {
  if (!entered_.empty()) last_.swap(entered_);
  entered_.clear(), left_.clear();
}

IKEBANA_INLINE std::size_t UnitOrder::enter(std::size_t unit, bool trains) {
  entered_.push_back(unit);
  if (trains) of_step_ = detail::fnv1a(of_step_, unit + 1);
  return entered_.size() - 1;
}

IKEBANA_INLINE std::optional<std::size_t> UnitOrder::after(std::size_t place) const {
  if (place + 1 >= last_.size() || last_[place] != entered_[place]) return {};
  return last_[place + 1];
}

IKEBANA_INLINE std::size_t UnitOrder::leave(std::size_t unit) {
  left_.push_back(unit);
  return left_.size() - 1;
}

IKEBANA_INLINE std::optional<std::size_t> UnitOrder::before(std::size_t place) const {
  if (place == 0 || place > left_.size()) return {};
  return left_[place - 1];
}

}  // namespace ikebana
