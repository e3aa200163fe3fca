#pragma once
// The base of optimizers for which LibTorch has no fused operator. They update one parameter after
// the other, and do what fused operators do inside: divide the gradient, and change nothing if the
// step is rejected.
#include <ikebana/optimizer/grouped.hpp>
#include <ikebana/optimizer/scratch.hpp>

namespace ikebana::detail {

/// The update of one parameter of a bucket.
class ParameterUpdate {
 public:
  Scratch& scratch;
  const bool on_device;  ///< true: LibTorch's operators do the work, and the host reads nothing

  ParameterUpdate(Bucket& bucket, std::size_t index, Scratch& memory,
                  const std::optional<at::Tensor>& divisor, bool is_on_device)
      : scratch(memory),
        on_device(is_on_device),
        bucket_(bucket),
        index_(index),
        divisor_(divisor) {}

  const at::Tensor& parameter() const { return bucket_.parameters[index_]; }
  const at::Tensor& state(std::size_t slot) const { return bucket_.state[slot][index_]; }
  double weight_decay() const { return bucket_.weight_decay; }

  /// The gradient, divided in place by the first call, as fused operators do. The caller may
  /// overwrite it.
  const at::Tensor& gradient() const {
    const at::Tensor& gradient = undivided();
    if (divisor_ && !divided_) elements_of(gradient).div_(*divisor_);
    divided_ = true;
    return gradient;
  }
  /// The gradient for loops that divide each element by `divisor()` themselves.
  const at::Tensor& undivided() const { return bucket_.gradients[index_]; }
  double divisor() const { return divisor_ ? number(*divisor_) : 1; }

  double lr() const { return as_number(bucket_.lr, 0.0); }
  double step() const { return as_number(bucket_.steps[index_], 0.0); }
  /// Calls `f(lr, step)` with doubles where the host may read them, else with tensors.
  template <class F>
  void with_lr_and_step(const F& f) const {
    if (on_device) f(bucket_.lr, bucket_.steps[index_]);
    else f(lr(), step());
  }

 private:
  Bucket& bucket_;
  std::size_t index_;
  const std::optional<at::Tensor>& divisor_;
  mutable bool divided_ = false;
};

template <class Policy>
class PerParameterOptimizer : public GroupedOptimizer<Policy> {
 public:
  using GroupedOptimizer<Policy>::GroupedOptimizer;

  void abort() noexcept {
    GroupedOptimizer<Policy>::abort();
    scratch_.release();
  }

 protected:
  /// True where the update uses LibTorch's operators and reads nothing on the host.
  bool on_device(const at::Tensor& p) const { return as_on_device_ || !readable(p); }
  bool as_on_device_ = false;  ///< for tests: take the device's implementation on a CPU, too
  bool by_operators_ = false;  ///< on a CPU, too, the update uses operators, and may fail

  /// As `prepare_buckets`. `scratch_bytes(parameter, gradient)` is the scratch of one update.
  template <class Rate, class ScratchBytes, class... Convert>
  void prepare_each(const Masters& masters, const StepGradients& gradients, const Rate& rate,
                    std::size_t state_slots, const ScratchBytes& scratch_bytes,
                    const Convert&... convert) {
    this->prepare_buckets(masters, gradients, rate, state_slots, convert...);
    this->each_bucket([&](Bucket& b) {
      std::int64_t max = 0;
      for (std::size_t j = 0; j < b.indices.size(); ++j) {
        const at::Tensor p = this->low_precision_.operand(b.parameters[j]);
        const at::Tensor g = this->low_precision_.operand(b.gradients[j], b.parameters[j]);
        max = std::max(max, scratch_bytes(p, g));
      }
      scratch_.reserve(max, b.parameters[0].device());
    });
  }
  /// Calls `apply(update)` for each parameter. For buckets that are updated by operators,
  /// `keep(bucket)` first makes room for copies of what will change: it is put back where an
  /// operator fails, or where the device rejects the step.
  template <class Apply, class Keep>
  void each_parameter(const StepGradients& gradients, const Apply& apply, const Keep& keep) {
    this->keep_if([&](const Bucket& b) { return may_fail(b.parameters[0]); }, keep);
    auto update = [&](Bucket& b, const auto& divisor, const auto& found_inf) {
      const bool is_on_device = on_device(b.parameters[0]);
      if (!is_on_device && found_inf && number(*found_inf) != 0) return;
      for (std::size_t j = 0; j < b.indices.size(); ++j) {
        scratch_.clear();
        apply(ParameterUpdate(b, j, scratch_, divisor, is_on_device));
      }
    };
    auto put_back = [&](const UpdateCopies& copies) {
      if (gradients.found_inf.defined()) copies.put_back_if(gradients.found_inf);
    };
    this->update_buckets(gradients, update, /*waits_for_flag=*/false, put_back);
    put_back(this->copies_);
    scratch_.release();
  }
  /// The same, for updates that change whole parameters and all of their state.
  template <class Apply>
  void update_each(const StepGradients& gradients, const Apply& apply) {
    each_parameter(gradients, apply, keep_whole);
  }

 private:
  bool may_fail(const at::Tensor& p) const { return by_operators_ || on_device(p); }

  Scratch scratch_;
};

}  // namespace ikebana::detail
