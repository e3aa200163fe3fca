#pragma once
// The base of all optimizers: parameters in buckets by group, device and dtype; state made at the
// first gradient, saved and restored, and put back where a step fails.
#include <ikebana/detail/update_copies.hpp>
#include <ikebana/optimizer/bucket.hpp>
#include <ikebana/optimizer/group.hpp>
#include <ikebana/optimizer/low_precision_update.hpp>
#include <ikebana/optimizer/optimizer_values.hpp>
#include <ikebana/optimizer/step_counts.hpp>

namespace ikebana::detail {

template <class Policy>
class GroupedOptimizer : public OptimizerValues<Policy> {
 public:
  using carries_out = Policy;
  static constexpr bool takes_divisor = true;
  using OptimizerValues<Policy>::values;
  GroupedOptimizer(Policy v, std::vector<Slot> state_slots)
      : OptimizerValues<Policy>(std::move(v)), slots_(std::move(state_slots)) {}

  void begin(const Masters& masters) {
    begin(masters, [](std::size_t) { return true; });
  }
  /// `is_updated(i)`: true if this optimizer updates master `i`, false if another one does.
  template <class IsUpdated>
  void begin(const Masters& masters, const IsUpdated& is_updated) {
    low_precision_.begin(masters);
    steps_.resize(masters.values.size()), is_updated_.clear();
    is_first_step_.assign(masters.values.size(), true);
    for (std::size_t i = 0; i < masters.values.size(); ++i) is_updated_.push_back(is_updated(i));
    sort_into_groups(masters);
  }
  /// Puts back what a failed step changed. State that it made is freed.
  void abort() noexcept {
    copies_.put_back();
    steps_.forget(made_);
    for (std::size_t i : made_)
      for (Tensors& slot : state_) slot[i].reset();
    made_.clear(), indices_.clear(), buckets_.clear();
    is_sorted_ = false;
  }
  void end_step(const StepGradients&, Report&) noexcept {
    copies_.clear(), made_.clear();
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
    for (Bucket& bucket : buckets_) set_lr(bucket.lr, this->checked_rate(bucket.group, rate));
  }

 protected:
  using OptimizerValues<Policy>::check;
  using OptimizerValues<Policy>::decays;
  using OptimizerValues<Policy>::group_decay;
  using OptimizerValues<Policy>::group_lr;
  LowPrecisionUpdate low_precision_;

  /// Sorts masters into buckets if they changed since the last step, makes missing state of the
  /// first `slots` slots, and sets the buckets' gradients to `convert(gradient, parameter, name)`.
  template <class Rate, class Convert = decltype(dense_gradient)>
  void prepare_buckets(const Masters& masters, const StepGradients& gradients, const Rate& rate,
                       std::size_t state_slots, const Convert& convert = dense_gradient) {
    copies_.clear();
    add_slots(masters, state_slots);
    if (rules_.changed(values.groups)) sort_into_groups(masters);
    if (gradients.indices != indices_) {
      is_sorted_ = false;
      steps_.count(masters, gradients.indices, [&](std::size_t i) { make_state(masters, i); });
      indices_ = gradients.indices;
    }
    if (!is_sorted_) sort(masters);
    is_sorted_ = true;
    for (auto& bucket : buckets_) {
      if (bucket.first_step && recording()) this->refuse_recording();
      set_lr(bucket.lr, this->checked_rate(bucket.group, rate));
      bucket.weight_decay = group_decay(bucket.group);
      set_gradients(bucket, masters, gradients, convert);
    }
  }
  /// Counts a step in every bucket, then calls `call(bucket, divisor, found_inf)`. All changes of
  /// parameters by all optimizers happen within `call`, so that low_precision_ can surround it.
  /// With `waits_for_flag` the host waits for the device until the first update that is not
  /// rejected. Autograd's layer of the dispatcher is left out: it copies lists, and an allocation
  /// that fails between two buckets could not be undone.
  template <class Call>
  void update_buckets(const StepGradients& gradients, Call&& call, bool waits_for_flag = false) {
    at::AutoDispatchBelowAutograd below;
    auto option = [](const at::Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; };
    auto divisor = option(gradients.divisor), found_inf = option(gradients.found_inf);
    steps_.add_one(found_inf);
    for (auto& bucket : buckets_)
      low_precision_.update(bucket, [&](Bucket& b) { call(b, divisor, found_inf); });
    for (auto& bucket : buckets_)
      bucket.ends_first_step =
          bucket.first_step &&
          !(found_inf && (waits_for_flag || readable(*found_inf)) && number(*found_inf) != 0);
    forget_gradients();
  }
  /// Calls `keep(bucket, copies)`, which copies what will change, for the buckets whose update may
  /// fail. The copies are kept until the step is committed or undone.
  template <class MayFail, class Keep>
  void keep_if(const MayFail& may_fail, const Keep& keep) {
    for (const Bucket& bucket : buckets_)
      if (keeps_copies_ || may_fail(bucket)) keep(bucket, copies_);
    if (copies_.empty()) return;
    for (const at::Tensor& step : steps_.active()) copies_.keep(step);
  }
  /// The same where no update can fail, in `prepare`.
  void keep_if_asked() {
    keep_if([](const Bucket&) { return false; }, keep_whole);
  }
  UpdateCopies copies_;
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
  /// Saves or loads lr, weight_decay, groups, step counts and the first `slots` slots.
  void save(Archive& archive, const Masters& masters, std::size_t state_slots) {
    archive.number("lr", values.lr, &factor_range);
    if constexpr (decays) archive.number("weight_decay", values.weight_decay, &factor_range);
    save_groups(archive, values.groups);
    add_slots(masters, state_slots);
    for (std::size_t i = 0; i < masters.values.size(); ++i) {
      const at::Tensor& p = masters.values[i];
      const std::string& name = masters.names[i];
      bool has_steps =
          archive.optional(name + ".step", steps_[i], StepCounts<>::zero(p), &count_range);
      for (std::size_t k = 0; k < state_slots; ++k) {
        const at::Tensor operand = low_precision_.operand(p);
        at::Tensor like = slots_[k].make ? slots_[k](operand) : operand;
        if (!like.defined()) continue;
        std::string slot = name + "." + slots_[k].name;
        if (archive.optional(slot, state_[k][i], like) != has_steps)
          archive.add_missing(has_steps ? slot : name + ".step");
      }
      if (archive.loading()) is_first_step_[i] = !steps_[i].defined() || number(steps_[i]) == 0;
    }
    if (archive.loading()) steps_.share(), indices_.clear(), buckets_.clear();
  }

 private:
  /// Throws BadValue, and changes nothing, for a group that matches no parameter.
  void sort_into_groups(const Masters& masters) {
    group_ = group_of_each_parameter(values.groups, masters.names, masters.values,
                                     [&](std::size_t i) { return is_updated_[i]; });
    rules_.keep(values.groups);
    is_sorted_ = false;
  }
  /// Adds slots up to `slots`: at the beginning, and when a changed value needs more state.
  void add_slots(const Masters& masters, std::size_t state_slots) {
    check(rules_.size() == values.groups.size(),
          "groups were added or removed after the trainer was made. Change the lr and weight_decay "
          "of a group, or make a new trainer.");
    if (state_.size() >= state_slots) return;
    const std::size_t n = is_first_step_.size();
    std::vector<Tensors> all = state_;
    for (std::size_t k = state_.size(); k < state_slots; ++k) {
      Tensors& slot = all.emplace_back(n);
      for (std::size_t i = 0; i < n; ++i)
        if (steps_[i].defined()) slot[i] = slots_[k](low_precision_.operand(masters.values[i]));
    }
    state_ = std::move(all);
    is_sorted_ = false;
    std::fill(is_first_step_.begin(), is_first_step_.end(), true);  // the new slot was never used
  }
  void make_state(const Masters& masters, std::size_t i) {
    this->check_dtype(masters, i), made_.push_back(i);
    for (std::size_t k = 0; k < state_.size(); ++k)
      state_[k][i] = slots_[k](low_precision_.operand(masters.values[i]));
  }
  void sort(const Masters& masters) {
    if (recording()) this->refuse_recording();
    buckets_.clear();
    for (std::size_t i : indices_) add(bucket_of(i, masters.values[i]), i, masters.values[i]);
    for (auto& bucket : buckets_) bucket.gradients.resize(bucket.indices.size());
  }
  Bucket& bucket_of(std::size_t i, const at::Tensor& p) {
    for (auto& b : buckets_)
      if (b.group == group_[i] && b.first_step == is_first_step_[i] &&
          b.parameters[0].device() == p.device() &&
          b.parameters[0].scalar_type() == p.scalar_type())
        return b;
    auto type = p.is_cpu() ? at::kDouble : at::kFloat;
    buckets_.push_back({.group = group_[i],
                        .first_step = is_first_step_[i],
                        .lr = at::zeros({}, p.options().dtype(type).requires_grad(false))});
    buckets_.back().state.resize(state_.size());
    return buckets_.back();
  }
  void add(Bucket& bucket, std::size_t i, const at::Tensor& p) {
    bucket.indices.push_back(i);
    bucket.parameters.push_back(p);
    bucket.steps.push_back(steps_[i]);
    for (std::size_t k = 0; k < state_.size(); ++k) bucket.state[k].push_back(state_[k][i]);
  }
  template <class Convert>
  void set_gradients(Bucket& bucket, const Masters& masters, const StepGradients& gradients,
                     const Convert& convert) {
    std::size_t at = 0;
    for (std::size_t j = 0; j < bucket.indices.size(); ++j) {
      while (gradients.indices[at] != bucket.indices[j]) ++at;
      const at::Tensor& p = bucket.parameters[j];
      const std::string& name = masters.names[bucket.indices[j]];
      if (!state_matches(bucket, j))
        throw BadModel("optimizer: `" + name +
                       "` changed its shape, type, device or memory format after its state was "
                       "made. Change the model before the trainer is made.");
      bucket.gradients[j] = low_precision_.prepare(convert(gradients.values[at], p, name), p);
      low_precision_.prepare_rounded(bucket, j);
    }
  }
  bool state_matches(const Bucket& bucket, std::size_t j) {
    for (std::size_t k = 0; k < bucket.state.size(); ++k)
      if (const at::Tensor& state = bucket.state[k][j]; state.defined())
        return slots_[k].matches(state, low_precision_.operand(bucket.parameters[j]));
    return true;
  }

  std::vector<Slot> slots_;
  GroupRules rules_;                 // that `group_` was made by
  std::vector<std::size_t> group_;   // of each master; the number of groups: none
  std::vector<bool> is_updated_;     // of each master: by this optimizer
  std::vector<bool> is_first_step_;  // of each master: no accepted update with all of its state yet
  StepCounts<> steps_;
  std::vector<std::size_t> indices_;  // masters of the present step
  std::vector<std::size_t> made_;     // those whose state was made in it
  bool keeps_copies_ = false;         // of all buckets
  bool is_sorted_ = false;            // false: buckets_ must be made again
  std::vector<Tensors> state_;        // by slot, then by master
  std::vector<Bucket> buckets_;
};

}  // namespace ikebana::detail
