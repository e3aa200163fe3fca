#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/grouped.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE ParameterBuckets::ParameterBuckets(std::vector<Slot> state_slots,
                                                  std::optional<std::size_t> used)
    : state_(std::move(state_slots), used) {}
IKEBANA_INLINE ParameterBuckets::ParameterBuckets(ParameterBuckets&&) noexcept = default;
IKEBANA_INLINE ParameterBuckets& ParameterBuckets::operator=(ParameterBuckets&&) noexcept = default;
IKEBANA_INLINE ParameterBuckets::~ParameterBuckets() = default;

IKEBANA_INLINE void ParameterBuckets::begin_buckets(
    const std::vector<Group>& groups, const Masters& masters,
    c10::function_ref<bool(std::size_t)> is_updated) {
  low_precision_.begin(masters), state_.begin(masters);
  steps_.resize(masters.values.size()), is_updated_.clear();
  is_first_step_.assign(masters.values.size(), true);
  for (std::size_t i = 0; i < masters.values.size(); ++i) is_updated_.push_back(is_updated(i));
  sort_into_groups(groups, masters);
  state_.reserve([&](std::size_t i) -> bool { return is_updated_[i]; },
                 [&](std::size_t i) { return low_precision_.operand(masters.values[i]); });
}

IKEBANA_INLINE void ParameterBuckets::abort_buckets() noexcept {
  for (MasterBucket& bucket : buckets_) undo(bucket, state_.storage());
  copies_.put_back();
  steps_.forget(made_);
  for (std::size_t i : made_) state_.forget(i);
  made_.clear(), indices_.clear(), buckets_.clear();
  is_sorted_ = false;
}

IKEBANA_INLINE void ParameterBuckets::end_step_of_buckets() noexcept {
  forget_copies(), made_.clear();
  for (MasterBucket& bucket : buckets_) {
    if (!std::exchange(bucket.ends_first_step, false)) continue;
    for (std::size_t i : bucket.indices) is_first_step_[i] = false;
    is_sorted_ = false;
  }
}

IKEBANA_INLINE void ParameterBuckets::set_numbers_of_buckets(const PolicyValues& of,
                                                             const RateRef& rate) {
  for (Bucket& b : buckets_) {
    if (of.numbers_in_step(b.group, rate) != b.numbers) refuse_value(frozen_numbers);
    set_lr(b.lr, of.checked_rate(b.group, rate));
  }
}

IKEBANA_INLINE void ParameterBuckets::prepare_with(const PolicyValues& of, const RateRef& rate,
                                                   bool rate_is_number, const Masters& masters,
                                                   const StepGradients& gradients,
                                                   std::size_t state_slots,
                                                   ConvertGradient convert) {
  forget_copies();
  add_slots(of.groups, masters, state_slots);
  if (window_bytes_ != state_.window_bytes()) is_sorted_ = false;
  if (rules_.changed(of.groups)) sort_into_groups(of.groups, masters);
  if (gradients.indices != indices_) {
    is_sorted_ = false;
    steps_.count(masters, gradients.indices, [&](std::size_t i) { make_state(masters, i); });
    indices_ = gradients.indices;
  }
  if (!is_sorted_) sort(masters);
  for (auto& bucket : buckets_) {
    if (bucket.first_step && recording()) refuse_recording();
    set_rate(bucket, of.checked_rate(bucket.group, rate), rate_is_number);
    bucket.numbers = of.numbers_in_step(bucket.group, rate);
    set_gradients(bucket, masters, gradients, convert);
  }
}

IKEBANA_INLINE UpdateScope::UpdateScope(const StepGradients& gradients) {
  if (gradients.divisor.defined()) divisor = gradients.divisor;
  if (gradients.found_inf.defined()) found_inf = gradients.found_inf;
}

IKEBANA_INLINE ReadyBuckets ParameterBuckets::ready_buckets(const StepGradients& gradients,
                                                            const UpdateOptions& options) {
  return ReadyBuckets(*this, gradients, options);
}

IKEBANA_INLINE ReadyBuckets::ReadyBuckets(ParameterBuckets& owner, const StepGradients& gradients,
                                          const UpdateOptions& options)
    : UpdateScope(gradients), owner_(owner), options_(options) {}

IKEBANA_INLINE ReadyBuckets::Iterator ReadyBuckets::begin() {
  if (owner_.begin_update(*this)) open();
  return Iterator(*this);
}

IKEBANA_INLINE void ReadyBuckets::open() {
  present_ = nullptr;
  if (place_ == owner_.buckets_.size()) {
    owner_.end_update(*this, options_.waits_for_flag);
    if (options_.puts_back && found_inf) owner_.copies_.put_back_if(*found_inf);
    return;
  }
  MasterBucket& bucket = owner_.buckets_[place_];
  window_.emplace(owner_.state_.storage(), bucket);
  bucket.copies.take();
  in_fp32_ = 0;
  const bool is_rounded = owner_.low_precision_.is_rounded(bucket.parameters[0]);
  present_ = is_rounded ? &owner_.low_precision_.to_fp32(bucket, 0) : &bucket;
}

IKEBANA_INLINE void ReadyBuckets::next() {
  MasterBucket& bucket = owner_.buckets_[place_];
  if (present_ != &bucket) {
    owner_.low_precision_.write_back(bucket, in_fp32_);
    if (++in_fp32_ < bucket.indices.size()) {
      present_ = &owner_.low_precision_.to_fp32(bucket, in_fp32_);
      return;
    }
  }
  if (options_.puts_back && found_inf) bucket.copies.put_back_if(*found_inf);
  window_.reset();
  ++place_;
  open();
}

IKEBANA_INLINE bool ParameterBuckets::begin_update(const UpdateScope& scope) {
  if (window_bytes_ > 0 && is_rejected(scope.found_inf, false)) return forget_gradients(), false;
  steps_.add_one(scope.found_inf);
  return true;
}

IKEBANA_INLINE void ParameterBuckets::end_update(const UpdateScope& scope, bool waits_for_flag) {
  for (auto& bucket : buckets_)
    bucket.ends_first_step = bucket.first_step && !is_rejected(scope.found_inf, waits_for_flag);
  forget_gradients();
}

IKEBANA_INLINE void ParameterBuckets::keep_if(c10::function_ref<bool(const Bucket&)> may_fail,
                                              KeepCopies keep) {
  bool any = false;
  for (MasterBucket& bucket : buckets_)
    if (keeps_copies_ || may_fail(bucket)) keep(bucket), any = true;
  if (!any) return;
  for (const at::Tensor& step : steps_.active()) copies_.keep(step);
}

IKEBANA_INLINE void ParameterBuckets::keep_if_asked() {
  keep_if([](const Bucket&) { return false; });
}

IKEBANA_INLINE void ParameterBuckets::forget_gradients() noexcept {
  for (auto& bucket : buckets_) {
    for (auto& gradient : bucket.gradients) gradient.reset();
    bucket.in_fp32.clear(), bucket.flat.clear(), bucket.flat_in_fp32.clear();
  }
}

IKEBANA_INLINE void ParameterBuckets::save_buckets(Archive& archive, const Masters& masters,
                                                   std::size_t state_slots, double& lr,
                                                   double* weight_decay,
                                                   std::vector<Group>& groups) {
  archive.number("lr", lr, &factor_range);
  if (weight_decay != nullptr) archive.number("weight_decay", *weight_decay, &factor_range);
  save_groups(archive, groups);
  if (archive.loading()) state_.drop_slots(state_slots);
  add_slots(groups, masters, state_slots);
  for (std::size_t i = 0; i < masters.values.size(); ++i) {
    const bool has_steps = archive.optional(masters.names[i] + ".step", steps_[i],
                                            StepCounts::zero(masters.values[i]), &count_range);
    state_.save(archive, masters.names[i], state_slots, i,
                low_precision_.operand(masters.values[i]), has_steps);
    if (archive.loading()) is_first_step_[i] = !steps_[i].defined() || number(steps_[i]) == 0;
  }
  if (archive.loading()) steps_.share(), indices_.clear(), buckets_.clear();
}

IKEBANA_INLINE void ParameterBuckets::sort_into_groups(const std::vector<Group>& groups,
                                                       const Masters& masters) {
  group_ = group_of_each_parameter(groups, masters,
                                   [&](std::size_t i) -> bool { return is_updated_[i]; });
  rules_.keep(groups);
  is_sorted_ = false;
}

IKEBANA_INLINE void ParameterBuckets::add_slots(const std::vector<Group>& groups,
                                                const Masters& masters, std::size_t state_slots) {
  if (rules_.size() != groups.size())
    refuse_value(
        "groups were added or removed after the trainer was made. Change the values of a group, or "
        "make a new trainer.");
  if (state_.slots_in_use() >= state_slots) return;
  state_.add_slots(
      state_slots, [&](std::size_t i) { return steps_[i].defined(); },
      [&](std::size_t i) { return low_precision_.operand(masters.values[i]); });
  is_sorted_ = false;
  std::fill(is_first_step_.begin(), is_first_step_.end(), true);  // the new slot was never used
}

IKEBANA_INLINE void ParameterBuckets::make_state(const Masters& masters, std::size_t i) {
  check_dtype(masters, i), made_.push_back(i);
  state_.make(i, low_precision_.operand(masters.values[i]));
}

IKEBANA_INLINE void ParameterBuckets::check_dtype(const Masters& masters, std::size_t i) {
  const at::ScalarType type = masters.values[i].scalar_type();
  const bool has_kernels =
      type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
  if (!has_kernels)
    refuse_value("`" + masters.names[i] + "` has dtype " + c10::toString(type) +
                 "; it must be Float, Double, BFloat16 or Half. Convert it, or freeze it: "
                 "requires_grad_(false).");
}

IKEBANA_INLINE void ParameterBuckets::refuse_recording() {
  refuse_value(
      "this step is recorded, and the optimizer makes or sorts its state in it, as in the first "
      "two steps, after an error, and where other parameters get gradients. Make ordinary steps "
      "before.");
}

IKEBANA_INLINE void ParameterBuckets::sort(const Masters& masters) {
  if (recording()) refuse_recording();
  buckets_.clear(), window_bytes_ = state_.window_bytes();
  for (std::size_t i : indices_) add(bucket_of(i, masters.values[i]), i, masters.values[i]);
  for (auto& bucket : buckets_) bucket.gradients.resize(bucket.indices.size());
  is_sorted_ = true;
}

IKEBANA_INLINE MasterBucket& ParameterBuckets::bucket_of(std::size_t i, const at::Tensor& p) {
  auto found = std::find_if(buckets_.rbegin(), buckets_.rend(), [&](const Bucket& b) {
    return may_hold(b, group_[i], is_first_step_[i], p);
  });
  if (found != buckets_.rend() &&
      (window_bytes_ == 0 || found->state_bytes + state_.bytes(i) <= window_bytes_))
    return *found;
  auto type = p.is_cpu() ? at::kDouble : at::kFloat;
  const at::Tensor lr = at::zeros({}, p.options().dtype(type).requires_grad(false));
  MasterBucket& made = buckets_.emplace_back();
  made.group = group_[i], made.first_step = is_first_step_[i], made.lr = lr;
  made.state.resize(state_.slots_in_use());
  return made;
}

IKEBANA_INLINE void ParameterBuckets::add(MasterBucket& bucket, std::size_t i,
                                          const at::Tensor& p) {
  bucket.indices.push_back(i);
  bucket.parameters.push_back(p);
  bucket.steps.push_back(steps_[i]);
  state_.add_to(bucket, i, window_bytes_ > 0);
}

IKEBANA_INLINE void ParameterBuckets::set_gradients(MasterBucket& bucket, const Masters& masters,
                                                    const StepGradients& gradients,
                                                    ConvertGradient convert) {
  std::size_t at = 0;
  for (std::size_t j = 0; j < bucket.indices.size(); ++j) {
    while (gradients.indices[at] != bucket.indices[j]) ++at;
    const at::Tensor& p = bucket.parameters[j];
    const std::string& name = masters.names[bucket.indices[j]];
    const bool is_rounded = low_precision_.is_rounded(p);
    // One expression would copy the handle of each parameter, in every step.
    const bool fits = is_rounded ? state_.matches(bucket, j, low_precision_.operand(p))
                                 : state_.matches(bucket, j, p);
    if (!fits) refuse_changed(name);
    bucket.gradients[j] = convert(gradients.values[at], p, name);
    if (!is_rounded) continue;
    bucket.gradients[j] = low_precision_.prepare(std::move(bucket.gradients[j]), p);
    low_precision_.prepare_rounded(bucket, j);
  }
}

IKEBANA_INLINE void ParameterBuckets::forget_copies() noexcept {
  copies_.clear();
  for (MasterBucket& bucket : buckets_) bucket.copies.clear();
}

}  // namespace ikebana::detail
