#pragma once
// Parameters in buckets by group, device and dtype, with their state, step counts and gradients:
// what optimizers have in common, whatever their policy.
#include <ikebana/detail/update_copies.hpp>
#include <ikebana/optimizer/engine/bucket.hpp>
#include <ikebana/optimizer/engine/low_precision_update.hpp>
#include <ikebana/optimizer/engine/optimizer_state.hpp>
#include <ikebana/optimizer/engine/optimizer_values.hpp>
#include <ikebana/optimizer/engine/step_counts.hpp>
#include <ikebana/optimizer/group.hpp>

namespace ikebana::detail {

/// What `update_buckets` and `count_and_update` call: an update of one bucket, or of all.
using BucketUpdate = c10::function_ref<void(Bucket&, const std::optional<at::Tensor>& divisor,
                                            const std::optional<at::Tensor>& found_inf)>;
using WholeUpdate = c10::function_ref<void(const std::optional<at::Tensor>& divisor,
                                           const std::optional<at::Tensor>& found_inf)>;
/// The gradient that an update uses, made of the one that was computed.
using ConvertGradient = c10::function_ref<at::Tensor(
    const at::Tensor& gradient, const at::Tensor& parameter, const std::string& name)>;

/// The plain part of GroupedOptimizer, whose functions pass it the values of their policy.
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
  UpdateCopies copies_;  // of step counts; those of a bucket are its own

  void begin_buckets(const std::vector<Group>& groups, const Masters& masters,
                     c10::function_ref<bool(std::size_t)> is_updated);
  void abort_buckets() noexcept;
  void end_step_of_buckets() noexcept;
  void keep_copies_of_buckets() noexcept { keeps_copies_ = true; }
  void set_numbers_of_buckets(const PolicyValues& of, const RateRef& rate);
  /// Sorts masters into buckets if they changed since the last step, makes missing state of the
  /// first `slots` slots, and sets the buckets' gradients to `convert(gradient, parameter, name)`.
  /// `rate_is_number`: the update takes the lr of a device by `with_rate`.
  void prepare_with(const PolicyValues& of, const RateRef& rate, bool rate_is_number,
                    const Masters& masters, const StepGradients& gradients, std::size_t state_slots,
                    ConvertGradient convert);
  static void keep_update(const UpdateCopies&) noexcept {}
  /// Counts a step in every bucket, then calls `call(bucket, divisor, found_inf)`, within the
  /// bucket's window if it has one, and `end(copies)` with those of the bucket. With
  /// `waits_for_flag` the host waits for the device until the first update that is not rejected.
  void update_buckets(const StepGradients& gradients, BucketUpdate call,
                      bool waits_for_flag = false,
                      c10::function_ref<void(const UpdateCopies&)> end = keep_update);
  /// The same without windows: `update(divisor, found_inf)` updates all buckets, by low_precision_.
  /// Autograd's layer of the dispatcher is left out: it copies lists, and an allocation that fails
  /// between two buckets could not be undone.
  void count_and_update(const StepGradients& gradients, WholeUpdate update,
                        bool waits_for_flag = false);
  /// Calls `keep(bucket)`, which makes room for copies of what will change, for the buckets whose
  /// update may fail. The copies are kept until the step is committed or undone.
  void keep_if(c10::function_ref<bool(const Bucket&)> may_fail,
               c10::function_ref<void(Bucket&)> keep);
  /// The same where no update can fail, in `prepare`.
  void keep_if_asked();
  void each_bucket(c10::function_ref<void(Bucket&)> visit);
  /// Calls `visit(tensor)` for the lr of each bucket.
  void each_lr(c10::function_ref<void(const at::Tensor&)> visit) const;
  void forget_gradients() noexcept;
  /// Saves or loads lr, weight_decay (null: there is none), groups, step counts and the first
  /// `state_slots` slots.
  void save_buckets(Archive& archive, const Masters& masters, std::size_t state_slots, double& lr,
                    double* weight_decay, std::vector<Group>& groups);

 private:
  /// Throws BadValue, and changes nothing, for a group that matches no parameter.
  void sort_into_groups(const std::vector<Group>& groups, const Masters& masters);
  /// Adds slots up to `slots`: at the beginning, and when a changed value needs more state.
  void add_slots(const std::vector<Group>& groups, const Masters& masters, std::size_t state_slots);
  void make_state(const Masters& masters, std::size_t i);
  /// Of a parameter that gets a gradient: fused operators have no kernels for others.
  static void check_dtype(const Masters& masters, std::size_t i);
  /// What is made in a recorded step would be made anew by each replay, and the operators of a
  /// first update are others than those of later ones.
  [[noreturn]] static void refuse_recording();
  void sort(const Masters& masters);
  /// The last bucket of such parameters, or a new one where its window has no room.
  Bucket& bucket_of(std::size_t i, const at::Tensor& p);
  void add(Bucket& bucket, std::size_t i, const at::Tensor& p);
  void set_gradients(Bucket& bucket, const Masters& masters, const StepGradients& gradients,
                     ConvertGradient convert);
  void forget_copies() noexcept;

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

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/parameter_buckets.ipp>
#endif
