#pragma once
// Measures the times of a plan that was made from bytes alone: in the first step by it, how long
// the forward of each unit takes, since a recompute is that forward.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/checkpoint/budget/measurement.hpp>
#include <ikebana/checkpoint/budget/stopwatch.hpp>

namespace ikebana::detail {

/// The operator mode of one forward. `products`: how many operators that Selective keeps a
/// recompute needs (UnitCosts::products).
class WatchForward : public bridge::OperatorMode {
 public:
  WatchForward(c10::Device device, std::int64_t products)
      : device_(device), needed_(products), since_begin_(device) {}

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;
  /// Returns the times of the forward, as if they were the times of its recompute.
  Recomputed times() const;

 private:
  c10::Device device_;
  std::int64_t needed_, products_ = 0;
  Stopwatch since_begin_;
  std::optional<std::int64_t> time_;  // until the first operator that a recompute does not need
  std::int64_t time_kept_ = 0;
};

/// The times of all units of a step.
class ForwardTimes {
 public:
  ForwardTimes(c10::Device device, const Costs& costs);

  /// RAII around the forward of the unit at this place of the plan.
  class Scope {
   public:
    Scope(ForwardTimes& times, std::size_t place);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MeasuredUnit& unit_;
    WatchForward watch_;
    bridge::OperatorScope<> scope_;
  };
  /// Replaces the times in `costs`. Returns false if a unit has not run. `kind` has the same
  /// meaning as for Measurement::costs.
  template <class Kind>
  bool add_to(Costs& costs, const Kind& kind) const {
    for (const MeasuredUnit& unit : units_)
      if (unit.recomputes == 0) return false;
    set_times(costs, units_, kind);
    return true;
  }

 private:
  c10::Device device_;
  std::vector<MeasuredUnit> units_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/forward_times.ipp>
#endif
