#pragma once
// Chooses the unit whose parameters are gathered ahead, in forward and in backward.
#include <cstdint>
#include <ikebana/detail/fnv1a.hpp>
#include <optional>
#include <vector>

namespace ikebana {

/// The order of units in this forward and in the one before it. Backward needs units in the reverse
/// of the order in which this forward left them.
class UnitOrder {
 public:
  /// Is called when a forward begins.
  void begin();
  /// Is called after an exception: the units that were run then are not expected again.
  void forget() noexcept { last_.clear(), entered_.clear(), left_.clear(); }
  void begin_step() noexcept { of_step_ = detail::fnv1a_start; }
  /// Notes that a unit is run. Returns its place in this forward.
  std::size_t enter(std::size_t unit, bool trains);
  /// Returns the next unit, if the forward before ran the same unit at this place.
  std::optional<std::size_t> after(std::size_t place) const;
  /// Notes that a unit that has a backward was run. Returns its place among such units.
  std::size_t leave(std::size_t unit);
  /// Returns the unit whose backward follows.
  std::optional<std::size_t> before(std::size_t place) const;
  /// Returns a hash of the order in which the step's microbatches ran the units.
  std::uint64_t of_step() const { return of_step_; }

 private:
  std::vector<std::size_t> last_, entered_, left_;
  std::uint64_t of_step_ = detail::fnv1a_start;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/prefetch_order.ipp>
#endif
