#pragma once
#include <ikebana/checkpoint/budget/forward_times.hpp>
#include <ikebana/checkpoint/frame/operator_rule.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void WatchForward::call(bridge::OperatorCall& call) {
  if (call.schema().is_mutable() || !matrix_operators(call)) return call.compute();
  if (products_++ == needed_) time_ = since_begin_.nanoseconds();
  const Stopwatch since_call(device_);
  call.compute();
  if (!time_) time_kept_ += since_call.nanoseconds();
}

IKEBANA_INLINE Recomputed WatchForward::times() const {
  const std::int64_t whole = since_begin_.nanoseconds();
  Recomputed times;
  times.time = times.time_watched = time_.value_or(whole);
  times.time_kept = time_kept_;
  times.time_rest = whole - times.time;
  return times;
}

IKEBANA_INLINE ForwardTimes::ForwardTimes(c10::Device device, const Costs& costs)
    : device_(device) {
  for (const UnitCosts& unit : costs.units) {
    units_.emplace_back(static_cast<std::size_t>(unit.unit));
    units_.back().costs.products = unit.products;
  }
}

IKEBANA_INLINE ForwardTimes::Scope::Scope(ForwardTimes& times, std::size_t place)
    : unit_(times.units_[place]), watch_(times.device_, unit_.costs.products), scope_(watch_) {}

IKEBANA_INLINE ForwardTimes::Scope::~Scope() { unit_.add_times(watch_.times()); }

}  // namespace ikebana::detail
