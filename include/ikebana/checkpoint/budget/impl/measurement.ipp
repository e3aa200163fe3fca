#pragma once
#include <algorithm>
#include <ikebana/checkpoint/budget/measurement.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool StorageSet::add(const at::Tensor& t) {
  if (!t.defined() || !t.has_storage() || t.storage().nbytes() == 0 || has(t)) return false;
  all_.push_back(
      {t.storage().getWeakStorageImpl(), static_cast<std::int64_t>(t.storage().nbytes())});
  return true;
}

IKEBANA_INLINE void StorageSet::add_all_of(const StorageSet& others) {
  for (const One& one : others.all_)
    if (!has(one.storage._unsafe_get_target())) all_.push_back(one);
}

IKEBANA_INLINE bool StorageSet::has(const at::Tensor& t) const {
  return t.defined() && t.has_storage() && has(t.storage().unsafeGetStorageImpl());
}

IKEBANA_INLINE std::int64_t StorageSet::bytes_beyond(const StorageSet& others) const {
  std::int64_t sum = 0;
  for (const One& one : all_)
    if (!others.has(one.storage._unsafe_get_target())) sum += one.bytes;
  return sum;
}

IKEBANA_INLINE std::int64_t StorageSet::bytes_of(const c10::StorageImpl* storage) const {
  for (const One& one : all_)
    if (one.storage._unsafe_get_target() == storage) return one.bytes;
  return 0;
}

IKEBANA_INLINE bool StorageSet::has(const c10::StorageImpl* storage) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const One& one) { return one.storage._unsafe_get_target() == storage; });
}

IKEBANA_INLINE bool StorageSet::any_is_shared() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const One& one) { return one.storage.use_count() > 1; });
}

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
  raise(costs.products, seen.products);
  raise(sum.selective_unsaved, seen.selective_unsaved);
  add_times(seen);
}

IKEBANA_INLINE void MeasuredUnit::add_times(const Recomputed& seen) {
  ++recomputes;
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

IKEBANA_INLINE Measurement::Measurement(c10::Device device, bridge::MemoryCounter counter,
                                        std::int64_t level)
    : device_(device), counter_(std::move(counter)), level_(level) {
  counter_.reset_peak();
}

IKEBANA_INLINE void Measurement::begin_microbatch() {
  enter(Part::Else, 0);
  calls_.clear(), results_.clear(), inputs_ = {};
  live_ = 0;
  deviates_ = false;
}

IKEBANA_INLINE void Measurement::gathered(std::size_t place,
                                          const std::shared_ptr<const std::size_t>& alive) {
  calls_[place].alive = alive;
  calls_[place].gathered = std::max<std::int64_t>(0, now() - calls_[place].begin);
}

IKEBANA_INLINE bool Measurement::is_present(const std::shared_ptr<const std::size_t>& alive) const {
  return is_open_ && *alive < calls_.size() && calls_[*alive].alive.lock() == alive;
}

IKEBANA_INLINE void Measurement::begin_recompute(std::size_t place) {
  Call& call = calls_[place];
  call.is_released = call.is_released && !call.is_held(/*by frame and recompute=*/2);
  in_order_ = is_in_order(place);
  if (in_order_) {
    enter(Part::Recompute, place), live_ = place;
    units_[place].costs.begin = std::max(units_[place].costs.begin, now());
  } else {
    units_[place].is_ordered = false;
    enter(Part::After, live_ - 1);
  }
}

IKEBANA_INLINE void Measurement::end_recompute(std::size_t place, const Recomputed& seen) {
  const Call& call = calls_[place];
  units_[place].add(seen, call.begin + call.gathered, call.gathered,
                    call.is_released ? call.joined : StorageSet(), !call.tensors.empty());
  if (in_order_) enter(Part::Backward, place);
}

IKEBANA_INLINE std::int64_t Measurement::end_dry_step(std::int64_t before_update) {
  const std::int64_t grown = std::max<std::int64_t>(0, now() - before_update);
  end(grown);
  return grown;
}

IKEBANA_INLINE void Measurement::Call::join(const at::Tensor& t) {
  if (joined.add(t)) tensors.emplace_back(t.getIntrusivePtr());
}

IKEBANA_INLINE bool Measurement::Call::is_held(std::size_t holders) const {
  return joined.any_is_shared() || std::any_of(tensors.begin(), tensors.end(), [&](const auto& t) {
           return t.use_count() > holders;
         });
}

IKEBANA_INLINE void Measurement::end(std::int64_t grown) {
  enter(Part::Else, 0);
  else_ = std::max(else_, update_ - grown);
  is_open_ = false;
}

IKEBANA_INLINE void Measurement::enter(Part part, std::size_t place) {
  const std::int64_t peak = counter_.peak() - level_;
  counter_.reset_peak();
  std::int64_t& of = peak_of(part_, place_);
  of = std::max(of, peak);
  part_ = part, place_ = place;
}

IKEBANA_INLINE std::int64_t& Measurement::peak_of(Part part, std::size_t place) {
  if (part == Part::Forward) return units_[place].costs.forward;
  if (part == Part::After) return units_[place].costs.after_forward;
  if (part == Part::Backward) return units_[place].costs.backward;
  if (part == Part::Update) return update_;
  return part == Part::Else ? else_ : ignored_;
}

IKEBANA_INLINE bool Measurement::is_in_order(std::size_t place) {
  if (torch::autograd::get_current_graph_task_keep_graph()) return false;
  for (std::size_t later = place + 1; later < calls_.size(); ++later)
    if (!calls_[later].alive.expired()) return false;
  return live_ > place;
}

}  // namespace ikebana::detail
