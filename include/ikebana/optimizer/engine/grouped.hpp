#pragma once
// Defines the base of all optimizers: parameters in buckets by group, device and dtype; state made
// at the first gradient, saved and restored, and put back if a step fails.
#include <ikebana/detail/update_copies.hpp>
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/optimizer/engine/bucket.hpp>
#include <ikebana/optimizer/engine/low_precision_update.hpp>
#include <ikebana/optimizer/engine/optimizer_state.hpp>
#include <ikebana/optimizer/engine/policy_values.hpp>
#include <ikebana/optimizer/engine/step_counts.hpp>
#include <ikebana/optimizer/group.hpp>

namespace ikebana::detail {

/// An update of one bucket.
using BucketUpdate = c10::function_ref<void(Bucket&, const std::optional<at::Tensor>& divisor,
                                            const std::optional<at::Tensor>& found_inf)>;
/// The divisor and the flag of a step, while its update runs. Leaves out autograd's layer of the
/// dispatcher, which copies lists: an allocation that fails between two buckets could not be
/// undone.
struct UpdateScope {
  at::AutoDispatchBelowAutograd below_autograd;
  std::optional<at::Tensor> divisor, found_inf;

  explicit UpdateScope(const StepGradients& gradients);
};
/// Makes the gradient that an update uses from the gradient that backward computed.
using ConvertGradient = c10::function_ref<at::Tensor(
    const at::Tensor& gradient, const at::Tensor& parameter, const std::string& name)>;

/// The part of GroupedOptimizer that does not depend on the policy, whose values it is passed.
class ParameterBuckets {
 public:
  ParameterBuckets(std::vector<Slot> state_slots, std::optional<std::size_t> used);
  ParameterBuckets(const ParameterBuckets&);
  ParameterBuckets(ParameterBuckets&&) noexcept;
  ParameterBuckets& operator=(const ParameterBuckets&);
  ParameterBuckets& operator=(ParameterBuckets&&) noexcept;
  ~ParameterBuckets();

 protected:
  LowPrecisionUpdate low_precision_;
  OptimizerState state_;
  UpdateCopies copies_;  // the copies of step counts; each bucket has the copies of its tensors

  void begin_buckets(const std::vector<Group>& groups, const Masters& masters,
                     c10::function_ref<bool(std::size_t)> is_updated);
  void abort_buckets() noexcept;
  void end_step_of_buckets() noexcept;
  void keep_copies_of_buckets() noexcept { keeps_copies_ = true; }
  void set_numbers_of_buckets(const PolicyValues& of, const RateRef& rate);
  /// Sorts masters into buckets if they changed since the last step, makes missing state of the
  /// first `state_slots` slots, and sets the buckets' gradients to `convert(gradient, parameter,
  /// name)`. `rate_is_number`: the update takes the lr of a device by `with_rate`.
  void prepare_with(const PolicyValues& of, const RateRef& rate, bool rate_is_number,
                    const Masters& masters, const StepGradients& gradients, std::size_t state_slots,
                    ConvertGradient convert);
  static void keep_update(const UpdateCopies&) noexcept {}
  /// Counts a step in every bucket, then calls `call(bucket, divisor, found_inf)`, within the
  /// bucket's window if it has one, and `end(copies)` with the copies of the bucket. With
  /// `waits_for_flag` the host waits for the device in each step up to the first accepted update.
  void update_buckets(const StepGradients& gradients, BucketUpdate call,
                      bool waits_for_flag = false,
                      c10::function_ref<void(const UpdateCopies&)> end = keep_update);
  /// Counts a step in every bucket. Returns false, and counts nothing, if the host knows that the
  /// update is rejected and windows need not be opened for it. All buckets are updated between this
  /// and `end_update`.
  bool begin_update(const UpdateScope& scope);
  void end_update(const UpdateScope& scope, bool waits_for_flag);
  /// Calls `keep(bucket)`, which makes room for copies of what will change, for the buckets whose
  /// update may fail. The copies are kept until the step is committed or undone.
  void keep_if(c10::function_ref<bool(const Bucket&)> may_fail,
               c10::function_ref<void(Bucket&)> keep);
  /// Does what `keep_if` does, for updates that cannot fail: keeps copies if `keep_copies` was
  /// called. Is called in `prepare`.
  void keep_if_asked();
  void each_bucket(c10::function_ref<void(Bucket&)> visit);
  /// Calls `visit(tensor)` for the lr of each bucket.
  void each_lr(c10::function_ref<void(const at::Tensor&)> visit) const;
  void forget_gradients() noexcept;
  /// Saves or loads lr, weight_decay (null if the policy has no such field), groups, step counts
  /// and the first `state_slots` slots.
  void save_buckets(Archive& archive, const Masters& masters, std::size_t state_slots, double& lr,
                    double* weight_decay, std::vector<Group>& groups);

 private:
  /// Throws BadValue and changes nothing if a group matches no parameter.
  void sort_into_groups(const std::vector<Group>& groups, const Masters& masters);
  /// Adds slots up to `state_slots`: at the beginning, and when a changed value needs more state.
  void add_slots(const std::vector<Group>& groups, const Masters& masters, std::size_t state_slots);
  void make_state(const Masters& masters, std::size_t i);
  /// Throws BadValue for a parameter of a dtype for which fused operators have no kernels.
  static void check_dtype(const Masters& masters, std::size_t i);
  /// Throws BadValue: each replay would make again the state that a recorded step makes, and the
  /// operators of a first update are not the operators of later updates.
  [[noreturn]] static void refuse_recording();
  void sort(const Masters& masters);
  /// Returns the last bucket of such parameters, or a new one if its window has no room.
  Bucket& bucket_of(std::size_t i, const at::Tensor& p);
  void add(Bucket& bucket, std::size_t i, const at::Tensor& p);
  void set_gradients(Bucket& bucket, const Masters& masters, const StepGradients& gradients,
                     ConvertGradient convert);
  void forget_copies() noexcept;

  GroupRules rules_;                 // the rules from which `group_` was made
  std::vector<std::size_t> group_;   // the group of each master; the number of groups if it has no
                                     // group
  std::vector<bool> is_updated_;     // whether this optimizer updates it, for each master
  std::vector<bool> is_first_step_;  // whether no update with all of its state was accepted, for
                                     // each master
  StepCounts steps_;
  std::vector<std::size_t> indices_;  // masters of the present step
  std::vector<std::size_t> made_;     // masters whose state was made in this step
  bool keeps_copies_ = false;         // whether all buckets keep copies in every step
  bool is_sorted_ = false;            // false: buckets_ must be made again
  std::int64_t window_bytes_ = 0;     // the size for which buckets_ were made; 0: no windows
  std::vector<Bucket> buckets_;
};

/// A policy with `lr` and `groups`, and perhaps `weight_decay`, `betas`, `eps` and `momentum`,
/// which groups may have as well; all may change between steps. `Buckets` do the work.
template <class Policy, class Buckets = ParameterBuckets>
class GroupedOptimizer : public OptimizerHooks, protected Buckets {
 public:
  using carries_out = Policy;
  static constexpr bool takes_divisor = true;
  Policy values;
  /// The initial values need the first `used` slots, or all if that is left out.
  GroupedOptimizer(Policy v, std::vector<Slot> state_slots, std::optional<std::size_t> used = {})
      : Buckets(std::move(state_slots), used), values(std::move(v)) {}

  double base_lr() const { return values.lr; }
  /// Calls `visit(lr)` with the learning rate of each group, then that of the other parameters.
  template <class Rate, class Visit>
  void each_rate(const Rate& rate, const Visit& visit) const {
    for (std::size_t g = 0; g <= values.groups.size(); ++g) visit(checked_rate(g, rate));
  }
  /// Returns true if the policy or a group has a momentum.
  bool any_momentum() const { return policy_values().any_momentum(); }

  /// `is_updated(i)` returns true if this optimizer updates master `i`, and false if another one
  /// does.
  void begin(const Masters& masters,
             c10::function_ref<bool(std::size_t)> is_updated = EveryMaster()) {
    this->begin_buckets(values.groups, masters, is_updated);
  }
  /// Puts back what a failed step changed. State that it made is freed.
  void abort() noexcept { this->abort_buckets(); }
  void end_step(const StepGradients&, Report&) noexcept { this->end_step_of_buckets(); }
  /// From now on `abort` also undoes updates that have ended: others may fail after them.
  void keep_copies() noexcept { this->keep_copies_of_buckets(); }
  template <class Visit>
  void each_number(const Visit& visit) const {
    this->each_lr([&](const at::Tensor& lr) { visit(lr); });
  }
  void set_numbers(const RateRef& rate) {
    this->set_numbers_of_buckets(this->policy_values(), rate);
  }

 protected:
  /// Set by an optimizer whose update takes the lr of a device by `with_rate`.
  bool rate_is_number_ = false;
  static constexpr bool decays = requires(Policy v) { v.weight_decay; };
  static constexpr bool has_betas = requires(Policy v) { v.betas; };
  static constexpr bool has_eps =
      requires(Policy v) { requires std::same_as<decltype(v.eps), double>; };
  static constexpr bool has_momentum = requires(Policy v) { v.momentum; };

  static OptimizerFields fields() {
    return {decays, has_betas, has_eps, has_momentum, &type_name<Policy>};
  }
  static PolicyValues values_of(const Policy& v) {
    GroupNumbers n;
    if constexpr (decays) n.weight_decay = v.weight_decay;
    if constexpr (has_betas) n.betas = v.betas;
    if constexpr (has_eps) n.eps = v.eps;
    if constexpr (has_momentum) n.momentum = v.momentum;
    return {fields(), v.lr, n, v.groups};
  }
  PolicyValues policy_values() const { return values_of(values); }
  /// Throws BadValue if `good` is false. `what` is a text, or a function that makes one, since
  /// every step calls this.
  template <class Text>
  static void check(bool good, const Text& what) {
    if (good) return;
    if constexpr (std::is_invocable_v<const Text&>) refuse_value(what());
    else refuse_value(what);
  }
  void check_rate() const { policy_values().check_rate(); }
  void check_betas() const { policy_values().check_betas(); }
  void check_eps() const { policy_values().check_eps(); }

  /// Returns the learning rate of a group in this step.
  double checked_rate(std::size_t g, const RateRef& rate) const {
    return policy_values().checked_rate(g, rate);
  }
  /// Returns true if the policy or a group has a momentum, by its values or in this step.
  bool any_momentum(const RateRef& rate) const { return policy_values().any_momentum(rate); }

  /// Sorts masters into buckets if they changed since the last step, makes missing state of the
  /// first `state_slots` slots, and sets the buckets' gradients to `convert(gradient, parameter,
  /// name)`.
  void prepare_buckets(const Masters& masters, const StepGradients& gradients, const RateRef& rate,
                       std::size_t state_slots, ConvertGradient convert = dense_gradient) {
    this->prepare_with(this->policy_values(), rate, this->rate_is_number_, masters, gradients,
                       state_slots, convert);
  }
  /// Saves or loads lr, weight_decay, groups, step counts and the first `state_slots` slots.
  void save(Archive& archive, const Masters& masters, std::size_t state_slots) {
    double* weight_decay = nullptr;
    if constexpr (decays) weight_decay = &values.weight_decay;
    this->save_buckets(archive, masters, state_slots, values.lr, weight_decay, values.groups);
  }
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/grouped.ipp>
#endif
