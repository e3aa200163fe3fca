#pragma once
// The base of all optimizers: parameters in buckets by group, device and dtype; state made at the
// first gradient, saved and restored, and put back where a step fails.
#include <ikebana/detail/update_copies.hpp>
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/optimizer/bucket.hpp>
#include <ikebana/optimizer/group.hpp>
#include <ikebana/optimizer/low_precision_update.hpp>
#include <ikebana/optimizer/optimizer_state.hpp>
#include <ikebana/optimizer/optimizer_values.hpp>
#include <ikebana/optimizer/step_counts.hpp>

namespace ikebana::detail {

template <class Policy>
class GroupedOptimizer : public OptimizerValues<Policy> {
 public:
  using carries_out = Policy;
  static constexpr bool takes_divisor = true;
  using OptimizerValues<Policy>::values;
  /// The first `used` slots are those of the values that it is made with: all, if left out.
  GroupedOptimizer(Policy v, std::vector<Slot> state_slots, std::optional<std::size_t> used = {})
      : OptimizerValues<Policy>(std::move(v)), state_(std::move(state_slots), used) {}

  /// `is_updated(i)`: true if this optimizer updates master `i`, false if another one does.
  template <class IsUpdated = EveryMaster>
  void begin(const Masters& masters, const IsUpdated& is_updated = {}) {
    low_precision_.begin(masters), state_.begin(masters);
    steps_.resize(masters.values.size()), is_updated_.clear();
    is_first_step_.assign(masters.values.size(), true);
    for (std::size_t i = 0; i < masters.values.size(); ++i) is_updated_.push_back(is_updated(i));
    sort_into_groups(masters);
    const auto operand = [&](std::size_t i) { return low_precision_.operand(masters.values[i]); };
    state_.reserve([&](std::size_t i) { return is_updated_[i]; }, operand);
  }
  /// Puts back what a failed step changed. State that it made is freed.
  void abort() noexcept {
    for (Bucket& bucket : buckets_) undo(bucket, state_.storage());
    copies_.put_back();
    steps_.forget(made_);
    for (std::size_t i : made_) state_.forget(i);
    made_.clear(), indices_.clear(), buckets_.clear();
    is_sorted_ = false;
  }
  void end_step(const StepGradients&, Report&) noexcept {
    forget_copies(), made_.clear();
    for (Bucket& bucket : buckets_) {
      if (!std::exchange(bucket.ends_first_step, false)) continue;
      for (std::size_t i : bucket.indices) is_first_step_[i] = false;
      is_sorted_ = false;
    }
  }
  /// From now on `abort` also undoes updates that have ended: others may fail after them.
  void keep_copies() noexcept { keeps_copies_ = true; }
  template <class Visit>
  void each_number(const Visit& visit) const {
    for (const Bucket& bucket : buckets_) visit(bucket.lr);
  }
  template <class Rate>
  void set_numbers(const Rate& rate) {
    for (Bucket& b : buckets_)
      check(this->numbers(b.group, rate) == b.numbers, frozen_numbers),
          set_lr(b.lr, this->checked_rate(b.group, rate));
  }

 protected:
  using OptimizerValues<Policy>::check, OptimizerValues<Policy>::decays;
  LowPrecisionUpdate low_precision_;
  OptimizerState state_;

  /// Sorts masters into buckets if they changed since the last step, makes missing state of the
  /// first `slots` slots, and sets the buckets' gradients to `convert(gradient, parameter, name)`.
  template <class Rate, class Convert = decltype(dense_gradient)>
  void prepare_buckets(const Masters& masters, const StepGradients& gradients, const Rate& rate,
                       std::size_t state_slots, const Convert& convert = dense_gradient) {
    forget_copies();
    add_slots(masters, state_slots);
    if (window_bytes_ != state_.window_bytes()) is_sorted_ = false;
    if (rules_.changed(values.groups)) sort_into_groups(masters);
    if (gradients.indices != indices_) {
      is_sorted_ = false;
      steps_.count(masters, gradients.indices, [&](std::size_t i) { make_state(masters, i); });
      indices_ = gradients.indices;
    }
    if (!is_sorted_) sort(masters);
    for (auto& bucket : buckets_) {
      if (bucket.first_step && recording()) this->refuse_recording();
      set_rate(bucket, this->checked_rate(bucket.group, rate), this->rate_is_number_);
      bucket.numbers = this->numbers(bucket.group, rate);
      set_gradients(bucket, masters, gradients, convert);
    }
  }
  static void keep_update(const UpdateCopies&) noexcept {}
  /// Counts a step in every bucket, then calls `call(bucket, divisor, found_inf)`, within the
  /// bucket's window if it has one, and `end(copies)` with those of the bucket. With
  /// `waits_for_flag` the host waits for the device until the first update that is not rejected.
  template <class Call, class End = decltype((keep_update))>
  void update_buckets(const StepGradients& gradients, Call&& call, bool waits_for_flag = false,
                      const End& end = keep_update) {
    auto update = [&](const auto& divisor, const auto& found_inf) {
      for (auto& bucket : buckets_) {
        const StateWindow window(state_.storage(), bucket);
        bucket.copies.take();
        low_precision_.update(bucket, [&](Bucket& b) { call(b, divisor, found_inf); });
        end(bucket.copies);
      }
    };
    count_and_update(gradients, update, waits_for_flag);
  }
  /// The same without windows: `update(divisor, found_inf)` updates all buckets, by low_precision_.
  /// Autograd's layer of the dispatcher is left out: it copies lists, and an allocation that fails
  /// between two buckets could not be undone.
  template <class Apply>
  void count_and_update(const StepGradients& gradients, const Apply& update,
                        bool waits_for_flag = false) {
    at::AutoDispatchBelowAutograd below;
    auto option = [](const at::Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; };
    auto divisor = option(gradients.divisor), found_inf = option(gradients.found_inf);
    if (window_bytes_ > 0 && is_rejected(found_inf, false)) return forget_gradients();
    steps_.add_one(found_inf);
    update(divisor, found_inf);
    for (auto& bucket : buckets_)
      bucket.ends_first_step = bucket.first_step && !is_rejected(found_inf, waits_for_flag);
    forget_gradients();
  }
  /// Calls `keep(bucket)`, which makes room for copies of what will change, for the buckets whose
  /// update may fail. The copies are kept until the step is committed or undone.
  template <class MayFail, class Keep>
  void keep_if(const MayFail& may_fail, const Keep& keep) {
    bool any = false;
    for (Bucket& bucket : buckets_)
      if (keeps_copies_ || may_fail(bucket)) keep(bucket), any = true;
    if (!any) return;
    for (const at::Tensor& step : steps_.active()) copies_.keep(step);
  }
  /// The same where no update can fail, in `prepare`.
  void keep_if_asked() {
    keep_if([](const Bucket&) { return false; }, keep_whole);
  }
  UpdateCopies copies_;  // of step counts; those of a bucket are its own
  template <class Visit>
  void each_bucket(Visit&& visit) {
    for (auto& bucket : buckets_) visit(bucket);
  }
  void forget_gradients() noexcept {
    for (auto& bucket : buckets_) {
      for (auto& gradient : bucket.gradients) gradient.reset();
      bucket.in_fp32.clear(), bucket.flat.clear(), bucket.flat_in_fp32.clear();
    }
  }
  /// Saves or loads lr, weight_decay, groups, step counts and the first `state_slots` slots.
  void save(Archive& archive, const Masters& masters, std::size_t state_slots) {
    archive.number("lr", values.lr, &factor_range);
    if constexpr (decays) archive.number("weight_decay", values.weight_decay, &factor_range);
    save_groups(archive, values.groups);
    if (archive.loading()) state_.drop_slots(state_slots);
    add_slots(masters, state_slots);
    for (std::size_t i = 0; i < masters.values.size(); ++i) {
      const bool has_steps = archive.optional(masters.names[i] + ".step", steps_[i],
                                              StepCounts::zero(masters.values[i]), &count_range);
      state_.save(archive, masters.names[i], state_slots, i,
                  low_precision_.operand(masters.values[i]), has_steps);
      if (archive.loading()) is_first_step_[i] = !steps_[i].defined() || number(steps_[i]) == 0;
    }
    if (archive.loading()) steps_.share(), indices_.clear(), buckets_.clear();
  }

 private:
  /// Throws BadValue, and changes nothing, for a group that matches no parameter.
  void sort_into_groups(const Masters& masters) {
    group_ = group_of_each_parameter(values.groups, masters,
                                     [&](std::size_t i) { return is_updated_[i]; });
    rules_.keep(values.groups);
    is_sorted_ = false;
  }
  /// Adds slots up to `slots`: at the beginning, and when a changed value needs more state.
  void add_slots(const Masters& masters, std::size_t state_slots) {
    check(rules_.size() == values.groups.size(),
          "groups were added or removed after the trainer was made. Change the values of a "
          "group, or make a new trainer.");
    if (state_.slots_in_use() >= state_slots) return;
    state_.add_slots(
        state_slots, [&](std::size_t i) { return steps_[i].defined(); },
        [&](std::size_t i) { return low_precision_.operand(masters.values[i]); });
    is_sorted_ = false;
    std::fill(is_first_step_.begin(), is_first_step_.end(), true);  // the new slot was never used
  }
  void make_state(const Masters& masters, std::size_t i) {
    this->check_dtype(masters, i), made_.push_back(i);
    state_.make(i, low_precision_.operand(masters.values[i]));
  }
  void sort(const Masters& masters) {
    if (recording()) this->refuse_recording();
    buckets_.clear(), window_bytes_ = state_.window_bytes();
    for (std::size_t i : indices_) add(bucket_of(i, masters.values[i]), i, masters.values[i]);
    for (auto& bucket : buckets_) bucket.gradients.resize(bucket.indices.size());
    is_sorted_ = true;
  }
  /// The last bucket of such parameters, or a new one where its window has no room.
  Bucket& bucket_of(std::size_t i, const at::Tensor& p) {
    auto found = std::find_if(buckets_.rbegin(), buckets_.rend(), [&](const Bucket& b) {
      return may_hold(b, group_[i], is_first_step_[i], p);
    });
    if (found != buckets_.rend() &&
        (window_bytes_ == 0 || found->state_bytes + state_.bytes(i) <= window_bytes_))
      return *found;
    auto type = p.is_cpu() ? at::kDouble : at::kFloat;
    buckets_.push_back({.group = group_[i],
                        .first_step = is_first_step_[i],
                        .lr = at::zeros({}, p.options().dtype(type).requires_grad(false))});
    buckets_.back().state.resize(state_.slots_in_use());
    return buckets_.back();
  }
  void add(Bucket& bucket, std::size_t i, const at::Tensor& p) {
    bucket.indices.push_back(i);
    bucket.parameters.push_back(p);
    bucket.steps.push_back(steps_[i]);
    state_.add_to(bucket, i, window_bytes_ > 0);
  }
  template <class Convert>
  void set_gradients(Bucket& bucket, const Masters& masters, const StepGradients& gradients,
                     const Convert& convert) {
    std::size_t at = 0;
    for (std::size_t j = 0; j < bucket.indices.size(); ++j) {
      while (gradients.indices[at] != bucket.indices[j]) ++at;
      const at::Tensor& p = bucket.parameters[j];
      const std::string& name = masters.names[bucket.indices[j]];
      if (!state_.matches(bucket, j, low_precision_.operand(p))) refuse_changed(name);
      bucket.gradients[j] = low_precision_.prepare(convert(gradients.values[at], p, name), p);
      low_precision_.prepare_rounded(bucket, j);
    }
  }
  void forget_copies() noexcept {
    copies_.clear();
    for (Bucket& bucket : buckets_) bucket.copies.clear();
  }

  GroupRules rules_;                 // that `group_` was made by
  std::vector<std::size_t> group_;   // of each master; the number of groups: none
  std::vector<bool> is_updated_;     // of each master: by this optimizer
  std::vector<bool> is_first_step_;  // of each master: no accepted update with all of its state yet
  StepCounts steps_;
  std::vector<std::size_t> indices_;  // masters of the present step
  std::vector<std::size_t> made_;     // those whose state was made in it
  bool keeps_copies_ = false;         // of all buckets
  bool is_sorted_ = false;            // false: buckets_ must be made again
  std::int64_t window_bytes_ = 0;     // that buckets_ were made for; 0: no windows
  std::vector<Bucket> buckets_;
};

}  // namespace ikebana::detail
