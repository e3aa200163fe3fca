#pragma once
// Updates of one parameter after the other: what optimizers without a fused operator have in
// common, whatever their policy.
#include <ikebana/optimizer/engine/cut_parameter.hpp>
#include <ikebana/optimizer/engine/parameter_buckets.hpp>
#include <ikebana/optimizer/engine/update_in_parts.hpp>
#include <ikebana/ranks/step_calls.hpp>

namespace ikebana::detail {

/// How many bytes of scratch the update of a parameter uses.
using ScratchBytes =
    c10::function_ref<std::int64_t(const at::Tensor& parameter, const at::Tensor& gradient)>;

/// The plain part of PerParameterOptimizer, whose functions pass it what they know of their policy.
class ParameterUpdates : public ParameterBuckets {
 public:
  using ParameterBuckets::ParameterBuckets;

 protected:
  /// True where the update uses LibTorch's operators and reads nothing on the host.
  bool on_device(const at::Tensor& p) const { return as_on_device_ || !on_host(p); }
  bool as_on_device_ = false;  ///< for tests: take the device's implementation on a CPU, too
  bool by_operators_ = false;  ///< on a CPU, too, the update uses operators, and may fail
  bool in_parts_ = false;      ///< those of large parameters part after part of their elements
  /// An element's update depends on other elements: it is given no slices, unless `updates_cut_`
  /// says that it calls `update_cut` where `ranks_` is not null.
  bool needs_whole_ = false, updates_cut_ = false;
  RankGroup* ranks_ = nullptr;  ///< among which parameters are cut; null: all are whole

  /// At the beginning; `refuse(masters, i)` throws for a slice.
  void check_slices(const Masters& masters, c10::function_ref<bool(std::size_t)> is_updated,
                    const OptimizerFields& of,
                    c10::function_ref<void(const Masters&, std::size_t)> refuse);
  void abort_updates() noexcept;
  void reserve_scratch(ScratchBytes scratch_bytes);
  /// Calls `apply(update)` for each parameter. For buckets that are updated by operators,
  /// `keep(bucket)` first makes room for copies of what will change: it is put back where an
  /// operator fails, or where the device rejects the step.
  void each_parameter(const StepGradients& gradients, ApplyUpdate apply,
                      c10::function_ref<void(Bucket&)> keep);
  /// The same, for updates that change whole parameters and all of their state.
  void update_each(const StepGradients& gradients, ApplyUpdate apply);
  /// As `update_cut` of PerParameterOptimizer.
  void update_cut_of(const OptimizerFields& of, const StepGradients& gradients,
                     c10::function_ref<void(std::vector<CutParameter>&)> apply);

 private:
  /// Throws BadModel where another rank has gradients of other parameters: they would exchange
  /// numbers of different ones.
  void meet_others(const OptimizerFields& of, const StepGradients& gradients);
  static void refuse_window(const OptimizerFields& of, const Bucket& bucket);
  void check_cut(const OptimizerFields& of, const Masters& masters, std::size_t i) const;
  bool may_fail(const at::Tensor& p) const { return by_operators_ || on_device(p); }

  Scratch scratch_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/parameter_updates.ipp>
#endif
