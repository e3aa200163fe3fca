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
#include <iterator>
#include <optional>

namespace ikebana::detail {

class ReadyBuckets;

/// The divisor and the flag of a step, while its update runs. Leaves out autograd's layer of the
/// dispatcher, which copies lists: an allocation that fails between two buckets could not be
/// undone.
struct UpdateScope {
  at::AutoDispatchBelowAutograd below_autograd;
  std::optional<at::Tensor> divisor, found_inf;

  explicit UpdateScope(const StepGradients& gradients);
};
/// Options of the loop over `ready_buckets`.
struct UpdateOptions {
  /// The host waits for the device's flag in each step up to the first accepted update.
  bool waits_for_flag = false;
  /// The update does not read the flag on a device: if that rejects the step, each bucket and the
  /// step counts are put back from their copies.
  bool puts_back = false;
};
/// Makes room for copies of what the update of a bucket changes.
using KeepCopies = c10::function_ref<void(MasterBucket&)>;
/// Makes the gradient that an update uses from the gradient that backward computed.
using ConvertGradient = c10::function_ref<at::Tensor(
    const at::Tensor& gradient, const at::Tensor& parameter, const std::string& name)>;

/// The part of GroupedOptimizer that does not depend on the policy, whose values it is passed.
class ParameterBuckets {
 public:
  ParameterBuckets(std::vector<Slot> state_slots, std::optional<std::size_t> used);
  ParameterBuckets(ParameterBuckets&&) noexcept;
  ParameterBuckets& operator=(ParameterBuckets&&) noexcept;
  ~ParameterBuckets();

 protected:
  LowPrecisionUpdate low_precision_;
  OptimizerState state_;
  std::vector<MasterBucket> buckets_;
  UpdateCopies copies_;  // step counts before the update; buckets keep the rest

  void begin_buckets(const std::vector<Group>& groups, const Masters& masters,
                     c10::function_ref<bool(std::size_t)> is_updated);
  void abort_buckets() noexcept;
  void end_step_of_buckets() noexcept;
  void keep_copies_of_buckets() noexcept { keeps_copies_ = true; }
  void set_numbers_of_buckets(const PolicyValues& of, const RateRef& rate);
  /// Sorts masters into buckets if they changed since the last step, makes missing state of the
  /// first `state_slots` slots, and sets the buckets' gradients to `convert(gradient, parameter,
  /// name)`. `rate_is_number`: the update takes the lr of a device by `Bucket::with_lr`.
  void prepare_with(const PolicyValues& of, const RateRef& rate, bool rate_is_number,
                    const Masters& masters, const StepGradients& gradients, std::size_t state_slots,
                    ConvertGradient convert);
  /// The buckets of this step, for the loop that updates them.
  ReadyBuckets ready_buckets(const StepGradients& gradients, const UpdateOptions& options = {});
  /// Counts a step in every bucket. Returns false, and counts nothing, if the host knows that the
  /// update is rejected and windows need not be opened for it. All buckets are updated between this
  /// and `end_update`.
  bool begin_update(const UpdateScope& scope);
  void end_update(const UpdateScope& scope, bool waits_for_flag);
  /// Calls `keep(bucket)` for the buckets whose update may fail, and for all if `keep_copies` was
  /// called. The copies are kept until the step is committed or undone.
  void keep_if(c10::function_ref<bool(const Bucket&)> may_fail, KeepCopies keep = keep_whole);
  /// As `keep_if`, for updates that cannot fail: keeps copies if `keep_copies` was called. Is
  /// called in `prepare`.
  void keep_if_asked();
  void forget_gradients() noexcept;
  /// Saves or loads lr, weight_decay (null if the policy has no such field), groups, step counts
  /// and the first `state_slots` slots.
  void save_buckets(Archive& archive, const Masters& masters, std::size_t state_slots, double& lr,
                    double* weight_decay, std::vector<Group>& groups);

 private:
  friend class ReadyBuckets;

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
  MasterBucket& bucket_of(std::size_t i, const at::Tensor& p);
  void add(MasterBucket& bucket, std::size_t i, const at::Tensor& p);
  void set_gradients(MasterBucket& bucket, const Masters& masters, const StepGradients& gradients,
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
  std::int64_t window_bytes_ = 0;     // for which buckets_ were made; 0: no windows
};

/// The buckets of a step in a loop that updates each of them:
/// `for (auto ready = ready_buckets(gradients); const Bucket& b : ready)`. The loop first counts
/// the step. In its body the window of the bucket's state is open, and copies of what may be undone
/// have been taken. A parameter whose update is rounded comes alone, in FP32, and is rounded and
/// written back after the body. If the body throws, nothing is written back, the window closes, and
/// `abort` puts back what has changed. The body must not leave the loop by `break` or `return`.
class ReadyBuckets : public UpdateScope {
 public:
  class Iterator {
   public:
    explicit Iterator(ReadyBuckets& all) : all_(all) {}
    const Bucket& operator*() const { return *all_.present_; }
    Iterator& operator++() {
      all_.next();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return all_.present_ == nullptr; }

   private:
    ReadyBuckets& all_;
  };

  ReadyBuckets(ParameterBuckets& owner, const StepGradients& gradients,
               const UpdateOptions& options);
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  void open();  // the bucket at `place_`, or ends the update after the last one
  void next();

  ParameterBuckets& owner_;
  UpdateOptions options_;
  std::size_t place_ = 0, in_fp32_ = 0;  // the present bucket, and its parameter if it is rounded
  const Bucket* present_ = nullptr;      // null: all are updated
  std::optional<StateWindow> window_;
};

/// The base of an optimizer that calls an operator for each bucket of parameters. `Policy` has
/// `lr` and `groups`, and perhaps `weight_decay`, `betas`, `eps` and `momentum`, which groups may
/// have as well; all may change between steps. The derived mechanism has `prepare`, which calls
/// `prepare_buckets` and `keep_if_asked`, `update`, a loop over `ready_buckets`, and `state`, which
/// calls `save`. An update that may throw calls `keep_if` before the loop. `Buckets` do the work.
template <class Policy, class Buckets = ParameterBuckets>
class GroupedOptimizer : public OptimizerHooks, protected Buckets {
 public:
  using carries_out = Policy;
  static constexpr bool takes_divisor = true;  ///< the update divides, and reads the flag
  Policy values;                               ///< the values of this step
  /// The initial values need the first `used` slots, or all if that is left out.
  GroupedOptimizer(Policy v, std::vector<Slot> state_slots, std::optional<std::size_t> used = {})
      : Buckets(std::move(state_slots), used), values(std::move(v)) {}

  double base_lr() const { return values.lr; }  ///< the lr before the schedule
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
  /// The step is committed: drops the copies that undo it.
  void end_step(const StepGradients&, Report&) noexcept { this->end_step_of_buckets(); }
  /// From now on `abort` also undoes updates that have ended: others may fail after them.
  void keep_copies() noexcept { this->keep_copies_of_buckets(); }
  /// Calls `visit(lr)` with the tensors that a recorded step reads.
  template <class Visit>
  void each_number(const Visit& visit) const {
    for (const Bucket& bucket : this->buckets_) visit(bucket.lr);
  }
  /// Sets those tensors before a replay. Throws BadValue if other numbers have changed.
  void set_numbers(const RateRef& rate) {
    this->set_numbers_of_buckets(this->policy_values(), rate);
  }

 protected:
  /// Set by an optimizer whose update takes the lr of a device by `Bucket::with_lr`.
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

namespace ikebana {
using detail::GroupedOptimizer;
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/grouped.ipp>
#endif
