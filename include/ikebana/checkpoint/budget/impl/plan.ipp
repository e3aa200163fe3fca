#pragma once
#include <algorithm>
#include <cstddef>
#include <ikebana/checkpoint/budget/plan.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool UnitCosts::allows(Choice choice) const {
  return choice == Choice::Full || (is_measured && (choice != Choice::Joined || joins));
}

IKEBANA_INLINE std::int64_t UnitCosts::kept(Choice choice) const {
  return choice == Choice::Keep        ? keep - unsaved
         : choice == Choice::Selective ? selective
         : choice == Choice::Joined    ? -input
                                       : 0;
}

IKEBANA_INLINE std::int64_t UnitCosts::recompute(Choice choice) const {
  return choice == Choice::Keep ? 0 : choice == Choice::Selective ? time_selective : time;
}

IKEBANA_INLINE std::int64_t UnitCosts::peak(Choice choice) const {
  switch (choice) {
    case Choice::Keep:
      return std::max(forward_keep, backward);
    case Choice::Selective:
      return std::max({forward_selective, begin + rise_selective, backward});
    default:
      return std::max({forward, begin + rise, backward});
  }
}

IKEBANA_INLINE Segment::Segment(const Costs& costs, std::size_t first)
    : costs_(&costs), peaks_(std::max(unit(first).forward, unit(first).backward)) {
  last_ = first;
}

IKEBANA_INLINE void Segment::extend() {
  const UnitCosts& before = unit(last_);
  whole_ = std::max(whole_, recomputed_ + before.rise_whole);
  recomputed_ += before.keep + before.result;
  peaks_ = std::max(peaks_, before.after_forward - freed_);
  const UnitCosts& added = unit(++last_);
  peaks_ = std::max(peaks_, added.forward - freed_);
  freed_ += added.input, unsaved_ += added.unsaved;
  peaks_ = std::max(peaks_, added.backward - freed_ + recomputed_ - unsaved_);
  time_ += before.time + before.time_rest;
}

IKEBANA_INLINE std::int64_t Segment::peak() const {
  const UnitCosts& end = unit(last_);
  return std::max(peaks_, end.begin - freed_ + std::max(whole_, recomputed_ + end.rise));
}

IKEBANA_INLINE Prediction predict(const Costs& costs, const Plan& plan) {
  Prediction all{costs.fixed, 0, 0};
  for (std::size_t i = 0; i < plan.size();) {
    const UnitCosts& unit = costs.units[i];
    Segment segment(costs, i);
    while (segment.last() + 1 < plan.size() && plan[segment.last() + 1] == Choice::Joined)
      segment.extend();
    const bool is_alone = segment.last() == i;
    all.peak = std::max(all.peak, all.kept + (is_alone ? unit.peak(plan[i]) : segment.peak()));
    all.kept += is_alone ? unit.kept(plan[i]) : segment.kept();
    all.time += is_alone ? unit.recompute(plan[i]) : segment.time();
    all.peak = std::max(all.peak, all.kept + costs.units[segment.last()].after_forward);
    i = segment.last() + 1;
  }
  return all;
}

IKEBANA_INLINE Costs by_bytes(Costs costs) {
  for (UnitCosts& unit : costs.units) {
    unit.time = unit.keep, unit.time_rest = unit.result;
    unit.time_selective = std::max<std::int64_t>(0, unit.keep - unit.selective);
  }
  return costs;
}

IKEBANA_INLINE Costs kept_alone(Costs costs, std::int64_t full) {
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::min() / 4;
  for (UnitCosts& unit : costs.units) {
    unit.forward = unit.forward_keep = unit.forward_selective = unit.after_forward = none;
    unit.begin = unit.backward = none;
    unit.rise = unit.rise_selective = unit.rise_whole = 0;
  }
  if (!costs.units.empty()) costs.units.back().after_forward = full;
  costs.fixed = none;
  return costs;
}

}  // namespace ikebana::detail
