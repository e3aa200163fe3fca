#pragma once
#include <ikebana/checkpoint/budget/measured_unit.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE MeasuredUnit::MeasuredUnit(std::size_t unit) {
  costs.unit = static_cast<std::int64_t>(unit);
  costs.joins = true;
  costs.input = costs.unsaved = std::numeric_limits<std::int64_t>::max();
}

IKEBANA_INLINE void MeasuredUnit::add(const Recomputed& seen, std::int64_t begin,
                                      std::int64_t gathered, const StorageSet& input, bool joins) {
  auto raise = [](std::int64_t& to, std::int64_t value) { to = std::max(to, value); };
  is_complete = is_complete && seen.is_complete;
  costs.joins = costs.joins && joins;
  costs.input = std::min(costs.input, input.bytes());
  costs.unsaved = std::min(costs.unsaved, input.bytes_beyond(seen.saved_inputs));
  sum.keeps_result = sum.keeps_result || seen.keeps_result;
  raise(costs.rise, seen.rise), raise(costs.rise_selective, seen.rise_selective);
  raise(costs.rise_whole, seen.rise_whole + gathered);
  raise(costs.forward_keep, begin + seen.rise_whole);
  raise(costs.keep, seen.keep), raise(costs.selective, seen.selective);
  raise(costs.result, seen.result);
  raise(sum.selective_unsaved, seen.selective_unsaved);
  sum.time += seen.time, sum.time_rest += seen.time_rest;
  sum.time_watched += seen.time_watched, sum.time_kept += seen.time_kept;
  sum.operators += seen.operators;
}

IKEBANA_INLINE UnitCosts MeasuredUnit::result() const {
  UnitCosts one = costs;
  one.is_measured = (recomputes > 0 && is_complete && is_ordered) || !has_backward;
  if (recomputes == 0) one.input = one.unsaved = 0, one.joins = false;
  one.forward_keep = std::max(one.forward_keep, one.forward);
  one.forward_selective =
      std::min(one.forward_keep + sum.selective_unsaved, one.forward + one.selective);
  one.forward_selective = std::max(one.forward_selective, one.forward);
  return one;
}

}  // namespace ikebana::detail
