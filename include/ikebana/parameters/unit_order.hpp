#pragma once
// In which order units are run, so that the next one can be gathered ahead.
#include <cstdint>
#include <ikebana/detail/fnv1a.hpp>
#include <optional>
#include <vector>

namespace ikebana {

/// The order of units in this forward and in the one before it. Backward needs units in the reverse
/// of the order in which this forward left them.
class UnitOrder {
 public:
  /// A forward begins.
  void begin();
  /// After an exception: of what was run then, nothing is expected again.
  void forget() noexcept { last_.clear(), entered_.clear(), left_.clear(); }
  void begin_step() noexcept { of_step_ = detail::fnv1a_start; }
  /// A unit is run. Returns its place in this forward.
  std::size_t enter(std::size_t unit, bool trains);
  /// The unit that follows, if the forward before ran the same one at this place.
  std::optional<std::size_t> after(std::size_t place) const;
  /// A unit that has a backward was run. Returns its place among those.
  std::size_t leave(std::size_t unit);
  /// The unit whose backward follows.
  std::optional<std::size_t> before(std::size_t place) const;
  /// A number of the order in which the step's microbatches ran the units.
  std::uint64_t of_step() const { return of_step_; }

 private:
  std::vector<std::size_t> last_, entered_, left_;
  std::uint64_t of_step_ = detail::fnv1a_start;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/parameters/impl/unit_order.ipp>
#endif
