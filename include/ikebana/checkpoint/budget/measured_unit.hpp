#pragma once
// What a measured step shows of one unit.
#include <ikebana/checkpoint/budget/plan.hpp>
#include <ikebana/checkpoint/budget/storages.hpp>

namespace ikebana::detail {

/// What one recompute showed of its unit. Bytes are above the level at which it began.
struct Recomputed {
  bool is_complete = false;  ///< the rehearsals ended, so all but `rise` and `time` is known
  std::int64_t rise = 0, rise_selective = 0, rise_whole = 0;
  std::int64_t keep = 0, selective = 0, selective_unsaved = 0, result = 0;
  std::int64_t time = 0, time_rest = 0;  ///< nanoseconds
  std::int64_t time_watched = 0;         ///< with each operator intercepted
  std::int64_t time_kept = 0;            ///< of the operators that Selective keeps
  std::int64_t operators = 0;
  StorageSet saved_inputs;    ///< its arguments, as far as autograd saves them
  bool keeps_result = false;  ///< autograd, or Selective, keeps what it returns

  /// Of one of several runs, of which the fastest counts.
  void add_time(std::int64_t one) { time = time == 0 ? one : std::min(time, one); }
};

/// The same over all microbatches of a step.
struct MeasuredUnit {
  UnitCosts costs;
  Recomputed sum;  // of bytes the largest, of times the sums
  bool has_backward = false, is_ordered = true, is_complete = true;
  int recomputes = 0;

  explicit MeasuredUnit(std::size_t unit);
  /// `begin`: the level at which its forward began. `input`: what the unit before it returned, if
  /// nothing else keeps that.
  void add(const Recomputed& seen, std::int64_t begin, std::int64_t gathered,
           const StorageSet& input, bool joins);
  UnitCosts result() const;
};

/// Times of units that do the same are their lower quartile: what disturbs the process makes some
/// of them longer, and none shorter. What it costs to intercept an operator is measured over all
/// units, since it is less than the noise of one.
template <class Kind>
void set_times(Costs& all, const std::vector<MeasuredUnit>& units, const Kind& kind) {
  std::int64_t watching = 0, operators = 0;
  for (const MeasuredUnit& unit : units) {
    watching += unit.sum.time_watched - unit.sum.time;
    operators += unit.sum.operators;
  }
  watching = std::max<std::int64_t>(watching, 0);
  auto quartile = [&](std::size_t i, std::int64_t Recomputed::* time) {
    std::vector<std::int64_t> alike;
    for (std::size_t j = 0; j < units.size(); ++j)
      if (kind(units[j].costs.unit) == kind(units[i].costs.unit) &&
          all.units[j].keep == all.units[i].keep && all.units[j].result == all.units[i].result &&
          units[j].recomputes == units[i].recomputes)
        alike.push_back(units[j].sum.*time);
    const auto lower = alike.begin() + static_cast<std::ptrdiff_t>(alike.size() / 4);
    std::nth_element(alike.begin(), lower, alike.end());
    return *lower;
  };
  for (std::size_t i = 0; i < units.size(); ++i) {
    UnitCosts& unit = all.units[i];
    unit.time = quartile(i, &Recomputed::time);
    unit.time_rest = std::max<std::int64_t>(0, quartile(i, &Recomputed::time_rest));
    const std::int64_t kept = quartile(i, &Recomputed::time_kept);
    unit.time_selective = std::max<std::int64_t>(0, unit.time - kept);
    if (operators > 0)  // in forward and in the recompute
      unit.time_selective += 2 * (watching / operators) * units[i].sum.operators;
  }
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/measured_unit.ipp>
#endif
